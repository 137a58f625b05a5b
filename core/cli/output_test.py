"""What `millrace run` writes of its nodes' output, and who reads it."""

import array
import fcntl
import os
import re
import signal
import subprocess
import termios
import time
import unittest

from cli_testing import PYTHON, WAIT_S, CliTestCase, ScrollingScreen, millrace_path, pending_signals
from eventually import wait_for


class OutputTest(CliTestCase):
    def test_long_lines_come_in_parts(self):
        done = self.run_cli("run", "--", PYTHON, "-c", "print('0123456789' * 1000)")
        self.assertEqual(done.returncode, 0, done.stderr)
        parts = [line.removeprefix("worker:0| ") for line in done.stdout.splitlines()]
        self.assertEqual("".join(parts), "0123456789" * 1000)
        self.assertEqual(max(map(len, parts)), 2048)

    def test_nothing_of_a_large_output_is_lost(self):
        lines = 40000
        done = self.run_cli("run", "-n", "1", "--output", "raw", "--", PYTHON, "-c",
                            f"[print(i, 'x' * 60) for i in range({lines})]")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([int(line.split()[0]) for line in done.stdout.splitlines()],
                         list(range(lines)))

    def test_the_last_line_needs_no_end(self):
        done = self.run_cli("run", "-n", "2", "--", "sh", "-c", "printf out; printf err >&2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(), ["worker:0| out", "worker:1| out"])
        self.assertCountEqual(done.stderr.splitlines(), ["worker:0| err", "worker:1| err"])


class RawTest(CliTestCase):
    BYTES = bytes(range(256)) + b"crlf\r\n" + b"long" * 100_000 + b"\n\nno end"

    def test_lines_say_when_they_came(self):
        done = self.run_cli("run", "-n", "2", "--timestamp-output", "--", "sh", "-c", "echo out; echo err >&2")
        self.assertEqual(done.returncode, 0, done.stderr)
        for text, word in ((done.stdout, "out"), (done.stderr, "err")):
            lines = text.splitlines()
            self.assertEqual(len(lines), 2)
            for line in lines:
                self.assertRegex(line, rf"^\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z worker:[01]\| {word}$")
        done = self.run_cli("run", "--timestamp-output", "--output", "raw", "--", "true")
        self.assertEqual(done.returncode, 64)

    def test_raw_output_is_what_the_node_wrote(self):
        with open(self.path("raw"), "wb") as file:
            file.write(self.BYTES)
        done = self.run_cli("run", "--output", "raw", "--", "sh", "-c", "cat raw; cat raw >&2",
                            text=False, stdin=b"")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, self.BYTES)
        self.assertEqual(done.stderr, self.BYTES)

    def test_lines_of_several_nodes_do_not_mix(self):
        line = "x" * 5000
        done = self.run_cli("run", "-n", "3", "--output", "raw", "--", PYTHON, "-c",
                            f"[print('{line}') for _ in range(200)]; print(end='end')")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("end"), 3)  # of each node when it has ended
        self.assertEqual(done.stdout.replace("end", ""), f"{line}\n" * 600)


# A program with a progress bar; `wait` is for a file in its folder.
BAR = """
import os, sys, time
def bar(text): sys.stderr.write(text); sys.stderr.flush()
def wait(name):
    while not os.path.exists(name): time.sleep(0.02)
rank = os.environ["RANK"]
"""


