"""`millrace metrics`, as Prometheus reads it; with the real Prometheus and promtool where they can be had.

    metrics_test.py ROOT ALERTS GRAFANA

ROOT is an archive of a root folder that has them (debian_root.bzl), or says why there is none.
"""

import json
import os
import pathlib
import re
import signal
import socket
import ssl
import sys
import time
import unittest
import urllib.error
import urllib.parse

from cli_testing import line_with
from eventually import WAIT_S, wait_for
from metrics_testing import MetricsTestCase, PrometheusTestCase, get

_ROOT, _ALERTS, _GRAFANA = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[1:4]


class PrintTest(MetricsTestCase):
    def test_without_a_cluster_there_are_no_samples(self):
        self.assertEqual(self.metrics(), "# EOF\n")

    def test_all_clusters_of_this_user(self):
        self.start_cluster()
        self.start_cluster("--num-ps", "1")
        text = self.metrics()
        self.assertEqual(len(re.findall(r'^millrace_cluster_phase\{cluster="\w+",phase="running"\} 1$', text, re.M)), 2)
        self.assertEqual(sorted(re.findall(r'millrace_node_restarts_total\{cluster="\w+",role="(\w+)"\} 0\n', text)),
                         ["ps", "worker", "worker"])
        one = json.loads(self.run_cli("clusters", "--json").stdout)["clusters"][0]["id"]
        only = self.metrics("--cluster", one, "--nodes")
        self.assertEqual(set(re.findall(r'cluster="(\w+)"', only)), {one})
        state = r'millrace_each_node_state\{cluster="\w+",node="worker:0",host="[^"]+",state="running"\} 1'
        self.assertRegex(only, state)
        self.assertTrue(only.endswith("# EOF\n"))

    def test_a_cluster_that_is_named_and_gone(self):
        cluster = self.start_cluster()
        [file] = pathlib.Path(self.path("clusters")).glob("*.json")
        copy = self.write("copy.json", file.read_text(encoding="utf-8"), 0o600)
        self.assertIn('phase="running"} 1', self.metrics("--cluster", copy))
        self.write("done", "")
        self.assertEqual(cluster.wait(WAIT_S), 0)
        done = self.run_cli("metrics", "--cluster", copy)
        self.assertEqual((done.returncode, done.stdout), (69, ""), done.stderr)

    def test_mistakes(self):
        for args, words in (
            (["--address", "127.0.0.1"], "--address goes with --port"),
            (["--port", "0", "--nodes"], "/metrics?nodes=1"),
            (["--port", "0", "--address", "localhost"], "localhost"),
            (["--port", "0", "--address", "0.0.0.0"], "other machines reach 0.0.0.0: give --certificate"),
            (["--port", "0", "--address", "::", "--certificate", "a", "--key", "b"], "say who may ask"),
            (["--port", "0", "--certificate", "a"], "go together"),
            (["--port", "0", "--client-ca", "a"], "TLS"),
            (["--port", "0", "--certificate", "none.pem", "--key", "none.key"], "none.pem"),
            (["--port", "0", "--scrape-token", "none"], "none"),
        ):
            done = self.run_cli("metrics", *args)
            self.assertIn(done.returncode, (64, 66), done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.write("empty", "\n")
        self.assertIn("there is no token", self.run_cli("metrics", "--port", "0", "--scrape-token", "empty").stderr)

    def test_a_port_that_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            done = self.run_cli("metrics", "--port", port)
            self.assertEqual(done.returncode, 69, done.stderr)
            self.assertIn(f"cannot listen on 127.0.0.1 port {port}", done.stderr)
        url = self.serve()
        again = self.run_cli("metrics", "--port", url.rsplit(":", 1)[1].split("/")[0])
        self.assertEqual(again.returncode, 69, "two of them on one port")


class RunTest(MetricsTestCase):
    def run_with(self, *args):
        """A run that serves its numbers, and their address."""
        process = self.start_cluster("--metrics-port", "0", *args)
        return process, line_with(process.stderr, "metrics at ").strip().removeprefix("millrace: metrics at ")

    def test_a_run_serves_its_own_numbers_as_long_as_it_runs(self):
        self.start_cluster("--name", "other")
        process, url = self.run_with("--name", "mine")
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/metrics$")
        text = get(url + "?nodes=1")[2]
        self.assertEqual(re.findall(r'^millrace_cluster_info\{.*?name="(\w*)"', text, re.M), ["mine"])
        self.assertEqual(text.count('phase="running"} 1'), 1)
        self.assertIn('node="worker:1"', text)
        self.write("done", "")
        self.assertEqual(process.wait(WAIT_S), 0)
        with self.assertRaises(urllib.error.URLError):
            get(url)

    def test_with_tls_and_a_token(self):
        certificate, key = self.make_certificate("server")
        _, url = self.run_with("--metrics-certificate", certificate, "--metrics-key", key, "--metrics-scrape-token",
                               self.write("token", "secret"))
        self.assertTrue(url.startswith("https://"), url)
        context = ssl.create_default_context(cafile=certificate)
        self.assertEqual(get(url, context=context)[0], 401)
        self.assertEqual(get(url, token="secret", context=context)[0], 200)

    def test_mistakes_start_nothing(self):
        for args, words in (
            (["--metrics-address", "127.0.0.1"], "--metrics-address goes with --metrics-port"),
            (["--metrics-port", "0", "--metrics-address", "0.0.0.0"], "give --metrics-certificate FILE and"),
            (["--metrics-port", "0", "--metrics-address", "::", "--metrics-certificate", "a", "--metrics-key", "b"],
             "--metrics-scrape-token FILE or --metrics-client-ca FILE"),
            (["--metrics-port", "0", "--metrics-scrape-token", "none"], "none"),
        ):
            done = self.run_cli("run", *args, "--", "touch", "started")
            self.assertIn(done.returncode, (64, 66), done.stderr)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(os.path.exists(self.path("started")))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            done = self.run_cli("run", "--metrics-port", port, "--", "true")
            self.assertEqual(done.returncode, 69, done.stderr)


class ServeTest(MetricsTestCase):
    def test_clusters_come_and_go(self):
        url = self.serve()
        self.assertRegex(url, r"^http://127\.0\.0\.1:\d+/metrics$")
        self.assertEqual(get(url)[2], "# EOF\n")
        first = self.start_cluster()
        self.assertEqual(get(url)[2].count('phase="running"} 1'), 1)
        self.start_cluster()
        status, headers, text = get(url)
        self.assertEqual((status, text.count('phase="running"} 1')), (200, 2))
        self.assertEqual(headers["Content-Type"], "application/openmetrics-text; version=1.0.0; charset=utf-8")
        first.send_signal(signal.SIGKILL)
        wait_for(lambda: get(url)[2].count('phase="running"} 1') == 1, "one is gone")
        self.write("done", "")
        wait_for(lambda: "millrace_cluster_phase" not in get(url)[2], "both are gone")
        text = get(url)[2]
        ended = re.findall(r'_cluster_ended_timestamp_seconds\{cluster="\w+",program="[^"]*sh",outcome="(\w+)"\}', text)
        self.assertEqual(sorted(ended), ["ended", "lost"], text)
        self.server.terminate()
        self.assertEqual(self.server.wait(WAIT_S), -signal.SIGTERM)

    def test_formats_and_paths(self):
        self.start_cluster()
        url = self.serve()
        status, headers, text = get(url, accept="text/plain")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertIn("# TYPE millrace_node_restarts_total counter\n", text)
        self.assertNotIn("each_node", text)
        self.assertIn("millrace_each_node_state{", get(url + "?nodes=1")[2])
        self.assertEqual(get(url, method="HEAD")[::2], (200, ""))
        self.assertEqual(get(url.replace("/metrics", "/"))[0], 404)
        self.assertEqual(get(url, method="POST")[0], 405)
        self.assertEqual(get(url)[0], 200)

    def test_callers_that_misbehave_hold_up_nobody(self):
        url = self.serve()
        address = urllib.parse.urlsplit(url)
        held = [socket.create_connection((address.hostname, address.port), 30) for _ in range(3)]
        for connection in held:
            self.addCleanup(connection.close)
        held[0].sendall(b"GET /metrics HTTP/1.1\r\nHos")  # and no more
        endless = b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(200)) + b"\r\n"
        held[1].sendall(endless)
        self.assertIn(b" 400 ", held[1].recv(4096))
        begun = b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n"
        held[2].sendall(begun)
        self.assertIn(b" 405 ", held[2].recv(4096))
        self.assertEqual(get(url)[0], 200)

    def test_a_token(self):
        url = self.serve("--scrape-token", self.write("token", "secret-1\n"))
        for token in (None, "", "secret", "secret-11"):
            status, headers, text = get(url, token)
            self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"))
            self.assertNotIn("secret", text)
        self.assertEqual(get(url, "secret-1")[0], 200)
        self.write("token", "secret-2\n")
        self.assertEqual([get(url, token)[0] for token in ("secret-1", "secret-2")], [401, 200], "it may be replaced")
        os.remove(self.path("token"))
        self.assertEqual(get(url, "secret-2")[0], 503)

    def test_tls_and_certificates_of_callers(self):
        certificate, key = self.make_certificate("server")
        caller, caller_key = self.make_certificate("caller")
        self.make_certificate("other")
        self.write("token", "secret")
        url = self.serve("--address", "0.0.0.0", "--certificate", certificate, "--key", key,
                         "--client-ca", caller, "--scrape-token", "token")  # fmt: skip
        self.assertRegex(url, r"^https://0\.0\.0\.0:\d+/metrics$")
        url = url.replace("0.0.0.0", "127.0.0.1")
        trusting = ssl.create_default_context(cafile=certificate)
        with self.assertRaises(OSError):
            get(url, "secret", context=trusting)
        trusting.load_cert_chain(caller, caller_key)
        self.assertEqual(get(url, "secret", context=trusting)[0], 200)
        self.assertEqual(get(url, "wrong", context=trusting)[0], 401)
        stranger = ssl.create_default_context(cafile=certificate)
        stranger.load_cert_chain(self.path("other.pem"), self.path("other.key"))
        with self.assertRaises(OSError):
            get(url, "secret", context=stranger)


