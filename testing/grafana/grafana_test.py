"""The dashboard of docs/prometheus, as Grafana's types read it and as the real Prometheus answers it.

    grafana_test.py ROOT ALERTS DASHBOARD

ROOT is an archive of a root folder that has Prometheus (debian_root.bzl), or says why there is none.
"""

import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import urllib.parse

_FILES = pathlib.Path.cwd()
os.environ["MILLRACE_LIBRARY"] = str(_FILES / "millrace/c/libmillrace.so")
os.environ["MILLRACE_CLUSTER_LIBRARY"] = str(_FILES / "millrace/c/libmillrace_cluster.so")

from agents_testing import AgentsTestCase  # noqa: E402
from eventually import WAIT_S, wait_for  # noqa: E402
from metrics_testing import PrometheusTestCase  # noqa: E402

import millrace  # noqa: E402: it reads the above

_ROOT, _ALERTS, _DASHBOARD = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[1:4]
_PROGRAMS = pathlib.Path(os.environ.get("TEST_SRCDIR", ""), "grafana_programs")
_READER = _PROGRAMS / "bin/grafana-queries"
_PROGRAM = str(_FILES / "testing/grafana/feeding_program.py")
_FAKE_NVML = str(_FILES / "testing/fake_nvml/libfake_nvml.so")
_SCRAPES_FOR_A_RATE = "10s"
# What Grafana puts in by itself.
_BUILTIN = {"__rate_interval": _SCRAPES_FOR_A_RATE}


def _why_not():
    if not _READER.exists():
        reason = _PROGRAMS / "unavailable.txt"
        return "no grafana-queries: " + (reason.read_text(encoding="utf-8").strip() if reason.exists() else "?")
    return None


def read(path):
    """Exit code, lines as objects, and what it complains of."""
    done = subprocess.run([_READER, path], capture_output=True, text=True, check=False, timeout=WAIT_S)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@unittest.skipIf(_why_not(), _why_not())
class SchemaTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(pathlib.Path(_DASHBOARD).read_text(encoding="utf-8"))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "dashboard.json")

    def complaint_of(self, change):
        """What is wrong with the dashboard after `change`, which it prints nothing of."""
        changed = copy.deepcopy(self.dashboard)
        change(changed)
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(changed, file)
        code, lines, complaint = read(self.path)
        self.assertEqual((code, lines), (1, []), complaint)
        return complaint

    def test_the_dashboard_is_one(self):
        code, lines, complaint = read(_DASHBOARD)
        self.assertEqual((code, complaint), (0, ""))
        asked = sum(len(panel.get("targets", ())) for panel in self.dashboard["panels"])
        self.assertEqual(sum(line["kind"] == "panel" for line in lines), asked)

    def test_what_is_wrong_is_found(self):
        def panel(number, **members):
            return lambda dashboard: dashboard["panels"][number].update(members)

        def query(member, value):
            return lambda dashboard: dashboard["panels"][0]["targets"][0].update({member: value})

        for change, words in (
            (lambda dashboard: dashboard.update(titel="x"), "unexpected field 'titel'"),
            (lambda dashboard: dashboard.update(editable="yes"), "editable"),
            (lambda dashboard: dashboard["templating"]["list"][1].update(multy=True), "unexpected field 'multy'"),
            (panel(0, description=3), "description"),
            (panel(3, type="timeseriez"), 'no panel of the type "timeseriez"'),
            (panel(3, fieldConfig={"defaults": {"units": "s"}, "overrides": []}), "unexpected field 'units'"),
            (panel(3, targets=[]), "asks for nothing"),
            (panel(1, id=1), 'panels "Phase" and "Nodes by state" have the id 1'),
            (panel(0, gridPos={"x": 0, "y": 0, "w": 9, "h": 5}), '"Phase" and "Nodes by state" lie on each other'),
            (panel(2, gridPos={"x": 16, "y": 0, "w": 9, "h": 5}), "wider than the 24 columns"),
            (query("legendFormatt", "x"), "unexpected field 'legendFormatt'"),
            (query("expr", None), "expr"),
            (panel(0, datasource={"type": "loki", "uid": "x"}), "another data source"),
        ):
            with self.subTest(words):
                self.assertIn(words, self.complaint_of(change))

    def test_what_is_no_dashboard_is_refused(self):
        for text in ("", "[]", "{"):
            pathlib.Path(self.path).write_text(text, encoding="utf-8")
            code, lines, complaint = read(self.path)
            self.assertEqual((code, lines), (1, []))
            self.assertNotEqual(complaint.strip(), "")


