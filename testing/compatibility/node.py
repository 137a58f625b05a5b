#!/usr/bin/python3
"""The node of the recorded cluster: speaks the control channel by hand, and so depends on no build."""

import json
import os
import socket
import struct
import sys

CHANNEL = socket.socket(fileno=int(os.environ["MILLRACE_CONTROL_FD"]))


def send(method, number=None, **params):
    frame = {"method": method, "params": params}
    if number is not None:
        frame["id"] = number
    data = json.dumps(frame).encode()
    CHANNEL.sendall(struct.pack("<I", len(data)) + data)


def read(count):
    data = b""
    while len(data) < count:
        more = CHANNEL.recv(count - len(data))
        if not more:
            sys.exit(70)  # the agent is gone
        data += more
    return data


def receive():
    frame = json.loads(read(struct.unpack("<I", read(4))[0]))
    print(json.dumps(frame, sort_keys=True), flush=True)
    return frame


def await_push(name):
    """Unless it came before, among replies."""
    if name in PUSHES:
        return
    while receive().get("push") != name:
        pass


PUSHES = []
NUMBERS = iter(range(1, 100))


def ask(method, **params):
    number = next(NUMBERS)
    send(method, number, **params)
    while True:
        frame = receive()
        if frame.get("id") == number:
            return frame
        PUSHES.append(frame["push"])


def first_attempt():
    ask("equal.join", queue="input", batch_rows=4, pad=False)
    ask("kv.set", key="a", value="aGk=")
    ask("kv.get", key="a", timeout_ms=1000)
    ask("kv.get", key="nothing", timeout_ms=0)
    ask("kv.add", key="n", delta=3)
    ask("kv.delete", key="a")
    ask("barrier", name="all", timeout_ms=1000)
    send("metric", name="loss", step=1, value=0.5)
    send("log", level="warning", message="careful")
    send("sample", budget_bytes=1 << 20, held_bytes=10, queues=[{"queue": "input", "rows_received": 5}])
    ask("kv.set", key="begun", value="MQ==")
    await_push("feed_end")
    await_push("end_feed")
    ask("kv.set", key="fed", value="MQ==")
    await_push("stop")


def main():
    with open(os.environ["MILLRACE_CONTEXT_FILE"], encoding="utf-8") as file:
        attempt = json.load(file)["attempt"]
    ask("hello", protocol=1, sdk="recorded")
    feed = {"tcp": "tcp://127.0.0.1:1", "ipc": "ipc://@recorded", "key": "00" * 16, "curve": "", "curve_key": ""}
    ask("ready", feed=feed, other={"metrics": "127.0.0.1:2"})
    if attempt == 0:
        first_attempt()
    else:
        ask("kv.set", key="again", value="MQ==")
        await_push("stop")
    send("exit", code="OK", message="")


main()
