"""A node of the reference peer as a program: what other implementations' feeders are tested against.

It prints {"event": "ready"} with its endpoints and keys, then "took" for every batch that its program
has read and "error" for every session that it refused, one JSON object a line, until SIGTERM ends it.
"""

import argparse
import json
import signal
import sys
import threading

import node_stub


class TellingNode(node_stub.NodeStub):
    """Prints what its program takes before anybody else can know of it."""

    def _program_takes(self, session, first_row, record_batch):
        opened = session.open_message
        tell(
            "took",
            principal=session.principal,
            queue=opened.queue,
            partition=opened.partition,
            first_row=first_row,
            rows=record_batch.num_rows,
        )
        super()._program_takes(session, first_row, record_batch)

    def _fail(self, session, code, text):
        tell("error", principal=session.principal, code=code, message=text)
        super()._fail(session, code, text)


def tell(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def addresses(node):
    """What a feeder has to know of it."""
    info = node.info
    return {
        "nonce": info.nonce,
        "key": info.key,
        "ipc": info.endpoint,
        "tcp": node.tcp_info.endpoint,
        "curve": info.curve,
        "curve_key": info.curve_key,
    }


def main():
    parser = argparse.ArgumentParser(prog="node", description="A node whose program takes every batch at once.")
    parser.add_argument("--nonce", default=None, help="random when it is not given")
    parser.add_argument("--curve-host", help="an address of this host for a CURVE endpoint")
    parser.add_argument(
        "--announce",
        action="append",
        default=[],
        metavar="PRINCIPAL=KEY",
        help="a feeder that may come over CURVE",
    )
    parser.add_argument("--budget-bytes", type=int, default=1 << 20)
    arguments = parser.parse_args()
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    with TellingNode(arguments.budget_bytes, nonce=arguments.nonce, curve_host=arguments.curve_host) as node:
        for announced in arguments.announce:
            principal, _, key = announced.partition("=")
            node.announce(principal, key)
        tell("ready", **addresses(node))
        ended.wait()


if __name__ == "__main__":
    sys.exit(main())
