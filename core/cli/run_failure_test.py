"""Nodes of `millrace run` that fail: which one is named, and which are started again."""

import os
import unittest

from cli_testing import PYTHON, WAIT_S, CliTestCase, line_with


class FirstCauseTest(CliTestCase):
    # All are connected to rank 0, which raises, lets go of them once that is known, and ends after them.
    RING = """
import os, select, socket, sys, time
rank = int(os.environ["RANK"])
if rank == 0:
    server = socket.create_server(("127.0.0.1", 0))
    with open("port.tmp", "w") as file: file.write(str(server.getsockname()[1]))
    os.rename("port.tmp", "port")
    peers = [server.accept()[0] for _ in range(3)]
    ends = [os.pidfd_open(int.from_bytes(peer.recv(4), "big")) for peer in peers]
    try:
        raise ValueError("the loss is nan")
    except ValueError as error:
        print(f"ValueError: {error}", file=sys.stderr, flush=True)
        while not os.path.exists("heard"): time.sleep(0.01)
        for peer in peers: peer.close()
        for end in ends: select.select([end], [], [])
        os._exit(1)
while not os.path.exists("port"): time.sleep(0.01)
peer = socket.create_connection(("127.0.0.1", int(open("port").read())))
peer.send(os.getpid().to_bytes(4, "big"))
if not peer.recv(1): raise ConnectionError("the peer is gone")
"""

    def test_the_node_that_others_ended_of_is_named_and_so_are_they(self):
        process = self.start_cli("run", "-n", "4", "--", PYTHON, "-c", self.RING)
        line_with(process.stderr, "ValueError")
        self.write("heard", "")
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 1, err)
        told = [line for line in err.splitlines() if line.startswith("millrace: ")]
        self.assertEqual(len(told), 1, err)
        self.assertRegex(told[0], "^millrace: worker:0 .*exited with code 1; also failed: .*"
                                  "Last stderr line: 'ValueError: the loss is nan'$")
        for rank in (1, 2, 3):
            self.assertIn(f"worker:{rank} exited with code 1", told[0])


class RestartTest(CliTestCase):
    def log_lines(self, name):
        with open(self.path(f"logs/{name}"), encoding="utf-8") as log:
            return sorted(log.read().splitlines())

    def test_a_node_that_fails_once_is_started_again(self):
        done = self.run_cli(
            "run", "-n", "2", "--max-restarts", "1", "--log-dir", "logs", "--", "sh", "-c",
            'if [ "$RANK" = 1 ] && [ ! -e failed ]; then : > failed; echo one; echo out of cheese >&2; '
            "exit 3; fi; echo two")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(),
                              ["worker:1| one", "worker:0| two", "worker:1| two"])
        self.assertIn("worker:1| out of cheese", done.stderr.splitlines())
        self.assertEqual(self.log_lines("worker-1.0.log"), ["one", "out of cheese"])
        self.assertEqual(self.log_lines("worker-1.1.log"), ["two"])
        self.assertEqual(self.log_lines("worker-0.0.log"), ["two"])
        self.assertFalse(os.path.exists(self.path("logs/worker-0.1.log")))

    def test_nodes_that_fail_at_the_same_time_are_each_started_again(self):
        done = self.run_cli(
            "run", "-n", "4", "--max-restarts", "3", "--initial-backoff", "100ms", "--", "sh", "-c",
            'if [ ! -e failed.$RANK ]; then : > failed.$RANK; '
            "while [ $(ls failed.* | wc -l) -lt 4 ]; do sleep 0.02; done; exit 3; fi; echo well")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(), [f"worker:{rank}| well" for rank in range(4)])

    def test_quarantine_is_an_option(self):
        script = "echo try >> tries; test $(wc -l < tries) -gt 4 || exit 3"
        done = self.run_cli("run", "--max-restarts", "9", "--initial-backoff", "10ms", "--max-backoff", "20ms", "--",
                            "sh", "-c", script)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("3 failures of worker:0 in 60 s, where quarantine begins (--quarantine)", done.stderr)
        os.remove(self.path("tries"))
        done = self.run_cli("run", "--max-restarts", "9", "--initial-backoff", "10ms", "--max-backoff", "20ms",
                            "--quarantine", "never", "--", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        for value in ("3", "0/60s", "3/soon"):
            self.assertEqual(self.run_cli("run", "--quarantine", value, "--", "true").returncode, 64)

    def test_a_message_names_the_commands_options(self):
        done = self.run_cli("run", "--stop-timeout", "500ms", "--", "sh", "-c", "kill -STOP $$")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("longer than --stop-timeout", done.stderr)

    def test_one_that_fails_again_is_the_clusters_failure(self):
        done = self.run_cli(
            "run", "-n", "1", "--max-restarts", "1", "--log-dir", "logs", "--", "sh", "-c",
            "echo try >> tries; exit $((2 + $(wc -l < tries)))")
        self.assertEqual(done.returncode, 4, done.stderr)
        with open(self.path("tries"), encoding="ascii") as tries:
            self.assertEqual(tries.read(), "try\ntry\n")


if __name__ == "__main__":
    unittest.main()
