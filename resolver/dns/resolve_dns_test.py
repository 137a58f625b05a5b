"""`millrace resolve dns` asks a name server, dnslib's, on loopback: SRV records, addresses, what goes wrong."""

import json
import signal
import socket
import unittest

import dnslib
from cli_testing import CliTestCase
from name_server import NameServer, srv

SERVICE = "_agent._tcp.train.example"


class ResolveDnsTest(CliTestCase):
    def setUp(self):
        super().setUp()
        self.dns = NameServer(self)
        self.args = ("dns", "--server", self.dns.address, "--job", f"worker={SERVICE}")

    def spec_of(self, *args):
        done = self.run_cli("resolve", *args)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refused(self, code, *args):
        done = self.run_cli("resolve", *args)
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def test_srv_records_are_tasks(self):
        records = [srv("w-10.train.example"), srv("w-2.train.example", 1), srv("w-2.train.example", 10)]
        self.dns.records = {(SERVICE, "SRV"): records}
        want = {"worker": ["w-2.train.example:1", "w-2.train.example:10", "w-10.train.example:7077"]}
        self.assertEqual(self.spec_of(*self.args, "--expect", "worker=3"), want)
        self.assertIn("have 3 of 4", self.refused(70, *self.args, "--expect", "worker=4"))

    def test_addresses_of_a_name_are_tasks(self):
        self.dns.records = {
            ("ps.example", "A"): [dnslib.A("10.0.0.100"), dnslib.A("10.0.0.9")],
            ("ps.example", "AAAA"): [dnslib.AAAA("fd00::2")],
            (SERVICE, "SRV"): [srv("w-0.train.example")],
        }
        found = self.spec_of(*self.args, "--job", "ps=ps.example", "--port", "2222")
        self.assertEqual(list(found), ["worker", "ps"])
        self.assertEqual(found["ps"], ["10.0.0.9:2222", "10.0.0.100:2222", "[fd00::2]:2222"])

    def test_a_long_answer_comes_over_tcp(self):
        self.dns.records = {(SERVICE, "SRV"): [srv(f"w-{number}.train.example") for number in range(200)]}
        self.assertEqual(self.spec_of(*self.args)["worker"], [f"w-{n}.train.example:7077" for n in range(200)])
        self.assertEqual(self.dns.over_tcp, 1)

    def test_a_name_that_does_not_exist_has_no_tasks(self):
        self.assertIn(f"worker ({SERVICE}): have 0 of 1", self.refused(70, *self.args))
        self.assertEqual(self.spec_of(*self.args, "--complete", "available"), {"worker": {}})
        self.dns.records = {(SERVICE, "TXT"): [dnslib.TXT("x")]}
        self.assertIn("have 0 of 1", self.refused(70, *self.args))
        late = self.refused(75, *self.args, "--complete", "wait", "--wait-timeout", "10ms")
        self.assertIn("have 0 of 1", late)

    def test_says_who_does_not_answer(self):
        self.dns.rcode = dnslib.RCODE.SERVFAIL
        self.assertIn(f"the SRV records of {SERVICE}", self.refused(69, *self.args))
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(silent.close)
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        told = self.refused(75, "dns", "--server", address, "--job", f"worker={SERVICE}", "--timeout", "50ms")
        self.assertIn(f"the SRV records of {SERVICE}", told)

    def test_asks_the_next_server(self):
        self.dns.records = {(SERVICE, "SRV"): [srv("w-0.train.example")]}
        found = self.spec_of("dns", "--server", "127.0.0.1:1", *self.args[1:], "--timeout", "1m")
        self.assertEqual(found, {"worker": ["w-0.train.example:7077"]})

    def test_a_watch_tells_what_changes(self):
        self.dns.records = {(SERVICE, "SRV"): [srv("w-0.train.example")]}
        process = self.start_cli("resolve", *self.args, "--watch", "--poll-interval", "20ms")
        self.assertEqual(json.loads(process.stdout.readline()), {"worker": ["w-0.train.example:7077"]})
        self.dns.records = {(SERVICE, "SRV"): [srv("w-0.train.example"), srv("w-1.train.example")]}
        line = process.stdout.readline()
        self.assertEqual(json.loads(line), {"worker": ["w-0.train.example:7077", "w-1.train.example:7077"]})
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), 143)

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("--job", self.refused(64, "dns"))
        self.assertIn("NAME=DOMAIN", self.refused(64, "dns", "--job", "worker"))
        self.assertIn("servers", self.refused(64, "dns", "--job", "w=x", "--server", "dns.example"))
        self.assertIn("expected_tasks of ps", self.refused(64, *self.args, "--expect", "ps=1"))
        long = "a" * 64 + ".example"
        self.assertIn("a" * 64, self.refused(64, "dns", "--job", f"w={long}", "--server", self.dns.address))


if __name__ == "__main__":
    unittest.main()
