"""`millrace agent-secret` and `millrace run --on`: agents that listen, each on an address of its own."""

import json
import os
import re
import signal
import stat
import subprocess
import threading
import unittest

from cli_testing import CliTestCase, millrace_path


def agent_path():
    return os.path.join(os.path.dirname(os.path.dirname(millrace_path())), "agent", "millrace-agent")


class Agent:
    """A millrace-agent that listens; what it says is in `lines`."""

    def __init__(self, host, secret, env):
        self.process = subprocess.Popen(
            [agent_path(), "agent", "--listen", f"{host}:0", "--secret-file", secret],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )
        self.lines = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line)

    def said(self, what):
        return [line for line in self.lines if what in line]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()


class RunOnTest(CliTestCase):
    def setUp(self):
        super().setUp()
        self.secret = self.path("agents.json")
        made = self.run_cli("agent-secret", "--file", self.secret)
        self.assertEqual(made.returncode, 0, made.stderr)

    def start_agent(self, host):
        agent = Agent(host, self.secret, self.env)
        self.addCleanup(agent.end)
        line = self.wait_for(lambda: agent.said("listening on"), "an agent that listens")[0]
        agent.address = re.search(r"listening on ([^,]*),", line).group(1)
        return agent

    def on(self, **jobs):
        members = {job: [agent.address for agent in agents] for job, agents in jobs.items()}
        return ["--on", "static", "--members", json.dumps(members), "--secret-file", self.secret]

    def test_a_secret_is_made_once_and_only_its_owner_may_read_it(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.secret).st_mode), 0o600)
        again = self.run_cli("agent-secret", "--file", self.secret)
        self.assertEqual(again.returncode, 70)
        self.assertIn("--replace", again.stderr)
        self.assertEqual(
            self.run_cli("agent-secret", "--file", self.secret, "--replace").returncode, 0
        )
        self.assertEqual(self.run_cli("agent-secret", "--dir", self.path("d")).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.path("d"))), ["tls.crt", "tls.key", "token"])
        manifest = self.run_cli("agent-secret", "--kubernetes", "agents", "--namespace", "ml")
        self.assertEqual(manifest.returncode, 0)
        self.assertIn("kind: Secret", manifest.stdout)
        self.assertEqual(self.run_cli("agent-secret").returncode, 64)
        self.assertEqual(self.run_cli("agent-secret", "--kubernetes", "No Name").returncode, 64)

    def test_the_cluster_is_what_the_members_are(self):
        agents = [self.start_agent(f"127.0.0.{n}") for n in (2, 3, 4)]
        done = self.run_cli(
            "run", *self.on(ps=agents[:1], chief=agents[1:2], worker=agents[2:]), "--", "sh", "-c",
            'echo "rank=${RANK-none} of ${WORLD_SIZE-none}"; '
            'case "$TF_CONFIG" in *\'"type":"ps"\'*|*\'"type": "ps"\'*) exec sleep 600;; esac',
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(
            done.stdout.splitlines(),
            ["ps:0| rank=none of none", "chief:0| rank=0 of 2", "worker:0| rank=1 of 2"],
        )
        for agent in agents:
            self.wait_for(lambda agent=agent: agent.said("free again"), "a free agent")

    def test_a_program_is_sent_where_it_is_not(self):
        agent = self.start_agent("127.0.0.2")
        self.write("greet", "#!/bin/sh\necho hello from $0\n", 0o755)
        done = self.run_cli("run", *self.on(worker=[agent]), "--ship", "--", "./greet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("worker:0| hello from ", done.stdout)

    def test_what_a_node_fails_with_is_what_run_ends_with(self):
        agent = self.start_agent("127.0.0.2")
        done = self.run_cli("run", *self.on(worker=[agent]), "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3, done.stderr)
        missing = self.run_cli("run", *self.on(worker=[agent]), "--", "no-such-program-there")
        self.assertEqual(missing.returncode, 127, missing.stderr)

    def test_agents_are_free_after_their_driver_was_killed(self):
        agent = self.start_agent("127.0.0.2")
        process = self.start_cli("run", *self.on(worker=[agent]), "--", "sh", "-c",
                                 "echo here; exec sleep 600")
        self.assertEqual(process.stdout.readline(), "worker:0| here\n")
        process.send_signal(signal.SIGKILL)
        self.wait_for(lambda: agent.said("free again"), "the agent free again")
        done = self.run_cli("run", *self.on(worker=[agent]), "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_options_that_make_no_sense_are_told(self):
        for args, words in (
            (["--on", "static", "--members", "{}", "--", "true"], "secret"),
            (["--on", "nowhere", "--secret-file", self.secret, "--", "true"], "--on nowhere"),
            (["--on", "static", "--secret-file", self.secret, "--", "true"], "--members"),
            (["--members", "{}", "--", "true"], "--on"),
            (["--on", "static", "--members", '{"cook": ["h:1"]}', "--secret-file", self.secret,
              "--", "true"], "'cook'"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--num-ps", "1",
              "--secret-file", self.secret, "--", "true"], "-n"),
        ):
            with self.subTest(args=args):
                done = self.run_cli("run", *args)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(words, done.stderr)
        few = self.run_cli("run", "-n", "2", *self.on(worker=[self.start_agent("127.0.0.2")]), "--",
                           "true")
        self.assertNotEqual(few.returncode, 0)
        self.assertIn("names no worker:1", few.stderr)


if __name__ == "__main__":
    unittest.main()
