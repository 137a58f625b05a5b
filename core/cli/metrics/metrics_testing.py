"""Clusters whose numbers are scraped, and the real Prometheus and promtool, for tests of metrics."""

import json
import os
import pathlib
import socket
import subprocess
import tarfile
import urllib.error
import urllib.parse
import urllib.request

from cli_testing import CliTestCase, line_with

OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class MetricsTestCase(CliTestCase):
    def start_cluster(self, *args, nodes=2):
        """A cluster that runs until "done" is there."""
        program = f"echo up; until [ -e {self.path('done')} ]; do sleep 0.05; done"
        process = self.start_cli("run", "-n", str(nodes), *args, "--", "sh", "-c", program)
        for _ in range(nodes):
            line_with(process.stdout, "up")
        return process

    def metrics(self, *args):
        done = self.run_cli("metrics", *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def serve(self, *args):
        """The address of a server of metrics."""
        self.server = self.start_cli("metrics", "--port", "0", *args)
        return self.server.stdout.readline().strip()

    def make_certificate(self, name, *options):
        """Files of a certificate for 127.0.0.1 and its key."""
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", *options,
             "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.pem")],
            check=True, capture_output=True,
        )  # fmt: skip
        return self.path(f"{name}.pem"), self.path(f"{name}.key")


def get(url, token=None, accept=OPENMETRICS, context=None, method="GET"):
    """Status, headers and text."""
    request = urllib.request.Request(url, method=method, headers={"Accept": accept})
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


class PrometheusTestCase(MetricsTestCase):
    """With the programs of an archive of a root folder (debian_root.bzl), `root`, which the subclass names."""

    root = ""

    def setUp(self):
        super().setUp()
        with tarfile.open(self.root) as root:
            for name in ("prometheus", "promtool"):
                file = next(found for at in ("./usr/bin/", "usr/bin/") if (found := self._find(root, at + name)))
                self.write(name, "", 0o755)
                pathlib.Path(self.path(name)).write_bytes(root.extractfile(file).read())

    @staticmethod
    def _find(root, name):
        try:
            return root.getmember(name)
        except KeyError:
            return None

    def promtool(self, *args, stdin=""):
        done = subprocess.run([self.path("promtool"), *args], input=stdin, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def start_prometheus(self, rules, *jobs):
        """Scrapes five times a second what `jobs` (of scrape_configs) name; one folder has one of it."""
        self.write("prometheus.yml", json.dumps({  # YAML too
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"},
            "rule_files": [rules],
            "scrape_configs": jobs,
        }))  # fmt: skip
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.prometheus = f"127.0.0.1:{free.getsockname()[1]}"
        with open(self.path("prometheus.log"), "wb") as log:
            prometheus = subprocess.Popen(
                [
                    self.path("prometheus"),
                    f"--config.file={self.path('prometheus.yml')}",
                    f"--web.listen-address={self.prometheus}",
                    f"--storage.tsdb.path={self.path('data')}",
                ],
                stdout=log,
                stderr=log,
            )
        self.addCleanup(prometheus.wait)
        self.addCleanup(prometheus.kill)

    def ask(self, path, **params):
        """What Prometheus answers, or None while it does not or where it finds a mistake."""
        url = f"http://{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(params)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except OSError:
            return None

    def rows(self, query):
        return (self.ask("query", query=query) or {}).get("result", [])
