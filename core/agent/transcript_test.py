"""Plays testdata/*.transcript against the real millrace-agent.

    start MODE [NAME]     starts `millrace-agent MODE --parent=stdin`
    NAME> line            sends the line; "<word>" in it is what <word> stands for
    NAME< {...}           waits for a line that has at least these members; in any order with others
    NAME eof              closes its stdin
    NAME exits CODE       waits for its end

In an expected line "<any>" is any value, "<word>" takes the value at its first use and must be equal
later. docs/control_protocol.md shows lines of transcripts; a test compares.
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


class TranscriptTest(unittest.TestCase):
    def test_there_are_transcripts(self):
        self.assertGreater(len(TRANSCRIPTS), 3)

    def test_documented_lines_are_played(self):
        played = set()
        for path in TRANSCRIPTS:
            with open(path, encoding="utf-8") as file:
                played.update(line.rstrip("\n") for line in file)
        with open(os.path.join(ROOT, "docs", "control_protocol.md"), encoding="utf-8") as file:
            shown = [line.strip() for line in file if re.match(r"\s*(coordinator|agent|gateway)[<>] ", line)]
        self.assertGreater(len(shown), 5)
        self.assertEqual([line for line in shown if line not in played], [])


def add_case(path):
    def test(self):
        del self
        with open(path, encoding="utf-8") as file:
            play(file.read())

    name = os.path.basename(path).removesuffix(".transcript")
    setattr(TranscriptTest, f"test_{name}", test)


for transcript in TRANSCRIPTS:
    add_case(transcript)

if __name__ == "__main__":
    sys.exit(unittest.main())
