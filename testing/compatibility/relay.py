#!/usr/bin/python3
"""Stands between an agent and its node, and notes what they say: relay.py FILE PROGRAM ARGS.

The first line of the file is the node's context, without its secrets; the others are frames: "node> {...}" or
"agent> {...}".
"""

import json
import os
import selectors
import socket
import struct
import subprocess
import sys


def main():
    agent = socket.socket(fileno=int(os.environ["MILLRACE_CONTROL_FD"]))
    node, theirs = socket.socketpair()
    with open(os.environ["MILLRACE_CONTEXT_FILE"], encoding="utf-8") as file:
        context = json.load(file)
    context.pop("tls")
    environment = dict(os.environ, MILLRACE_CONTROL_FD=str(theirs.fileno()))
    child = subprocess.Popen(sys.argv[2:], env=environment, pass_fds=[theirs.fileno()])
    theirs.close()
    with open(sys.argv[1], "w", encoding="utf-8") as notes:
        notes.write(f"context {json.dumps(context)}\n")
        relay(agent, node, notes)
    sys.exit(child.wait())


def relay(agent, node, notes):
    """Until the node closes its end."""
    ways = {agent: ("agent", node, bytearray()), node: ("node", agent, bytearray())}
    selector = selectors.DefaultSelector()
    for end in ways:
        selector.register(end, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            who, other, waiting = ways[key.fileobj]
            data = key.fileobj.recv(1 << 16)
            if not data:
                return
            waiting += data
            while len(waiting) >= 4 and len(waiting) >= (size := 4 + struct.unpack("<I", waiting[:4])[0]):
                notes.write(f"{who}> {waiting[4:size].decode()}\n")
                notes.flush()
                del waiting[:size]
            other.sendall(data)


main()
