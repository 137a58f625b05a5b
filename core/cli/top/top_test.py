"""`millrace top` on a terminal: what it shows of a real cluster, its keys, and how it leaves the terminal behind."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unittest

from cli_testing import CliTestCase, line_with, millrace_path
from eventually import WAIT_S, wait_for

TAKE = b"\x1b[?1049h"
GIVE_BACK = b"\x1b[?1049l"
KEYS = {"up": "\x1b[A", "down": "\x1b[B", "left": "\x1b[D", "right": "\x1b[C", "page down": "\x1b[6~",
        "end": "\x1b[F", "F1": "\x1bOP", "F4": "\x1bOS", "F10": "\x1b[21~", "enter": "\r", "escape": "\x1b",
        "tab": "\t", "Ctrl-C": "\x03", "Ctrl-Z": "\x1a"}  # fmt: skip
# What is drawn with: CSI, the private modes' mark, numbers, the final letter.
_PIECE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])|([^\x1b]+)", re.DOTALL)


class Screen:
    """What a terminal of this size shows; it knows the sequences that millrace top writes, and no others."""

    def __init__(self, columns, rows):
        self.modes = set()
        self.resize(columns, rows)

    def resize(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0

    def play(self, text):
        at = 0
        while at < len(text):
            piece = _PIECE.match(text, at)
            if piece is None:
                raise AssertionError(f"not known to this terminal: {text[at:at + 20]!r}")
            at = piece.end()
            private, numbers, final, plain = piece.groups()
            if plain is not None:
                self._print(plain)
            elif private:
                (self.modes.add if final == "h" else self.modes.discard)(int(numbers))
            elif final == "H":
                row, column = [int(number) for number in numbers.split(";")] if numbers else (1, 1)
                self.row, self.column = row - 1, column - 1
            elif final == "J":
                self.lines = [[" "] * self.columns for _ in range(self.rows)]
            elif final == "K":
                for column in range(self.column, self.columns):
                    self.lines[self.row][column] = " "
            elif final != "m":
                raise AssertionError(f"not known to this terminal: {piece.group()!r}")

    def _print(self, text):
        for character in text:
            # A picture of the size before may still come.
            if self.row < self.rows and self.column < self.columns:
                self.lines[self.row][self.column] = character
            self.column += 1

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)


class Top:
    """`millrace top`, or another command, on a terminal of its own, which stays when the command has ended."""

    def __init__(self, case, *args, env=None, columns=80, rows=24, command=None):
        self.master, self.slave = pty.openpty()
        case.addCleanup(self.close)
        self.screen = Screen(columns, rows)
        self.output = b""
        self._played = 0
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen(
            command or [millrace_path(), "top", *args],
            cwd=case.folder,
            env={**case.env, "LC_ALL": "C.UTF-8", **(env or {})},
            stdin=self.slave,
            stdout=self.slave,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        for fd in (self.master, self.slave):
            if fd is not None:
                os.close(fd)
        self.master = self.slave = None

    def resize(self, columns, rows):
        self.screen.resize(columns, rows)
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, wait_s=0.1):
        """Takes what has come; returns whether anything did."""
        if not select.select([self.master], [], [], wait_s)[0]:
            return False
        self.output += os.read(self.master, 65536)
        # As far as characters and sequences are complete.
        text = self.output[self._played:].decode("utf-8", "ignore")
        cut = text.rfind("\x1b")
        if cut >= 0 and _PIECE.fullmatch(text, cut, len(text)) is None and not re.match(
                r"\x1b\[\??[\d;]*[A-Za-z]", text[cut:]):
            text = text[:cut]
        self.screen.play(text)
        self._played += len(text.encode("utf-8"))
        return True

    def until(self, is_there, what):
        deadline = time.monotonic() + WAIT_S
        while not is_there(self.screen.text()):
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come: {self.screen.text()}")
            if self.process.poll() is not None and not self.read(0):
                raise AssertionError(f"it ended before {what}: {self.process.stderr.read()}")
            self.read()
        return self.screen.text()

    def until_text(self, *texts):
        return self.until(lambda screen: all(text in screen for text in texts), texts)

    def type(self, text):
        os.write(self.master, KEYS.get(text, text).encode())

    def wait(self):
        """Reads on until it has ended; returns its exit code."""
        deadline = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"it does not end: {self.screen.text()}")
            self.read()
        while self.read(0):
            pass
        return self.process.returncode


class TopTestCase(CliTestCase):
    def start_cluster(self, nodes=3, program="echo up; until [ -e done ]; do sleep 0.05; done"):
        """A cluster that runs until "done" is there."""
        process = self.start_cli("run", "-n", str(nodes), "--num-ps", "1", "--master-node", "chief",
                                 "--", "sh", "-c", program)
        for _ in range(nodes):
            line_with(process.stdout, "up")
        return process

    def end(self, process):
        self.write("done", "")
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0, err)

    def start_top(self, *args, **options):
        return Top(self, *args, **options)

    def assert_given_back(self, top):
        """The terminal is as it was before."""
        self.assertEqual(termios.tcgetattr(top.slave), top.before)
        self.assertEqual(top.output.count(TAKE), top.output.count(GIVE_BACK))
        self.assertTrue(top.output.endswith(GIVE_BACK), top.output[-200:])
        # The cursor is there, lines wrap, and no update is under way.
        self.assertEqual(top.screen.modes, {7, 25})

    def assert_quits(self, top, code=0):
        self.assertEqual(top.wait(), code, top.process.stderr.read())
        self.assert_given_back(top)


class TopTest(TopTestCase):
    def test_shows_the_sentences_and_each_table(self):
        self.start_cluster()
        top = self.start_top()
        screen = top.until_text("3/3 running", "Running. All 3 slots", "No failures.", "[1 Nodes 3]", "MiB")
        self.assertRegex(screen, r"(?m)^NODE▲ +STATE +FOR +HOST")
        self.assertRegex(screen, r"(?m)^ps:0 +running .*\n^chief:0 +running .*\n^worker:0 +running ")
        for key, texts in (
            ("2", ["[2 Queues 0]", "nodes read their own data"]),
            ("3", ["[3 Feeds 0]"]),
            ("4", ["[4 GPUs"]),
            ("5", ["[5 Metrics 0]", "no program has reported one"]),
            ("6", ["[6 Events", "TIME (UTC)", "running"]),
            ("7", ["[7 Logs 3]", "chief:0      up"]),
            ("tab", ["[1 Nodes 3]"]),
        ):  # fmt: skip
            with self.subTest(key=key):
                top.type(key)
                top.until_text(*texts)
        top.type("q")
        self.assert_quits(top)

    def test_keys(self):
        self.start_cluster()
        top = self.start_top()
        top.until_text("[1 Nodes 3]", "3/3 running")
        top.type("F1")
        top.until_text("q, F10, Ctrl-C         quit")
        top.type("x")
        top.until_text("[1 Nodes 3]")
        top.type("down")
        top.type("enter")
        top.until_text("NODE        chief:0", "TRY         0")
        top.type("escape")
        top.until_text("[1 Nodes 3]")
        top.type("F4")
        top.type("work")
        top.until_text("Filter: work", "[1 Nodes 1 of 3]")
        top.type("enter")
        screen = top.until(lambda text: "Filter: " not in text, "the end of the prompt")
        self.assertNotIn("chief:0 ", screen)
        top.type("\\")
        top.type("escape")
        top.until_text("[1 Nodes 3]", "chief:0 ")
        top.type("I")
        top.until(lambda text: 0 < text.find("worker:0 ") < text.find("ps:0 "), "the other order")
        top.type("v")
        top.until(lambda text: "[1 Nodes" not in text and "Running. All 3" in text, "the sentences")
        top.type("q")
        self.assert_quits(top)

    def test_whatever_ends_it_gives_the_terminal_back(self):
        self.start_cluster()
        for end, code in (
            ("F10", 0), ("Ctrl-C", 0), (signal.SIGINT, 0), (signal.SIGTERM, 128 + signal.SIGTERM),
            (signal.SIGHUP, 128 + signal.SIGHUP), (signal.SIGQUIT, 128 + signal.SIGQUIT),
            (signal.SIGABRT, -signal.SIGABRT), (signal.SIGSEGV, -signal.SIGSEGV),
        ):  # fmt: skip
            with self.subTest(end=end):
                top = self.start_top()
                top.until_text("3/3 running")
                self.assertIn(1049, top.screen.modes)
                self.assertNotEqual(termios.tcgetattr(top.slave), top.before)
                if isinstance(end, str):
                    top.type(end)
                else:
                    top.process.send_signal(end)
                self.assert_quits(top, code)

    def test_follows_the_size_of_the_terminal(self):
        self.start_cluster()
        top = self.start_top()
        top.until_text("3/3 running")
        self.assertNotIn("THREADS", top.screen.text())
        top.resize(160, 40)
        top.until_text("THREADS", "ERROR", "3/3 running")
        top.resize(30, 5)
        top.until(lambda text: text.startswith("too small: 40x10 needed"), "the complaint")
        top.resize(80, 24)
        top.until_text("[1 Nodes 3]", "q Quit")
        top.type("q")
        self.assert_quits(top)

    def test_goes_to_the_background_and_comes_back(self):
        self.start_cluster()
        script = (f"{millrace_path()} top; stty -a > stopped; echo STOPPED > is_stopped; "
                  "until [ -e go_on ]; do sleep 0.05; done; fg > /dev/null; echo $? > code")
        top = self.start_top(command=["sh", "-m", "-c", script])
        top.until_text("3/3 running")
        top.type("Ctrl-Z")
        self.wait_for_file("is_stopped")
        while top.read(0):
            pass
        self.assertNotIn(1049, top.screen.modes)
        self.assertIn(25, top.screen.modes)
        with open(self.path("stopped"), encoding="ascii") as file:
            modes = file.read().split()
        self.assertIn("icanon", modes)
        self.assertIn("echo", modes)
        top.screen.resize(80, 24)
        self.write("go_on", "")
        top.until_text("3/3 running", "[1 Nodes 3]")
        self.assertIn(1049, top.screen.modes)
        top.type("q")
        self.assert_quits(top)
        with open(self.path("code"), encoding="ascii") as file:
            self.assertEqual(file.read(), "0\n")

    def test_colours_are_left_out_where_nobody_wants_them(self):
        self.start_cluster()
        colours = re.compile(rb"\x1b\[0(?:;1)?(?:;7)?;[23]\d?m")
        for args, env, coloured in (([], {}, True), ([], {"NO_COLOR": "1"}, False), (["--no-color"], {}, False)):
            with self.subTest(args=args, env=env):
                top = self.start_top(*args, env=env)
                top.until_text("3/3 running", "worker:0")
                top.type("q")
                self.assert_quits(top)
                self.assertEqual(bool(colours.search(top.output)), coloured)

    def test_without_utf8_it_is_ascii(self):
        self.start_cluster()
        top = self.start_top(env={"LC_ALL": "C"})
        top.until_text("3/3 running", "NODE^")
        top.type("q")
        self.assert_quits(top)
        self.assertTrue(top.output.isascii())

    def test_a_cluster_that_ends_stays_as_it_was_last(self):
        process = self.start_cluster()
        top = self.start_top()
        top.until_text("3/3 running")
        self.end(process)
        screen = top.until_text("The cluster has ended; this is its last state.")
        for node in ("ps:0", "chief:0", "worker:0"):
            self.assertRegex(screen, rf"(?m)^{node} ")
        # Keys go on to work.
        top.type("6")
        top.until_text("[6 Events")
        top.type("q")
        self.assert_quits(top)

    def test_a_pause_keeps_what_is_shown(self):
        process = self.start_cluster()
        top = self.start_top()
        top.until_text("3/3 running")
        top.type(" ")
        top.until_text("PAUSED")
        self.end(process)
        # It is not told of the end for as long as it is paused; keys work.
        top.type("6")
        self.assertNotIn("has ended", top.until_text("[6 Events"))
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            top.read()
        self.assertNotIn("has ended", top.screen.text())
        top.type(" ")
        top.until_text("The cluster has ended")
        top.type("q")
        self.assert_quits(top)

    def test_ends_with_its_terminal(self):
        self.start_cluster()
        top = self.start_top()
        top.until_text("3/3 running")
        os.close(top.slave)
        os.close(top.master)
        top.slave = top.master = None
        self.assertIn(top.process.wait(timeout=WAIT_S), (128 + signal.SIGHUP, 128 + signal.SIGPIPE))

    def test_a_terminal_that_takes_nothing_does_not_hold_it_up(self):
        self.start_cluster()
        top = self.start_top("--interval", "100ms")
        top.until_text("3/3 running")
        # Nobody reads what it writes from here on.
        for _ in range(200):
            os.write(top.master, b"\t\x1b[B")
            time.sleep(0.01)
        top.process.terminate()
        self.assertEqual(top.process.wait(timeout=WAIT_S), 128 + signal.SIGTERM)
        self.assertEqual(termios.tcgetattr(top.slave), top.before)


class OnceTest(TopTestCase):
    def test_prints_all_of_it_once(self):
        self.start_cluster()
        done = self.run_cli("top", "--once", env={"LC_ALL": "C.UTF-8"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertNotIn("\x1b", done.stdout)
        self.assertRegex(done.stdout, r"\Amillrace · \w+ · running · 3/3 running · live")
        for text in ("\n+ Running. All 3 slots", "\n+ No failures.", "\nNODE ", "\nps:0 ", "\nTIME (UTC)"):
            self.assertIn(text, done.stdout)
        # Rates are between two samples.
        self.assertRegex(done.stdout, r"(?m)^worker:0 +running .* \d[\d.]*%")

    def test_prints_an_object(self):
        process = self.start_cluster()
        shown = self.json_of("top", "--json")
        status = self.json_of("status", "--json")
        self.assertLessEqual(set(status), set(shown))
        self.assertEqual([node["node"] for node in shown["nodes"]], ["ps:0", "chief:0", "worker:0"])
        self.assertEqual(set(shown["sentences"]), {"start", "gpus", "failure"})
        self.assertEqual(shown["sentences"]["start"]["mood"], "good")
        self.assertRegex(shown["sentences"]["start"]["text"], r"^Running\. All 3 slots ready ")
        self.assertEqual(shown["sentences"]["failure"], {"mood": "good", "text": "No failures.", "evidence": None})
        self.assertIsInstance(shown["warnings"], list)
        self.end(process)

    def test_ends_when_nobody_reads(self):
        self.start_cluster()
        top = self.start_cli("top", "--json", "--interval", "1h")
        top.stdout.close()
        self.assertEqual(top.wait(timeout=WAIT_S), 128 + signal.SIGPIPE)
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.run_cli("top", "--once", stdout=full)
        self.assertEqual((done.returncode, done.stderr),
                         (70, "millrace: cannot write to stdout: No space left on device\n"))

    def test_needs_a_terminal_or_once(self):
        self.start_cluster()
        done = self.run_cli("top")
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertRegex(done.stderr, r"\Amillrace: std\w+ is not a terminal: `millrace top --once` .*\n\Z")
        code, shown = self.run_on_terminal("top", env={"TERM": "dumb"})
        self.assertEqual(code, 64)
        self.assertIn("millrace: TERM says that this terminal can only print lines", shown)

    def test_without_a_cluster_the_terminal_stays_as_it_is(self):
        code, shown = self.run_on_terminal("top")
        self.assertEqual(code, 69)
        self.assertIn("no cluster of yours runs", shown)
        self.assertNotIn(TAKE.decode(), shown)
        for args in (["top", "--once"], ["top", "--json"]):
            done = self.run_cli(*args)
            self.assertEqual((done.returncode, done.stdout), (69, ""))

    def test_a_token_that_is_not_known(self):
        self.start_cluster()
        with open(self.json_of("clusters", "--json")["clusters"][0]["file"], encoding="utf-8") as file:
            cluster = json.load(file)
        self.write("ca.pem", cluster["ca_pem"])
        self.write("identity.pem", cluster["identity_pem"], 0o600)
        self.write("token", "0" * 64, 0o600)
        way = ["--connect", cluster["address"], "--ca", "ca.pem", "--identity", "identity.pem",
               "--token-file", "token"]  # fmt: skip
        self.assertEqual(self.run_cli("top", "--once", *way).returncode, 77)
        code, shown = self.run_on_terminal("top", *way)
        self.assertEqual(code, 77)
        self.assertNotIn(TAKE.decode(), shown)


if __name__ == "__main__":
    unittest.main()
