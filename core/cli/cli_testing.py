"""Runs the real millrace, with a folder of its own for cluster files, and waits for it."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from eventually import WAIT_S, wait_for

PYTHON = sys.executable


def millrace_path():
    root = os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"]
    return os.path.join(root, "millrace", "core", "cli", "millrace")


def pending_signals(pid):
    """The signals that the process was sent and has not taken, as a bit set."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        pending = [line.split()[1] for line in status if line.startswith("ShdPnd:")]
    return int(pending[0], 16)


def line_with(stream, text):
    """Reads on until a line has this in it, and returns that line; libraries write lines of their own."""
    passed = []
    for line in stream:
        if text in line:
            return line
        passed.append(line)
    raise AssertionError(f"no line has {text!r}: {passed}")


class ScrollingScreen:
    """What stands on a terminal, with all that scrolled away; it knows what `run` writes, and nothing else."""

    _PIECE = re.compile(r"\x1b\[(\??\d*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")

    def __init__(self, text):
        self.lines, self.row, self.column = [""], 0, 0
        at = 0
        while at < len(text):
            piece = self._PIECE.match(text, at)
            if piece is None:  # the rest of it has not come yet
                assert len(text) - at < 8, f"not known to this terminal: {text[at:at + 20]!r}"
                return
            at = piece.end()
            self._play(*piece.groups())

    def _play(self, number, final, move, plain):
        line = self.lines[self.row]
        if plain is not None:
            self.lines[self.row] = line[:self.column].ljust(self.column) + plain + line[self.column + len(plain):]
            self.column += len(plain)
        elif move == "\r":
            self.column = 0
        elif move == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append("")
        elif final == "A":
            self.row -= int(number)
            assert self.row >= 0
        elif final in "JK":
            self.lines[self.row] = line[:self.column]
            if final == "J":
                del self.lines[self.row + 1:]
        else:
            assert final in "mhl", f"not known to this terminal: {number}{final}"

    def text(self):
        return "\n".join(line.rstrip() for line in self.lines)


class CliTestCase(unittest.TestCase):
    """A test with an empty folder, and no cluster of anybody else in sight."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.env = dict(os.environ)
        self.env.update(
            MILLRACE_CLUSTERS_DIR=self.path("clusters"), TMPDIR=self.path("tmp"), TERM="xterm"
        )
        for name in ("NO_COLOR", "COLUMNS", "MILLRACE_LOG"):
            self.env.pop(name, None)
        os.mkdir(self.path("tmp"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def run_cli(self, *args, env=None, text=True, stdin="", stdout=subprocess.PIPE):
        """Runs millrace to its end."""
        return subprocess.run(
            [millrace_path(), *args],
            cwd=self.folder,
            env={**self.env, **(env or {})},
            input=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=text,
            timeout=WAIT_S,
            check=False,
        )

    def start_cli(self, *args, env=None, **options):
        """Starts millrace; killed at the end of the test at the latest. `options` are Popen's."""
        process = subprocess.Popen(
            [millrace_path(), *args],
            cwd=self.folder,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )

        def end():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(end)
        return process

    def run_on_terminal(self, *args, env=None, rows=24, on_output=lambda output: None):
        """Runs millrace to its end on a terminal of 80 columns; returns (exit code, output).

        on_output is called with all that came so far, each time that something did.
        """
        pid, fd = pty.fork()
        if pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))
            os.chdir(self.folder)
            os.execve(millrace_path(), [millrace_path(), *args], {**self.env, **(env or {})})
        output = b""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            ready, _, _ = select.select([fd], [], [], 1)
            if not ready:
                continue
            try:
                data = os.read(fd, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            output += data
            on_output(output.decode("utf-8", "replace"))
        else:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        return os.waitstatus_to_exitcode(status), output.decode("utf-8", "replace")

    def wait_for_file(self, name):
        wait_for(lambda: os.path.exists(self.path(name)), f"file {name}")

    def json_of(self, *args):
        done = self.run_cli(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)
