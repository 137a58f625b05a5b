"""`millrace run --on` by SRV records of a name server on loopback, dnslib's: agents that listen run the program."""

import json
import unittest

from agents_testing import AgentsTestCase
from cli_testing import WAIT_S
from eventually import wait_for
from name_server import NameServer, srv

_WORKERS = "_agent._tcp.workers.example"
_SERVERS = "_agent._tcp.servers.example"


class RunOnDnsTest(AgentsTestCase):
    def setUp(self):
        super().setUp()
        self.dns = NameServer(self)
        self.agents = [self.start_agent("127.0.0.1") for _ in range(3)]

    def record(self, agent):
        """Its host is localhost, which every machine knows: agents are dialled with the system's name servers."""
        return srv("localhost", int(agent.address.rpartition(":")[2]))

    def on(self, **description):
        source = {"type": "dns", "servers": [self.dns.address], **description}
        return ["--on", json.dumps(source), "--secret-file", self.secret]

    def adopted(self, agent):
        return [int(line.split("executor ")[1].split()[0]) for line in agent.said("adopted as executor ")]

    def test_the_tasks_that_records_name_are_the_cluster(self):
        ps, *workers = self.agents
        self.dns.records = {
            (_WORKERS, "SRV"): [self.record(agent) for agent in workers],
            (_SERVERS, "SRV"): [self.record(ps)],
        }
        done = self.run_cli(
            "run", *self.on(jobs={"worker": _WORKERS, "ps": _SERVERS}), "--", "sh", "-c",
            'test -n "$RANK" || exec sleep 600; echo "rank $RANK of $WORLD_SIZE"',
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(), ["worker:0| rank 0 of 2", "worker:1| rank 1 of 2"])
        self.assertEqual(self.adopted(ps), [0])
        self.assertCountEqual([self.adopted(agent) for agent in workers], [[1], [2]])
        for agent in self.agents:
            wait_for(lambda agent=agent: agent.said("free again"), "a free agent")

    def test_it_waits_for_records(self):
        args = self.on(jobs={"worker": _WORKERS}, expected_tasks={"worker": 2}, completeness="wait")
        process = self.start_cli("run", *args, "--poll-interval", "50ms", "--", "true")
        wait_for(lambda: self.dns.asked > 1, "somebody who asks again")
        self.dns.records = {(_WORKERS, "SRV"): [self.record(self.agents[0])]}
        before = self.dns.asked
        wait_for(lambda: self.dns.asked > before + 1, "somebody who is not content with one")
        self.assertEqual(self.adopted(self.agents[0]), [])
        self.dns.records = {(_WORKERS, "SRV"): [self.record(agent) for agent in self.agents[:2]]}
        _, complaint = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0, complaint)
        self.assertCountEqual([self.adopted(agent) for agent in self.agents], [[0], [1], []])

    def test_a_name_that_nobody_knows_is_told(self):
        args = ("run", *self.on(jobs={"worker": _WORKERS}), "--", "true")
        done = self.run_cli(*args)
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertIn(f"worker ({_WORKERS}): have 0 of 1", done.stderr)


if __name__ == "__main__":
    unittest.main()
