"""Adds numbers up over all ranks, knowing only its environment: a stand-in for a PyTorch script.

With PyTorch the class below is one line, and nothing else changes:

    torch.distributed.init_process_group("gloo")   # reads the same four variables
    torch.distributed.all_reduce(tensor)
"""

import os
import socket
import struct
import sys
import time


def connect(address, deadline):
    """Rank 0 may not listen yet."""
    while True:
        try:
            return socket.create_connection(address, timeout=60)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


class Group:
    """All ranks meet at MASTER_ADDR:MASTER_PORT, where rank 0 adds up."""

    def __init__(self):
        self.rank = int(os.environ["RANK"])
        self.world_size = int(os.environ["WORLD_SIZE"])
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if self.rank == 0:
            with socket.create_server(address) as server:
                self.peers = [server.accept()[0] for _ in range(self.world_size - 1)]
        else:
            self.peers = [connect(address, time.monotonic() + 60)]

    def all_reduce(self, value):
        if self.rank != 0:
            self.peers[0].sendall(struct.pack("<d", value))
            return self.receive(self.peers[0])
        total = value + sum(self.receive(peer) for peer in self.peers)
        for peer in self.peers:
            peer.sendall(struct.pack("<d", total))
        return total

    @staticmethod
    def receive(peer):
        data = b""
        while len(data) < 8:
            part = peer.recv(8 - len(data))
            if not part:
                raise ConnectionError("a rank is gone")
            data += part
        return struct.unpack("<d", data)[0]


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    group = Group()
    for step in range(steps):
        total = group.all_reduce(group.rank + 1.0)
        print(f"step {step}: rank {group.rank} of {group.world_size}, sum {total:g}", flush=True)


if __name__ == "__main__":
    main()
