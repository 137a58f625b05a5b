"""PyTorch's TCPStore and its clients, for the benchmark launchers.

    tcp_store.py version
    tcp_store.py serve CLIENTS                    # writes its port; ends with its stdin
    tcp_store.py join PORT CLIENTS FIRST COUNT    # writes "ready", waits for a line, and writes "done"
"""

import concurrent.futures
import datetime
import resource
import socket
import sys

import torch
from torch.distributed import TCPStore

_LIMIT = datetime.timedelta(seconds=300)
_THREADS = 16


def _serve(clients):
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        port = any_socket.getsockname()[1]
    store = TCPStore("127.0.0.1", port, clients, is_master=True, timeout=_LIMIT, wait_for_workers=False)
    print(port, flush=True)
    sys.stdin.read()
    del store


def _join(port, clients, first, count):
    stores = []

    def tell(rank):
        store = TCPStore("127.0.0.1", port, clients, is_master=False, timeout=_LIMIT, wait_for_workers=False)
        store.set(f"rank/{rank}", f"127.0.0.1:{10000 + rank}")
        if store.add("joined", 1) == clients:
            store.set("all", "1")
        stores.append(store)

    print("ready", flush=True)
    sys.stdin.readline()
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(tell, range(first, first + count)))
        # No rank goes on before all are there.
        stores[0].wait(["all"], _LIMIT)
        list(pool.map(lambda store: store.get("rank/0"), stores))
    print("done", flush=True)


def main():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    command, *arguments = sys.argv[1:]
    if command == "version":
        print(torch.__version__)
    elif command == "serve":
        _serve(int(arguments[0]))
    else:
        _join(*map(int, arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
