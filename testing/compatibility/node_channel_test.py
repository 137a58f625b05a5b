"""Today's node library, and agents as they were recorded.

The recorded agent answers each request of today's node as it did then, and pushes what it pushed.
"""

import glob
import json
import os
import socket
import struct
import subprocess
import tempfile
import unittest

RECORDED = sorted(glob.glob("testing/compatibility/*/node_channel.txt"))
NODE = os.path.abspath("testing/compatibility/sdk_node")
SECONDS = 60
# It comes when it comes.
UNTIMED = {"sample"}


class Channel:
    """The agent's end."""

    def __init__(self, end):
        self.end = end
        self.end.settimeout(SECONDS)
        self.ids = {}  # of the recording's requests, those of today's

    def send(self, frame):
        if "id" in frame:
            frame = {**frame, "id": self.ids[frame["id"]]}
        data = json.dumps(frame).encode()
        self.end.sendall(struct.pack("<I", len(data)) + data)

    def read(self, count):
        data = b""
        while len(data) < count:
            more = self.end.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def next_request(self):
        while True:
            frame = json.loads(self.read(struct.unpack("<I", self.read(4))[0]))
            if frame["method"] not in UNTIMED:
                return frame


def with_members(then, now):
    """What of `now` the recording had too; members may be added, endpoints are others each time."""
    if isinstance(then, dict) and isinstance(now, dict):
        return {name: with_members(value, now[name]) for name, value in then.items() if name in now}
    return now


class NodeChannelTest(unittest.TestCase):
    def play(self, path):
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip("\n").split(" ", 1) for line in file if not line.startswith("#")]
        context = json.loads(lines[0][1])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        context.update(working_dir=folder.name, log_dir=folder.name)
        context.pop("port_fd", None)
        context_file = os.path.join(folder.name, "context")
        with open(context_file, "w", encoding="utf-8") as file:
            json.dump(context, file)
        ours, theirs = socket.socketpair()
        node = subprocess.Popen(
            [NODE], pass_fds=[theirs.fileno()], cwd=folder.name,
            env={**os.environ, "MILLRACE_CONTROL_FD": str(theirs.fileno()), "MILLRACE_CONTEXT_FILE": context_file})
        theirs.close()
        self.addCleanup(ours.close)
        self.addCleanup(node.kill)
        channel = Channel(ours)
        for who, text in lines[1:]:
            frame = json.loads(text)
            if who == "agent>":
                channel.send(frame)
                continue
            if frame["method"] in UNTIMED:
                continue
            now = channel.next_request()
            self.assertEqual(now["method"], frame["method"], f"instead of {text}")
            if frame["method"] not in ("hello", "ready"):
                self.assertEqual(with_members(frame["params"], now["params"]), frame["params"])
            else:
                self.assertLessEqual(set(frame["params"]), set(now["params"]))
            if "id" in frame:
                channel.ids[frame["id"]] = now["id"]
        self.assertEqual(node.wait(timeout=SECONDS), 0)

    def test_a_node_goes_its_way_with_an_older_agent(self):
        self.assertTrue(RECORDED)
        for path in RECORDED:
            with self.subTest(path=path):
                self.play(path)


if __name__ == "__main__":
    unittest.main()
