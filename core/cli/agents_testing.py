"""Agents that listen, for tests of what finds them."""

import os
import re
import subprocess
import threading

from cli_testing import CliTestCase, millrace_path
from eventually import wait_for


def agent_path():
    return os.path.join(os.path.dirname(os.path.dirname(millrace_path())), "agent", "millrace-agent")


class Agent:
    """A millrace-agent that listens; what it says, and logs, is in `lines`."""

    def __init__(self, host, secret, env, port=0, args=()):
        self.process = subprocess.Popen(
            [agent_path(), "agent", "--listen", f"{host}:{port}", "--secret-file", secret, *args],
            env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
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


class AgentsTestCase(CliTestCase):
    """With a secret, and agents that listen by it."""

    def setUp(self):
        super().setUp()
        self.secret = self.path("agents.json")
        made = self.run_cli("agent-secret", "--file", self.secret)
        self.assertEqual(made.returncode, 0, made.stderr)

    def start_agent(self, host, port=0, args=()):
        agent = Agent(host, self.secret, self.env, port, args)
        self.addCleanup(agent.end)
        line = wait_for(lambda: agent.said("listen on") or agent.said("listening on"),
                        "an agent that listens")[0]
        if "cannot" in line:
            return None  # the port is somebody else's
        agent.address = re.search(r"listening on ([^,]*),", line).group(1)
        return agent
