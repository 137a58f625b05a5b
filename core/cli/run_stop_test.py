"""How `millrace run` ends when it is asked to: signals, and readers that are gone."""

import os
import signal
import unittest

from cli_testing import WAIT_S, CliTestCase, pending_signals
from eventually import wait_for


class StopTest(CliTestCase):
    POLITE = "trap 'echo saved; exit 0' TERM; echo ready; : > up.$RANK; while :; do sleep 0.05; done"
    STUBBORN = "trap '' TERM; : > up.$RANK; while :; do sleep 0.05; done"

    def start(self, script, *options):
        process = self.start_cli("run", "-n", "2", *options, "--", "sh", "-c", script)
        self.wait_for_file("up.0")
        self.wait_for_file("up.1")
        return process

    def test_ctrl_c_stops_the_nodes_in_order(self):
        process = self.start(self.POLITE)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertEqual(out.splitlines().count("worker:0| saved"), 1)
        self.assertEqual(out.splitlines().count("worker:1| saved"), 1)
        told = [line for line in err.splitlines() if line.startswith("millrace: ")]
        self.assertEqual(told, ["millrace: stopped: millrace run got SIGINT"])

    def test_sigterm_is_143(self):
        process = self.start(self.POLITE)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 143, err)

    def test_ctrl_c_twice_kills_them(self):
        process = self.start(self.STUBBORN, "--stop-grace", "1h")
        process.send_signal(signal.SIGINT)
        # Two signals of one number that nobody has taken yet are one.
        wait_for(lambda: pending_signals(process.pid) == 0, "the first signal is taken")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 130, err)

    def test_nobody_reads_stdout_any_more(self):
        process = self.start("trap 'exit 0' TERM; : > up.$RANK; "
                             "while :; do echo y; sleep 0.05; done")
        process.stdout.close()
        process.wait(timeout=WAIT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGPIPE)

    def test_a_killed_millrace_leaves_nothing(self):
        process = self.start("echo $$ > pid.$RANK; : > up.$RANK; exec sleep 600")
        pids = []
        for rank in (0, 1):
            with open(self.path(f"pid.{rank}"), encoding="ascii") as file:
                pids.append(int(file.read()))
        process.kill()
        process.wait(timeout=WAIT_S)
        for pid in pids:
            wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"end of {pid}")
        wait_for(lambda: os.listdir(self.path("tmp")) == [], "nothing in TMPDIR")


class IgnoredSignalsTest(CliTestCase):
    def test_what_was_ignored_before_stays_ignored(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            with self.subTest(signal=number):
                process = self.start_cli(
                    "run", "--", "sh", "-c", ": > up; while [ ! -e done ]; do sleep 0.05; done; rm done up",
                    preexec_fn=lambda number=number: signal.signal(number, signal.SIG_IGN))
                self.wait_for_file("up")
                process.send_signal(number)  # as nohup's terminal does when it closes
                # It would come after that one.
                wait_for(lambda: self.json_of("status", "--json")["cluster"]["phase"] == "running",
                         "a cluster that runs")
                self.write("done", "")
                _, err = process.communicate(timeout=WAIT_S)
                self.assertEqual((process.returncode, err), (0, ""))


if __name__ == "__main__":
    unittest.main()
