"""A node of the ledger tests that is the reference peer's: as ledger_node.cc, same arguments.

MODE is train or inference. Its program takes every batch at once, so MAX_BITE and SEED say nothing.
"""

import struct
import sys
import threading
import time

import node_stub


class LoggingNode(node_stub.NodeStub):
    """Writes every row down before anybody else can know of it."""

    def __init__(self, log, **options):
        super().__init__(**options)
        self._file = open(log, "ab", buffering=0)

    def _program_takes(self, session, first_row, record_batch):
        ids = record_batch.column("id").to_pylist()
        names = record_batch.column("name").to_pylist()
        for row, name in zip(ids, names):
            in_epoch = row % 1_000_000_000
            assert name == f"p{in_epoch // 1_000_000}r{in_epoch % 1_000_000}", (row, name)
        self._file.write(struct.pack(f"<{2 * len(ids)}q", *ids, *(-1 - row for row in ids)))
        super()._program_takes(session, first_row, record_batch)


def wait_for_end(path):
    while True:
        with open(path, encoding="utf-8") as control:
            if "end" in control.read().splitlines():
                return
        time.sleep(0.02)


def main():
    _mode, _seed, _max_bite, budget_bytes, nonce, log, control = sys.argv[1:]
    with LoggingNode(log, budget_bytes=int(budget_bytes), nonce=nonce) as node:
        info = node.tcp_info
        print("ready", info.endpoint, info.key, flush=True)
        wait_for_end(control)


if __name__ == "__main__":
    main()