class ProgressBarTest(CliTestCase):
    def on_terminal(self, program, steps, *options):
        """Runs it; as soon as the screen has all of a step's texts, the step's file is made."""
        steps = list(steps)

        def on_output(output):
            shown = ScrollingScreen(output).text()
            if steps and all(text in shown for text in steps[0][1]):
                self.write(steps.pop(0)[0], "")

        code, output = self.run_on_terminal("run", "-n", "2", *options, "--", PYTHON, "-c", BAR + program,
                                            on_output=on_output)
        return code, ScrollingScreen(output).text()

    def test_bars_stay_below_the_lines_until_they_are_complete(self):
        code, shown = self.on_terminal("""
bar(f"\\r 10% of {rank}")
wait("go")
print("a line")
bar(f"\\r 20% of {rank}")
wait("end")
bar(f"\\r100% of {rank}\\n")
""", [("go", ["worker:0|  10% of 0", "worker:1|  10% of 1"]),
      ("end", ["worker:0| a line\n", "worker:1| a line\n", "worker:0|  20% of 0", "worker:1|  20% of 1"])])
        self.assertEqual(code, 0, shown)
        lines = [line for line in shown.splitlines() if line.startswith("worker")]
        self.assertCountEqual(lines, ["worker:0| a line", "worker:1| a line", "worker:0| 100% of 0",
                                      "worker:1| 100% of 1"])

    def test_what_millrace_says_stands_above_them(self):
        code, shown = self.on_terminal("""
if rank == "0":
    bar("10%\\r")
    wait("end")
else:
    wait("fail")
    if not os.path.exists("failed"):
        open("failed", "w").close()
        sys.exit("out of cheese")
    wait("end")
""", [("fail", ["worker:0| 10%"]), ("end", ["millrace: worker:1 ", "is started again", "\nworker:0| 10%"])],
                                       "--max-restarts", "1", "--initial-backoff", "10ms")
        self.assertEqual(code, 0, shown)
        self.assertEqual(shown.count("worker:0| 10%"), 1, shown)
        self.assertIn("worker:1| out of cheese\n", shown)

    def test_elsewhere_each_state_is_a_line_at_once(self):
        process = self.start_cli("run", "--", "sh", "-c",
                                 "printf '10%%\\r'; while [ ! -e go ]; do sleep 0.02; done; printf '20%%\\r30%%\\n'")
        self.assertEqual(process.stdout.readline(), "worker:0| 10%\n")
        self.write("go", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, out, err), (0, "worker:0| 20%\nworker:0| 30%\n", ""))

    def test_an_error_has_what_a_bar_said_last(self):
        done = self.run_cli("run", "--", "sh", "-c", "printf '10%%\\r20%%\\rno cheese' >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertIn("Last stderr line: 'no cheese'", done.stderr)
        self.assertNotIn("20%", done.stderr.splitlines()[-1])


class ColorTest(CliTestCase):
    NODES = ["run", "-n", "3", "--num-ps", "1", "--output", "prefixed"]

    def colours(self, *options, env=None):
        done = self.run_cli(*self.NODES, *options, "--", "echo", "hello", env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dict(re.findall("^\x1b\\[(\\d+)m(\\w+:\\d) *\\| \x1b\\[0mhello$", done.stdout, re.M))

    def test_each_node_has_its_own_where_it_is_asked_for(self):
        for env in ({}, {"NO_COLOR": "1"}):
            self.assertEqual(len(self.colours("--color", "always", env=env)), 3)
        self.assertEqual(self.colours(), {})
        self.assertEqual(self.colours("--color", "never"), {})

    def test_none_on_a_terminal_where_it_is_not(self):
        code, shown = self.run_on_terminal(*self.NODES, "--color", "never", "--", "echo", "hello")
        self.assertEqual(code, 0, shown)
        self.assertNotRegex(shown, "\x1b\\[[0-9]+m")
        self.assertIn("worker:1| hello", shown)


class StdoutTest(CliTestCase):
    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([millrace_path(), "run", "-n", "2", "--", "sh", "-c", "echo y; sleep 600"],
                                  cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=WAIT_S, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (70, "millrace: stopped: cannot write to stdout: No space left on device\n"))

    def test_a_run_whose_stderr_was_lost_is_no_success(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([millrace_path(), "run", "--", "sh", "-c", "echo y; echo z >&2"],
                                  cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=full, text=True, timeout=WAIT_S,
                                  check=False)
        self.assertEqual((done.returncode, done.stdout), (70, "worker:0| y\n"))

    def test_without_stdout_it_runs_to_its_end(self):
        script = f'exec {millrace_path()} run -n 2 -- sh -c "echo y; echo z >&2; exit \\$RANK" >&-'
        done = subprocess.run(["sh", "-c", script], cwd=self.folder, env=self.env, capture_output=True,
                              text=True, timeout=WAIT_S, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("worker:1| z\n", done.stderr)


def unread(file):
    """Bytes that wait in a pipe."""
    buffer = array.array("i", [0])
    fcntl.ioctl(file, termios.FIONREAD, buffer)
    return buffer[0]


def written(pid):
    """Bytes that the process has written."""
    with open(f"/proc/{pid}/io", encoding="ascii") as file:
        return [int(line.split()[1]) for line in file if line.startswith("wchar:")][0]


def peak_memory_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return [int(line.split()[1]) for line in file if line.startswith("VmHWM:")][0]


class SlowReaderTest(CliTestCase):
    """Nobody reads what `run` writes, for now or at all."""

    def wait_for_full_pipe(self, pipe):
        """Until nothing more goes into it: its 16 pages are at least half full then."""
        seen = []

        def full():
            time.sleep(0.1)
            seen.append(unread(pipe))
            return seen[-1] >= 30000 and len(seen) > 5 and len(set(seen[-5:])) == 1

        wait_for(full, "a full pipe")

    def pid_of_node(self, name):
        self.wait_for_file(name)
        with open(self.path(name), encoding="ascii") as file:
            return int(file.read())

    def wait_until_it_waits(self, pid):
        """Until the process has written nothing for a while."""
        seen = []

        def waits():
            time.sleep(0.1)
            seen.append(written(pid))
            return len(seen) > 5 and len(set(seen[-5:])) == 1

        wait_for(waits, "a process that is held")

    def test_nodes_wait_for_who_reads_and_nothing_is_lost(self):
        line = "x" * 1000
        # 100 MB: much more than all pipes and windows between a node and stdout hold.
        process = self.start_cli("run", "--output", "raw", "--", PYTHON, "-c", f"""
import os
with open("tmp.pid", "w") as file: file.write(str(os.getpid()))
os.rename("tmp.pid", "pid")
for i in range(100_000): print(i, "{line}")
""")
        node = self.pid_of_node("pid")
        self.wait_for_full_pipe(process.stdout)
        self.wait_until_it_waits(node)
        self.assertLess(written(node), 10_000_000)
        if "ASAN_OPTIONS" not in os.environ:  # it keeps what was freed
            self.assertLess(peak_memory_kib(process.pid), 150_000)
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertEqual(out.splitlines(), [f"{i} {line}" for i in range(100_000)])

    # One node writes without an end, the other one fails when it is told to.
    FAILING = ("echo $$ > tmp.$RANK; mv tmp.$RANK pid.$RANK; test $RANK = 0 || "
               "{ while [ ! -e fail ]; do sleep 0.05; done; exit 3; }; exec yes")

    def test_a_node_that_fails_ends_the_run_although_nobody_reads(self):
        process = self.start_cli("run", "-n", "2", "--", "sh", "-c", self.FAILING)
        other = self.pid_of_node("pid.0")
        self.wait_for_full_pipe(process.stdout)
        self.write("fail", "")
        wait_for(lambda: not os.path.exists(f"/proc/{other}"), "the end of worker:0")
        err = self.wait_without_reading(process)
        self.assertEqual(process.returncode, 3, err)
        self.assert_loss_is_told(err)
        self.assertRegex(err, "millrace: worker:1 .*exited with code 3")

    def test_who_comes_back_after_a_failure_gets_everything(self):
        process = self.start_cli(
            "run", "-n", "2", "--", "sh", "-c",
            "test $RANK = 0 && { seq 200000; exec sleep 600; }; "
            "while [ ! -e fail ]; do sleep 0.05; done; exit 3")
        self.wait_for_full_pipe(process.stdout)
        self.write("fail", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 3, err)
        self.assertNotIn("lost", err)
        numbers = [int(line.removeprefix("worker:0| ")) for line in out.splitlines()]
        numbers.pop()  # it may have been stopped within a line
        self.assertGreater(len(numbers), 1000)
        self.assertEqual(numbers, list(range(1, len(numbers) + 1)))

    ENDLESS = "trap '' TERM; : > pid; exec yes yyyyyyyyyyyyyyyy"

    def start_endless(self, *options):
        process = self.start_cli("run", *options, "--", "sh", "-c", self.ENDLESS)
        self.wait_for_file("pid")
        self.wait_for_full_pipe(process.stdout)
        return process

    @staticmethod
    def wait_without_reading(process):
        process.wait(timeout=WAIT_S)
        return process.stderr.read()

    def assert_loss_is_told(self, err):
        told = re.findall(r"^millrace: output was lost, since nobody read it: "
                          r"(\d+) lines \([0-9.]+ [KM]?i?B\) of worker:0$", err, re.M)
        self.assertEqual(len(told), 1, err)
        self.assertGreater(int(told[0]), 0)

    def test_ctrl_c_twice_ends_it(self):
        process = self.start_endless("--stop-grace", "1h")
        process.send_signal(signal.SIGINT)
        wait_for(lambda: pending_signals(process.pid) == 0, "the first signal is taken")
        process.send_signal(signal.SIGINT)
        err = self.wait_without_reading(process)
        self.assertEqual(process.returncode, 130, err)
        self.assert_loss_is_told(err)

    def test_a_time_limit_ends_it(self):
        process = self.start_endless("--timeout", "20s", "--stop-grace", "1s")
        err = self.wait_without_reading(process)
        self.assertEqual(process.returncode, 75, err)
        self.assertIn("--timeout of 20 s is over", err)
        self.assert_loss_is_told(err)

    def test_a_time_limit_ends_the_wait_for_the_reader(self):
        process = self.start_cli("run", "--timeout", "20s", "--stop-grace", "1s", "--", "sh", "-c",
                                 "seq 40000; : > done")
        self.wait_for_file("done")
        self.wait_for_full_pipe(process.stdout)
        err = self.wait_without_reading(process)
        self.assertEqual(process.returncode, 75, err)
        self.assert_loss_is_told(err)

    def test_a_stuck_stderr_holds_up_nothing_but_itself(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        process = subprocess.Popen(
            [millrace_path(), "run", "-n", "2", "--", "sh", "-c", f"({self.FAILING}) >&2"],
            cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=write_end,
            stderr=write_end)
        os.close(write_end)
        self.addCleanup(process.kill)
        self.wait_for_full_pipe(read_end)
        self.write("fail", "")
        self.assertEqual(process.wait(timeout=WAIT_S), 3)


if __name__ == "__main__":
    unittest.main()
