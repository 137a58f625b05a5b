"""Plays testdata/*.transcript, and those of older versions, against the real millrace-agent.

    start MODE [NAME]     starts `millrace-agent MODE --parent=stdin`
    NAME> line            sends the line; "<word>" in it is what <word> stands for
    NAME< {...}           waits for a line that has at least these members; in any order with others
    NAME eof              closes its stdin
    NAME exits CODE       waits for its end

In an expected line "<any>" is any value, "<word>" takes the value at its first use and must be equal
later. docs/control_protocol.md shows lines of transcripts; a test compares. The transcript of
docs/feed_protocol.md is played as it stands there, in a cluster of two nodes.
"""

import glob
import json
import os
import queue
import re
import subprocess
import sys
import threading
import unittest

WAIT_S = 150
ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
AGENT = os.path.join(ROOT, "core", "agent", "millrace-agent")
TRANSCRIPTS = sorted(glob.glob(os.path.join(ROOT, "core", "agent", "testdata", "*.transcript")))
OLDER = sorted(glob.glob(os.path.join(ROOT, "testing", "compatibility", "0.*", "*.transcript")))


class Peer:
    """One process, its lines read by a thread."""

    def __init__(self, mode):
        self.process = subprocess.Popen(
            [AGENT, mode, "--parent=stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.arrived = queue.Queue()
        self.waiting = []  # arrived, not expected yet
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        for line in self.process.stdout:
            self.arrived.put(json.loads(line))
        self.arrived.put(None)

    def send(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def expect(self, wanted, names):
        while True:
            for line in self.waiting:
                bound = dict(names)
                if line is not None and matches(wanted, line, bound):
                    self.waiting.remove(line)
                    names.update(bound)
                    return
            if None in self.waiting:
                raise AssertionError(f"it ended without {wanted}; it said {self.waiting}")
            try:
                self.waiting.append(self.arrived.get(timeout=WAIT_S))
            except queue.Empty:
                raise AssertionError(f"no {wanted}; it said {self.waiting}") from None

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.thread.join()
        self.process.stdout.close()


def matches(wanted, found, names):
    if wanted == "<any>":
        return True
    if isinstance(wanted, str) and re.fullmatch(r"<\w+>", wanted):
        return names.setdefault(wanted, found) == found
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(
            key in found and matches(value, found[key], names) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(wanted) == len(found)
            and all(matches(w, f, names) for w, f in zip(wanted, found))
        )
    return wanted == found


def play(text):
    peers = {}
    names = {}
    try:
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            try:
                step(line, peers, names)
            except AssertionError as error:
                raise AssertionError(f"line {number}: {line}\n{error}") from error
    finally:
        for peer in peers.values():
            peer.end()


def step(line, peers, names):
    words = line.split()
    if words[0] == "start":
        peers[words[-1]] = Peer(words[1])
        return
    name = re.match(r"\w+", line)[0]
    rest = line[len(name):].strip()
    peer = peers[name]
    if rest.startswith(">"):
        sent = re.sub(r'"<\w+>"', lambda found: json.dumps(names[found[0][1:-1]]), rest[1:].strip())
        peer.send(sent)
    elif rest.startswith("<"):
        peer.expect(json.loads(rest[1:]), names)
    elif rest == "eof":
        peer.process.stdin.close()
    elif rest.startswith("exits "):
        code = peer.process.wait(timeout=WAIT_S)
        assert code == int(rest.split()[1]), f"it ended with {code}"
    else:
        raise AssertionError("not a line of a transcript")


# A ps and a worker that run, and a gateway, before the page's first line.
BEFORE_THE_PAGE = """
start coordinator driver
driver> {"id": 1, "method": "start", "params": {"num_executors": 2, "num_ps": 1, "program": "PROGRAM", "args": \
["sum"], "input_mode": "FEED"}}
driver< {"id": 1, "result": {"address": "<address>", "ca_pem": "<ca>", "identity_pem": "<identity>", "tokens": \
{"agent": "<token>"}, "roles": ["ps:0", "worker:0"]}}
start agent ps
ps> {"id": 1, "method": "start", "params": {"executor_id": 0, "coordinator": {"address": "<address>", "ca_pem": \
"<ca>", "identity_pem": "<identity>", "token": "<token>"}}}
start agent worker
worker> {"id": 1, "method": "start", "params": {"executor_id": 1, "coordinator": {"address": "<address>", "ca_pem": \
"<ca>", "identity_pem": "<identity>", "token": "<token>"}}}
driver> {"id": 90, "method": "wait_fed_endpoints", "params": {"timeout_ms": 120000}}
driver< {"id": 90, "result": {}}
start gateway
gateway> {"id": 1, "method": "start", "params": {"coordinator": {"address": "<address>", "ca_pem": "<ca>", \
"identity_pem": "<identity>", "token": "<token>"}}}
gateway< {"id": 1, "result": {}}
"""
# What the ledger says after its last line.
AFTER_THE_PAGE = """
driver> {"id": 91, "method": "feed_summary", "params": {"feed": "f1"}}
driver< {"id": 91, "result": {"feeds": [{"feed": "f1", "partitions": 1, "done": 1, "rows_received": 2, "rows_acked": \
2, "exactly_once": true, "closed": true}]}}
"""
# The page's values that are others each time.
OTHERS_EACH_TIME = {"5b0c9e1f22d3a4b6": "<nonce>", "ipc://@millrace-0c2d": "<ipc>", "...": "<any>"}


def each_time(value):
    """What to expect where the page has an example."""
    if isinstance(value, dict):
        return {name: each_time(of) for name, of in value.items()}
    return OTHERS_EACH_TIME.get(value, value) if isinstance(value, str) else value


def lines_of_the_page(text):
    """The lines of driver and gateway in a page, with what "..." leaves out, and answers to all requests."""
    lines = re.findall(r"^(driver|gateway)([<>]) +(.*)$", text, re.MULTILINE)
    answered = {(name, json.loads(line.replace(", ...", ""))["id"]) for name, way, line in lines if way == "<"}
    reported = {}
    for name, way, line in lines:
        if way == "<":
            yield f"{name}< {json.dumps(each_time(json.loads(line.replace(', ...', ''))))}"
            continue
        request = json.loads(line.replace("{..., ", "{"))
        if request["method"] == "report":  # it leaves out what the one before said too
            reported = {**reported, **request["params"]} if "{..., " in line else request["params"]
            request["params"] = reported
        yield f"{name}> {json.dumps(request)}"
        if (name, request["id"]) not in answered:
            yield f'{name}< {{"id": {request["id"]}, "result": {{}}}}'


class TranscriptTest(unittest.TestCase):
    def test_there_are_transcripts(self):
        self.assertGreater(len(TRANSCRIPTS), 3)
        self.assertGreater(len(OLDER), 3)

    def test_documented_lines_are_played(self):
        played = set()
        for path in TRANSCRIPTS:
            with open(path, encoding="utf-8") as file:
                played.update(line.rstrip("\n") for line in file)
        with open(os.path.join(ROOT, "docs", "control_protocol.md"), encoding="utf-8") as file:
            shown = [line.strip() for line in file if re.match(r"\s*(coordinator|agent|gateway)[<>] ", line)]
        self.assertGreater(len(shown), 5)
        self.assertEqual([line for line in shown if line not in played], [])


    def test_the_transcript_of_the_feeds_page(self):
        with open(os.path.join(ROOT, "docs", "feed_protocol.md"), encoding="utf-8") as file:
            page = list(lines_of_the_page(file.read()))
        self.assertEqual(len(page), 14)  # seven requests
        program = os.path.join(ROOT, "core", "cluster", "cluster_test_node")
        play(BEFORE_THE_PAGE.replace("PROGRAM", program) + "\n".join(page) + AFTER_THE_PAGE)


def add_case(path):
    def test(self):
        del self
        with open(path, encoding="utf-8") as file:
            play(file.read())

    name = os.path.basename(path).removesuffix(".transcript")
    of_version = os.path.basename(os.path.dirname(path)).replace(".", "_") + "_" if path in OLDER else ""
    setattr(TranscriptTest, f"test_{of_version}{name}", test)


for transcript in TRANSCRIPTS + OLDER:
    add_case(transcript)

if __name__ == "__main__":
    sys.exit(unittest.main())