@unittest.skipUnless(_ROOT.endswith(".tar"), "no Prometheus: its packages cannot be had")
class PrometheusTest(PrometheusTestCase):
    root = _ROOT

    def test_promtool_finds_nothing_to_say(self):
        self.start_cluster()
        url = self.serve()
        self.promtool("check", "metrics", stdin=get(url + "?nodes=1", accept="text/plain")[2])
        self.promtool("check", "rules", _ALERTS)

    def test_prometheus_scrapes_alerts_and_answers_what_grafana_asks(self):
        certificate, key = self.make_certificate("server")
        url = self.serve("--certificate", certificate, "--key", key, "--scrape-token", self.write("token", "secret"))
        cluster = self.start_cluster()
        self.start_prometheus(_ALERTS, {
            "job_name": "millrace",
            "scheme": "https",
            "tls_config": {"ca_file": certificate},
            "authorization": {"credentials_file": self.path("token")},
            "static_configs": [{"targets": [urllib.parse.urlsplit(url).netloc]}],
        })  # fmt: skip
        wait_for(lambda: self.rows('millrace_cluster_phase{phase="running"} == 1'), "the cluster is scraped")
        targets = self.ask("targets")["activeTargets"]
        self.assertEqual([(target["health"], target["lastError"]) for target in targets], [("up", "")])
        kinds = self.ask("metadata")
        self.assertEqual(kinds["millrace_node_restarts"][0]["type"], "counter")
        self.assertEqual(kinds["millrace_node_cpu_seconds"][0]["unit"], "seconds")
        # A second scrape, so that rates have two points.
        time.sleep(1)
        dashboard = json.loads(pathlib.Path(_GRAFANA).read_text(encoding="utf-8"))
        unfed = ("millrace_agent", "millrace_feed", "millrace_gpu", "millrace_node_greatest", "millrace_node_least")
        known = set(kinds) | {f"{name}_total" for name in kinds} | {f"{name}_info" for name in kinds}
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):  # a row has none
                query = target["expr"].replace("$cluster", ".*").replace("$__rate_interval", "10s")
                self.assertIsNotNone(self.ask("query", query=query), query)
                for name in re.findall(r"millrace_\w+", query):
                    if not name.startswith(unfed):  # these are not of this cluster
                        self.assertIn(name, known, panel["title"])
        rules = self.ask("rules")["groups"][0]["rules"]
        self.assertGreaterEqual(len(rules), 8)
        self.assertEqual({rule["health"] for rule in rules} - {"unknown"}, {"ok"})
        # A node fails, and with it the cluster, which is gone a moment later.
        pid = json.loads(self.run_cli("nodes", "--json").stdout)["nodes"][0]["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.rows('ALERTS{alertname="MillraceClusterFailed",alertstate="firing"}'), "the alert")
        self.assertEqual(cluster.wait(WAIT_S), 137)
        wait_for(lambda: not self.rows("millrace_cluster_phase"), "its numbers are gone")


if __name__ == "__main__":
    unittest.main()
