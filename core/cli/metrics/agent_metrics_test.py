"""`millrace-agent agent --listen --metrics-port`, as Prometheus reads it; with the real Prometheus where it can be had.

    agent_metrics_test.py ROOT ALERTS ALERTS_TEST

ROOT is an archive of a root folder that has it (debian_root.bzl), or says why there is none.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import unittest
import urllib.parse

from agents_testing import AgentsTestCase, agent_path
from eventually import WAIT_S, wait_for
from metrics_testing import MetricsTestCase, PrometheusTestCase, get

_ROOT, _ALERTS, _ALERTS_TEST = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[1:4]
_FAKE_NVML = os.path.join(
    os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace/testing/fake_nvml/libfake_nvml.so"
)


def listening_ports(pid):
    """The TCP ports of 127.0.0.0/8 on which a process listens."""
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
        except FileNotFoundError:
            pass  # closed meanwhile
    ports = set()
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
        for row in list(table)[1:]:
            fields = row.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in links:
                ports.add(int(fields[1].split(":")[1], 16))
    return ports


class AgentMetricsTestCase(AgentsTestCase, MetricsTestCase):
    def start_measured(self, *args, host="127.0.0.2"):
        """An agent that serves its numbers, with their address."""
        agent = self.start_agent(host, args=["--metrics-port", "0", *args])
        line = wait_for(lambda: agent.said("metrics at "), "the address of metrics")[0]
        agent.url = line.split("metrics at ")[1].strip()
        return agent

    def on(self, *agents, job="worker"):
        members = {job: [agent.address for agent in agents]}
        return ["--on", "static", "--members", json.dumps(members), "--secret-file", self.secret]

    def numbers(self, agent):
        """Samples without "millrace_agent_": {'slots{state="free"}': 1.0}."""
        status, _, text = get(agent.url)
        self.assertEqual(status, 200, text)
        self.assertTrue(text.endswith("# EOF\n"), text)
        return {name: float(value) for name, value in re.findall(r"(?m)^millrace_agent_(\S+) (\S+)$", text)}

    def wait_for_numbers(self, agent, **expected):
        """Until the samples have these values; "__" stands before the value of the only label."""

        def matching():
            numbers = self.numbers(agent)
            found = {}
            for key in expected:
                name, _, label = key.partition("__")
                name = next((each for each in numbers if re.fullmatch(
                    name + (rf'{{\w+="{label}"}}' if label else ""), each)), None)  # fmt: skip
                found[key] = numbers.get(name)
            last.append(found)
            return found == expected and numbers

        last = []
        try:
            return wait_for(matching, str(expected))
        except AssertionError as error:
            raise AssertionError(f"{error}: {last[-1]}; it said {agent.lines}") from error

    def adopt(self, agent, *program, args=()):
        """A cluster on it, whose node runs."""
        process = self.start_cli("run", *self.on(agent), *args, "--", "sh", "-c",
                                 "; ".join(["echo here", *program]))  # fmt: skip
        self.assertEqual(process.stdout.readline(), "worker:0| here\n")
        return process


class AgentMetricsTest(AgentMetricsTestCase):
    def test_metrics_are_off_unless_asked_for(self):
        agent = self.start_agent("127.0.0.2")
        port = int(agent.address.rpartition(":")[2])
        self.assertEqual(listening_ports(agent.process.pid), {port})
        self.assertFalse(agent.said("metrics"))
        measured = self.start_measured()
        ports = {int(measured.address.rpartition(":")[2]), urllib.parse.urlsplit(measured.url).port}
        self.assertEqual(listening_ports(measured.process.pid), ports)

    def test_an_agent_that_waits(self):
        agent = self.start_measured()
        self.assertRegex(agent.url, r"^http://127\.0\.0\.1:\d+/metrics$")
        numbers = self.numbers(agent)
        version = re.search(r"version (\S+)", agent.said("listening on")[0]).group(1)
        self.assertEqual(numbers[f'info{{version="{version}",host="{socket.gethostname()}"}}'], 1)
        self.assertEqual(
            [numbers[f'slots{{state="{state}"}}'] for state in ("free", "held", "running")], [1, 0, 0])
        for name in ("adoptions_total", "node_starts_total", "node_restarts_total", 'node_ends_total{outcome="lost"}',
                     'refusals_total{reason="busy"}', "log_written_bytes_total", "relayed_lines_total"):
            self.assertEqual(numbers[name], 0, name)
        self.assertGreater(numbers['resident_memory_bytes{process="listener"}'], 1 << 20)
        self.assertGreater(numbers['threads{process="listener"}'], 1)
        self.assertGreater(numbers['descriptor_limit{process="listener"}'],
                           numbers['open_descriptors{process="listener"}'])
        self.assertNotIn('threads{process="agent"}', numbers)
        year = 365 * 86400
        self.assertAlmostEqual(numbers["secret_expiry_timestamp_seconds"] - numbers["started_timestamp_seconds"], year,
                               delta=3600)

    def test_a_scrape_while_an_adoption_runs(self):
        agent = self.start_measured()
        run = self.adopt(agent, f"until [ -e {self.path('done')} ]; do sleep 0.05; done", "echo there >&2")
        numbers = self.wait_for_numbers(
            agent, slots__running=1, slots__free=0, adoptions_total=1, node_starts_total=1, log_written_bytes_total=5,
            relayed_lines_total=1)  # fmt: skip
        self.assertEqual(numbers['node_ends_total{outcome="finished"}'], 0)
        self.assertIn('cpu_seconds_total{process="agent"}', numbers)
        for name in ("resident_memory_bytes", "threads", "open_descriptors", "descriptor_limit"):
            self.assertGreater(numbers[f'{name}{{process="agent"}}'], 0, name)
        self.assertNotIn('gpus{state="free"}', numbers, "nobody has looked")
        self.write("done", "")
        self.assertEqual(run.wait(WAIT_S), 0)
        numbers = self.wait_for_numbers(agent, slots__free=1, slots__running=0, node_ends_total__finished=1,
                                        log_written_bytes_total=11, relayed_lines_total=2)  # fmt: skip
        self.assertNotIn('threads{process="agent"}', numbers)
        # The next cluster's are added to them.
        self.adopt(agent, "echo again", "exit 0")
        self.wait_for_numbers(agent, adoptions_total=2, node_starts_total=2, node_ends_total__finished=2,
                              log_written_bytes_total=22)  # fmt: skip

    def test_each_end_has_its_word(self):
        agent = self.start_measured()
        run = ("run", *self.on(agent))
        failing = self.run_cli(*run, "--max-restarts", "1", "--initial-backoff", "10ms", "--", "sh", "-c", "exit 3")
        self.assertEqual(failing.returncode, 3, failing.stderr)
        self.wait_for_numbers(agent, slots__free=1, adoptions_total=1, node_starts_total=2, node_restarts_total=1,
                              node_ends_total__failed=2)  # fmt: skip
        killed = self.run_cli(*run, "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(killed.returncode, 137, killed.stderr)
        self.wait_for_numbers(agent, slots__free=1, node_starts_total=3, node_ends_total__killed=1)
        missing = self.run_cli(*run, "--", "no-such-program-there")
        self.assertEqual(missing.returncode, 127, missing.stderr)
        self.wait_for_numbers(agent, slots__free=1, node_starts_total=3, node_ends_total__unstarted=1)
        stopped = self.adopt(agent, "exec sleep 600")
        stopped.send_signal(signal.SIGINT)
        stopped.wait(WAIT_S)
        self.wait_for_numbers(agent, slots__free=1, node_starts_total=4, node_ends_total__stopped=1)
        lost = self.adopt(agent, "exec sleep 600")
        self.wait_for_numbers(agent, node_starts_total=5)
        with open(f"/proc/{agent.process.pid}/task/{agent.process.pid}/children", encoding="ascii") as children:
            [pid] = children.read().split()
        os.kill(int(pid), signal.SIGKILL)
        self.assertNotEqual(lost.wait(WAIT_S), 0)
        self.wait_for_numbers(agent, slots__free=1, node_starts_total=5, node_ends_total__lost=1,
                              node_ends_total__finished=0)  # fmt: skip

    def test_output_over_the_rate_is_dropped_and_counted(self):
        agent = self.start_measured()
        lines = 50000  # of 41 bytes: far over what is relayed at once
        done = self.run_cli("run", *self.on(agent), "--", "sh", "-c",
                            f"seq -f '%040.0f' {lines}")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        numbers = self.wait_for_numbers(agent, slots__free=1, node_ends_total__finished=1,
                                        log_written_bytes_total=lines * 41, log_lost_bytes_total=0)  # fmt: skip
        self.assertGreater(numbers["dropped_lines_total"], 0)
        self.assertEqual(numbers["relayed_lines_total"] + numbers["dropped_lines_total"], lines)

    def test_output_that_no_file_takes_is_lost_and_counted(self):
        agent = self.start_measured()
        os.makedirs(self.path("logs/worker-0.0.log"))  # a folder where its file would be
        done = self.run_cli("run", *self.on(agent), "--log-dir", self.path("logs"), "--", "echo", "here")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.wait_for_numbers(agent, slots__free=1, log_written_bytes_total=0, log_lost_bytes_total=5,
                              relayed_lines_total=2)  # fmt: skip

    def test_refusals_have_their_reasons(self):
        agent = self.start_measured()
        other = self.path("other.json")
        self.assertEqual(self.run_cli("agent-secret", "--file", other).returncode, 0)
        with open(self.secret, encoding="utf-8") as ours, open(other, encoding="utf-8") as theirs:
            mixed = {**json.load(ours), "token": json.load(theirs)["token"]}
        members = self.on(agent)[:-2]
        file = self.write("mixed.json", json.dumps(mixed), 0o600)
        refused = self.run_cli("run", *members, "--secret-file", file, "--", "true")
        self.assertEqual(refused.returncode, 69, refused.stderr)
        self.assertEqual(wait_for(lambda: self._refused(agent, "token"), "token")["adoptions_total"], 0)
        stranger = ssl.create_default_context()
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        host, port = agent.address.split(":")
        with socket.create_connection((host, int(port)), WAIT_S) as connection:
            with contextlib.suppress(OSError), stranger.wrap_socket(connection) as encrypted:
                self.assertEqual(encrypted.recv(1), b"")  # with TLS 1.3 it is told after its own handshake
        wait_for(lambda: self._refused(agent, "handshake"), "handshake")
        run = self.adopt(agent, "exec sleep 600")
        busy = self.run_cli("run", *self.on(agent), "--reservation-timeout", "2s", "--", "true")
        self.assertEqual(busy.returncode, 75, busy.stderr)
        self.assertGreater(self._refused(agent, "busy")['refusals_total{reason="busy"}'], 0)
        self.assertEqual(self.numbers(agent)["adoptions_total"], 1)
        self.assertEqual(run.poll(), None)

    def _refused(self, agent, reason):
        numbers = self.numbers(agent)
        return numbers if numbers[f'refusals_total{{reason="{reason}"}}'] > 0 else None

    def test_gpus_as_its_agent_sees_them(self):
        self.env.update(MILLRACE_NVML_LIBRARY=_FAKE_NVML, FAKE_NVML_SCRIPT=self.path("gpus"))
        mark = os.urandom(8).hex()  # claims are the host's
        self.write("gpus", "driver 550.54.15\nnvml 12\n" + "".join(
            f"gpu {i} uuid=GPU-{i}-{mark} name=A\n" for i in range(4)))  # fmt: skip
        agents = [self.start_measured(host=f"127.0.0.{n}") for n in (2, 3)]
        run = self.start_cli("run", *self.on(*agents), "--gpus-per-node", "1", "--", "sleep", "600")
        for agent in agents:
            self.wait_for_numbers(agent, gpus__own=1, gpus__others=1, gpus__free=2)
        run.send_signal(signal.SIGINT)
        run.wait(WAIT_S)
        for agent in agents:
            self.assertNotIn('gpus{state="own"}', self.wait_for_numbers(agent, slots__free=1))


class ServingTest(AgentMetricsTestCase):
    def test_a_token(self):
        agent = self.start_measured("--metrics-scrape-token", self.write("token", "secret-1\n"))
        for token in (None, "", "secret", "secret-11"):
            self.assertEqual(get(agent.url, token)[0], 401)
        self.assertEqual(get(agent.url, "secret-1")[0], 200)
        self.write("token", "secret-2\n")
        self.assertEqual([get(agent.url, token)[0] for token in ("secret-1", "secret-2")], [401, 200])

    def test_tls_and_certificates_of_callers(self):
        certificate, key = self.make_certificate("server")
        caller, _ = self.make_certificate("caller")
        self.make_certificate("other")
        agent = self.start_measured("--metrics-address=0.0.0.0", "--metrics-certificate", certificate, "--metrics-key",
                                    key, "--metrics-client-ca", caller)  # fmt: skip
        self.assertRegex(agent.url, r"^https://0\.0\.0\.0:\d+/metrics$")
        url = agent.url.replace("0.0.0.0", "127.0.0.1")
        for name in ("none", "other", "caller"):
            context = ssl.create_default_context(cafile=certificate)
            if name != "none":
                context.load_cert_chain(self.path(f"{name}.pem"), self.path(f"{name}.key"))
            if name == "caller":
                self.assertEqual(get(url, context=context)[0], 200)
            else:
                with self.assertRaises(OSError):
                    get(url, context=context)

    def refused(self, *args):
        """Exit code and the one line of an agent that does not begin to listen."""
        done = subprocess.run([agent_path(), "agent", *args], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=WAIT_S, check=False)  # fmt: skip
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr

    def test_mistakes(self):
        listen = ["--listen", "127.0.0.2:0", "--secret-file", self.secret]
        port = ["--metrics-port", "0"]
        for args, code, words in (
            ([*listen, "--metrics-address", "127.0.0.1"], 2, "--metrics-address goes with --metrics-port"),
            ([*listen, "--metrics-port", "65536"], 2, 'no port, 0 to 65535'),
            ([*listen, "--metrics-port", "x"], 2, 'no port, 0 to 65535'),
            ([*listen, *port, "--metrics-address", "0.0.0.0"], 2, "give --metrics-certificate FILE and --metrics-key"),
            ([*listen, *port, "--metrics-address", "::", "--metrics-certificate", "a", "--metrics-key", "b"], 2,
             "--metrics-scrape-token FILE or --metrics-client-ca FILE"),
            (port, 2, "metrics are for --listen"),
            ([*listen, *port, "--metrics-address", "localhost"], 3, "localhost"),
            ([*listen, *port, "--metrics-certificate", "none.pem"], 3, "go together"),
            ([*listen, *port, "--metrics-certificate", "none.pem", "--metrics-key", "none.key"], 3, "none.pem"),
            ([*listen, *port, "--metrics-scrape-token", "none"], 3, "none"),
        ):
            with self.subTest(args=args):
                found, line = self.refused(*args)
                self.assertIn(words, line)
                self.assertEqual(found, code, line)
        self.assertEqual(self.refused("--parent=stdin", *port)[0], 2)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            code, line = self.refused("--listen", "127.0.0.2:0", "--secret-file", self.secret, "--metrics-port",
                                      str(port))  # fmt: skip
            self.assertEqual(code, 3)
            self.assertRegex(line, rf"\Amillrace-agent: metrics: cannot listen on 127\.0\.0\.1 port {port}: .*\n\Z")
            code, line = self.refused("--listen", f"127.0.0.1:{port}", "--secret-file", self.secret)
            self.assertEqual(code, 3)
            self.assertRegex(line, rf"\Amillrace-agent: cannot listen on 127\.0\.0\.1:{port}: .*\n\Z")


@unittest.skipUnless(_ROOT.endswith(".tar"), "no Prometheus: its packages cannot be had")
class PrometheusTest(AgentMetricsTestCase, PrometheusTestCase):
    root = _ROOT

    def test_promtool_finds_nothing_to_say(self):
        agent = self.start_measured()
        self.adopt(agent, "exec sleep 600")
        self.wait_for_numbers(agent, node_starts_total=1)
        self.promtool("check", "metrics", stdin=get(agent.url, accept="text/plain")[2])

    def test_rules_say_what_they_should(self):
        for path in (_ALERTS, _ALERTS_TEST):
            shutil.copy(path, self.folder)
        done = subprocess.run([self.path("promtool"), "test", "rules", os.path.basename(_ALERTS_TEST)], cwd=self.folder,
                              capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_prometheus_scrapes_and_alerts(self):
        certificate, key = self.make_certificate("server")
        agent = self.start_measured("--metrics-certificate", certificate, "--metrics-key", key,
                                    "--metrics-scrape-token", self.write("token", "secret"))  # fmt: skip
        self.start_prometheus(_ALERTS, {
            "job_name": "millrace-agents",
            "scheme": "https",
            "tls_config": {"ca_file": certificate},
            "authorization": {"credentials_file": self.path("token")},
            "static_configs": [{"targets": [urllib.parse.urlsplit(agent.url).netloc]}],
        })  # fmt: skip
        wait_for(lambda: self.rows('millrace_agent_slots{state="free"} == 1'), "the agent is scraped")
        [target] = self.ask("targets")["activeTargets"]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        kinds = self.ask("metadata")
        self.assertEqual(kinds["millrace_agent_refusals"][0]["type"], "counter")
        self.assertEqual(kinds["millrace_agent_log_written_bytes"][0]["unit"], "bytes")
        self.adopt(agent, "exec sleep 600")
        wait_for(lambda: self.rows('millrace_agent_slots{state="running"} == 1'), "the adoption is scraped")
        rules = [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]
        self.assertEqual({rule["health"] for rule in rules} - {"unknown"}, {"ok"})
        agent.process.kill()
        wait_for(lambda: self.rows('ALERTS{alertname="MillraceAgentDown",alertstate="pending"}'), "the alert")


if __name__ == "__main__":
    unittest.main()
