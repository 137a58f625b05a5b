"""Ctrl-Z on `millrace run`, and a driver that does not run for a while: these tests let time pass."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from cli_testing import PYTHON, WAIT_S, CliTestCase, line_with, millrace_path
from eventually import wait_for


def state_of(pid):
    """The letter of /proc/PID/stat: T is stopped, Z has ended; "" if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


def sampled_after(test, time_ms):
    """Whether the cluster has a sample of each of its nodes that is later than that."""
    nodes = test.json_of("nodes", "--json")["nodes"]
    return all(node["sample"] and node["sample"]["time_ms"] > time_ms for node in nodes)


class CtrlZTest(CliTestCase):
    # Not a shell: one that waits for a child between vfork and exec is no stopped process itself.
    COUNT = """
import os, time
rank = os.environ["RANK"]
count = open(f"count.{rank}", "wb", buffering=0)
with open(f"tmp.{rank}", "w") as file: file.write(str(os.getpid()))
os.rename(f"tmp.{rank}", f"up.{rank}")
while not os.path.exists("done"):
    count.write(b".")
    time.sleep(0.02)
print("well")
"""

    def start(self, *options):
        # A process group of its own, as a shell gives to each job.
        process = self.start_cli("run", "-n", "2", *options, "--", PYTHON, "-c", self.COUNT,
                                 process_group=0)
        nodes = []
        for rank in (0, 1):
            self.wait_for_file(f"up.{rank}")
            with open(self.path(f"up.{rank}"), encoding="ascii") as file:
                nodes.append(int(file.read()))
        return process, nodes

    def pause(self, process, nodes):
        process.send_signal(signal.SIGTSTP)
        for pid in (process.pid, *nodes):
            wait_for(lambda pid=pid: state_of(pid) == "T", f"process {pid} stopped")

    def counts(self):
        return [os.path.getsize(self.path(f"count.{rank}")) for rank in (0, 1)]

    def test_pauses_the_nodes_until_fg(self):
        # A node that somebody else stops for so long has failed.
        process, nodes = self.start("--stop-timeout", "1s")
        self.pause(process, nodes)
        before = self.counts()
        time.sleep(3)
        self.assertEqual(self.counts(), before)
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: all(now > was for now, was in zip(self.counts(), before)),
                 "nodes that go on")
        self.write("done", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertCountEqual(out.splitlines(), ["worker:0| well", "worker:1| well"])

    def test_a_long_pause_is_one_too_and_not_counted_by_timeout(self):
        # Longer than agents wait for a coordinator that does not answer: 11 s, and a lease of 10 s.
        process, nodes = self.start("--timeout", "24s")
        self.pause(process, nodes)
        time.sleep(25)
        resumed_ms = time.time() * 1000
        process.send_signal(signal.SIGCONT)
        # A line that a node writes before its agent has dialled again would not be relayed.
        wait_for(lambda: sampled_after(self, resumed_ms), "samples of both nodes")
        self.write("done", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertCountEqual(out.splitlines(), ["worker:0| well", "worker:1| well"])

    def test_nothing_is_left_of_one_that_is_killed_while_it_is_stopped(self):
        process, nodes = self.start()
        self.pause(process, nodes)
        process.kill()
        for pid in nodes:
            wait_for(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"the end of {pid}")


class OtherHostsTest(CliTestCase):
    def start_agent(self, secret):
        """Starts an agent that listens; returns its address."""
        program = os.path.join(os.path.dirname(os.path.dirname(millrace_path())), "agent", "millrace-agent")
        agent = subprocess.Popen(
            [program, "agent", "--listen", "127.0.0.2:0", "--secret-file", secret],
            env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def end():
            agent.kill()
            agent.communicate()

        self.addCleanup(end)
        return re.search("listening on ([^,]*),", line_with(agent.stdout, "listening on "))[1]

    def test_ctrl_z_is_ignored_with_a_line(self):
        secret = self.path("agents.json")
        self.assertEqual(self.run_cli("agent-secret", "--file", secret).returncode, 0)
        members = json.dumps({"worker": [self.start_agent(secret)]})
        up, done = self.path("up"), self.path("done")
        process = self.start_cli(
            "run", "--on", "static", "--members", members, "--secret-file", secret, "--", "sh", "-c",
            f": > {up}; while [ ! -e {done} ]; do sleep 0.05; done; echo well", process_group=0)
        self.wait_for_file("up")
        process.send_signal(signal.SIGTSTP)
        line_with(process.stderr, "Ctrl-Z does not pause nodes on other hosts")
        # Were it stopped, it would not end.
        self.write("done", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, out), (0, "worker:0| well\n"), err)


class PausedDriverTest(CliTestCase):
    """A driver that is stopped, as by a debugger or a pause of its machine, and goes on later."""

    # Longer than the silence after which an agent is lost (5 s).
    PAUSE_S = 6

    def start(self, script, *options):
        process = self.start_cli("run", "-n", "2", *options, "--", "sh", "-c", script)
        self.wait_for_file("up.0")
        self.wait_for_file("up.1")
        return process

    def stop(self, process):
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: state_of(process.pid) == "T", "a driver that is stopped")

    UP = ": > up.$RANK; "

    def test_its_cluster_goes_on(self):
        process = self.start(self.UP + "while [ ! -e done ]; do sleep 0.05; done; echo well")
        self.stop(process)
        time.sleep(self.PAUSE_S)
        resumed_ms = time.time() * 1000
        process.send_signal(signal.SIGCONT)
        # It counts silence again: a node that is lost would be so before its second sample comes.
        wait_for(lambda: sampled_after(self, resumed_ms + 1000), "samples of both nodes")
        self.write("done", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertCountEqual(out.splitlines(), ["worker:0| well", "worker:1| well"])

    def test_how_nodes_ended_meanwhile_is_what_counts(self):
        process = self.start(self.UP + "while [ ! -e done ]; do sleep 0.05; done; echo last words; "
                                       ": > over.$RANK; test $RANK = 0 || { echo out of cheese >&2; exit 3; }")
        self.stop(process)
        self.write("done", "")
        for rank in (0, 1):
            self.wait_for_file(f"over.{rank}")
        time.sleep(self.PAUSE_S)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 3, err)
        self.assertRegex(err, "(?m)^millrace: worker:1 .*exited with code 3.*out of cheese")
        self.assertCountEqual(out.splitlines(), ["worker:0| last words", "worker:1| last words"])


if __name__ == "__main__":
    unittest.main()