@unittest.skipIf(_why_not(), _why_not())
@unittest.skipUnless(_ROOT.endswith(".tar"), "no Prometheus: its packages cannot be had")
class QueriesTest(AgentsTestCase, PrometheusTestCase):
    root = _ROOT

    def start_measured_agents(self, count):
        """The targets of their metrics are in `agent_targets`."""
        mark = os.urandom(8).hex()  # claims of GPUs are the host's
        self.env.update(MILLRACE_NVML_LIBRARY=_FAKE_NVML, FAKE_NVML_SCRIPT=self.write("gpus", "".join(
            ["driver 550.54.15\nnvml 12\n"] + [f"gpu {i} uuid=GPU-{i}-{mark} name=A util=37 used=1000 total=8000\n"
                                             for i in range(4)])))  # fmt: skip
        agents = [self.start_agent(f"127.0.0.{n + 2}", args=["--metrics-port", "0"]) for n in range(count)]
        lines = [wait_for(lambda agent=agent: agent.said("metrics at "), "metrics")[0] for agent in agents]
        self.agent_targets = [urllib.parse.urlsplit(line.split("metrics at ")[1].strip()).netloc for line in lines]
        return agents

    def start_fed_cluster(self, agents):
        """A cluster on these that is fed until the end of the test."""
        environment = {"MILLRACE_CLUSTERS_DIR": self.env["MILLRACE_CLUSTERS_DIR"], "HOME": self.folder}
        patch = unittest.mock.patch.dict(os.environ, environment)
        patch.start()
        self.addCleanup(patch.stop)
        members = {"worker": [agent.address for agent in agents]}
        cluster = millrace.Cluster.run(
            millrace.NodeProgram.path(sys.executable, "-s", "-P", "-B", _PROGRAM, self.path("done")), None,
            agents=millrace.Agents({"type": "static", "cluster_spec": members}, secret_file=self.secret),
            input_mode=millrace.InputMode.FEED, progress=False, node=millrace.NodeOptions(gpus_per_node=1),
        )  # fmt: skip
        self.addCleanup(cluster.close)
        rows = {"id": list(range(1000))}

        def feed():
            while not os.path.exists(self.path("done")):
                cluster.train(rows)

        feeder = threading.Thread(target=feed)
        feeder.start()
        self.addCleanup(feeder.join)
        self.addCleanup(self.write, "done", "")

    def filled_in(self, query):
        for name in re.findall(r"\$\{?(\w+)\}?", query):
            self.assertIn(name, self.variables | _BUILTIN.keys(), query)
        for name, value in _BUILTIN.items():
            query = query.replace(f"${name}", value)
        return query.replace("$cluster", self.clusters[0])

    def test_each_query_has_rows_with_the_labels_of_its_legend(self):
        agents = self.start_measured_agents(2)
        self.start_fed_cluster(agents)
        exporter = self.serve()
        self.start_prometheus(
            _ALERTS,
            {"job_name": "millrace", "static_configs": [{"targets": [urllib.parse.urlsplit(exporter).netloc]}]},
            {"job_name": "millrace-agents", "static_configs": [{"targets": self.agent_targets}]},
        )
        _, lines, complaint = read(_DASHBOARD)
        self.assertEqual(complaint, "")
        self.variables = {line["name"] for line in lines if line["kind"] == "variable"}
        # As the variable asks: label_values(SELECTOR, LABEL).
        [asked] = [line["query"] for line in lines if line["kind"] == "variable" and line["name"] == "cluster"]
        selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", asked).groups()
        self.clusters = wait_for(lambda: self.ask(f"label/{label}/values", **{"match[]": selector}), "the cluster")
        self.assertEqual(len(self.clusters), 1)
        for line in lines:
            if line["kind"] != "panel":
                continue
            query = self.filled_in(line["query"])
            with self.subTest(panel=line["title"], query=query):
                answer = self.ask("query", query=query)
                self.assertIsNotNone(answer, "Prometheus refuses it")
                rows = wait_for(lambda query=query: self.rows(query), f"rows of {query}")
                for label in re.findall(r"{{(\w+)}}", line["legend"]):
                    # Not in each: GPUs that no node has claimed have no role.
                    self.assertTrue(any(label in row["metric"] for row in rows), (label, rows))


if __name__ == "__main__":
    unittest.main()
