"""`millrace resolve`: every source that needs no server, what is printed, and watches."""

import base64
import http.server
import json
import signal
import subprocess
import threading
import unittest

from cli_testing import WAIT_S, CliTestCase, line_with
from eventually import wait_for

SPEC = {"ps": ["h0:1"], "worker": ["h1:1", "h2:1"]}


class FakeServer:
    """Answers requests over HTTP as `answer` of a subclass says."""

    def __init__(self, test):
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                status, kind, body = fake.answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *unused):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.address}"
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        test.addCleanup(self.close)

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class FakeSpark(FakeServer):
    """Spark's REST API with executors that a test sets. The real one: //resolver/spark:real_spark_test."""

    def __init__(self, test):
        self.executors = []
        self.applications = ["app-1"]
        self.page = None
        super().__init__(test)

    def answer(self, path):
        if self.page is not None:
            return self.page
        if path.startswith("/api/v1/applications?"):
            value = [{"id": name, "name": "test", "attempts": [{"completed": False}]} for name in self.applications]
        elif path.endswith("/executors"):
            value = [
                {"id": number, "hostPort": f"{host}:1", "isActive": True, "resources": {}}
                for number, host in self.executors
            ]
        else:
            return 404, "text/plain", b"unknown app"
        return 200, "application/json", json.dumps(value).encode()


class FakeComputeEngine(FakeServer):
    """The API and the metadata server of one group, all of whose instances run; this is the first."""

    def __init__(self, test, addresses):
        self.addresses = addresses
        super().__init__(test)

    def answer(self, path):
        own = {
            "project/project-id": "p",
            "instance/zone": "projects/1/zones/z",
            "instance/name": next(iter(self.addresses)),
            "instance/service-accounts/default/token": '{"access_token": "t"}',
        }
        if path.startswith("/computeMetadata/v1/"):
            return 200, "text/plain", own[path.removeprefix("/computeMetadata/v1/")].encode()
        if path.startswith("/projects/p/zones/z/instanceGroups/train/listInstances?"):
            value = {"items": [{"instance": f"x/{name}", "status": "RUNNING"} for name in self.addresses]}
        else:
            name = path.removeprefix("/projects/p/zones/z/instances/")
            value = {"networkInterfaces": [{"networkIP": self.addresses[name]}]}
        return 200, "application/json", json.dumps(value).encode()


class FakeEtcd(FakeServer):
    """The keys of etcd, whatever is asked for."""

    def __init__(self, test, keys):
        self.keys = keys
        super().__init__(test)

    def answer(self, path):
        def text(value):
            return base64.b64encode(value.encode()).decode()

        value = {
            "header": {"revision": "7"},
            "kvs": [{"key": text(key), "value": text(value)} for key, value in self.keys.items()],
        }
        return 200, "application/json", json.dumps(value).encode()


class ResolveTest(CliTestCase):
    def spec_of(self, *args, **options):
        done = self.run_cli("resolve", *args, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def refused(self, code, *args, **options):
        done = self.run_cli("resolve", *args, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^millrace: [^\n]*\n$")
        return done.stderr

    def test_static_in_every_format(self):
        spec = json.dumps(SPEC)
        self.assertEqual(self.run_cli("resolve", "static", spec).stdout, json.dumps(SPEC, separators=(",", ":")) + "\n")
        self.assertEqual(self.spec_of("static", "@" + self.write("spec.json", spec)), SPEC)
        hosts = self.run_cli("resolve", "static", spec, "--format", "hosts")
        self.assertEqual(hosts.stdout, "ps:0 h0:1\nworker:0 h1:1\nworker:1 h2:1\n")
        task = ["--task-type", "worker", "--task-id", "1"]
        config = self.spec_of("static", spec, "--format", "tf_config", *task)
        self.assertEqual(config["cluster"], SPEC)
        self.assertEqual(config["task"], {"type": "worker", "index": 1})
        all_of_it = self.spec_of("static", spec, "--json", "--rpc-layer", "grpc", *task)
        self.assertLessEqual({"time_ms", "environment"}, set(all_of_it))
        self.assertEqual(all_of_it["cluster_spec"], SPEC)
        self.assertEqual((all_of_it["task_type"], all_of_it["task_id"]), ("worker", 1))
        self.assertEqual(all_of_it["master"], "grpc://h2:1")
        self.assertIn("--task-type", self.refused(64, "static", spec, "--format", "tf_config"))

    def test_what_makes_no_sense_is_refused(self):
        self.assertIn("SPEC", self.refused(64, "static"))
        self.assertIn("SPEC", self.refused(64, "static", "{"))
        self.assertIn("worker", self.refused(64, "static", '{"worker": 7}'))
        self.assertIn("none.json", self.refused(66, "static", "@none.json"))
        self.assertIn("resolve", self.refused(64, "walk"))
        self.assertIn("--format", self.refused(64, "static", "{}", "--format", "xml"))
        self.assertIn("NAME=TASKS", self.refused(64, "slurm", "--job", "ps"))
        self.assertIn("nothing to unite", self.refused(64, "union"))
        self.assertIn("telepathy", self.refused(64, "union", "--resolver", '{"type": "telepathy"}'))
        self.assertIn("resolvers[0].jobs", self.refused(64, "union", "--resolver", '{"type": "slurm", "jobs": 7}'))
        self.assertIn("http://driver:4040", self.refused(64, "spark", "driver:4040"))

    def test_an_error_that_quotes_has_no_control_characters(self):
        env = {"SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_TASKS_PER_NODE": "2,1",
               "SLURM_STEP_NODELIST": "n[1-2\x1b]0;title\x07]"}
        told = self.refused(64, "slurm", "--tensorflow", "--gpus-per-node", "0", env=env)
        self.assertIn(r"n[1-2\x1b]0;title\x07]", told)

    def test_tf_config(self):
        config = {"cluster": SPEC, "task": {"type": "ps", "index": 0}, "environment": "cloud"}
        env = {"TF_CONFIG": json.dumps(config)}
        self.assertEqual(self.spec_of("tf-config", env=env), SPEC)
        found = self.spec_of("tf-config", "--json", env=env)
        self.assertEqual((found["task_type"], found["environment"], found["master"]), ("ps", "cloud", "h0:1"))
        self.assertIn("TF_CONFIG", self.refused(64, "tf-config", env={"TF_CONFIG": "{"}))
        as_tensorflow = self.refused(64, "tf-config", "--tensorflow", env={"TF_CONFIG": ""})
        self.assertIn("JSONDecodeError: Expecting value: line 1 column 1 (char 0)", as_tensorflow)

    def test_sagemaker(self):
        env = {"SM_HOSTS": '["algo-10", "algo-2"]', "SM_CURRENT_HOST": "algo-2"}
        self.assertEqual(self.spec_of("sagemaker", env=env), {"worker": ["algo-2:2223", "algo-10:2223"]})
        found = self.spec_of("sagemaker", "--port", "7", "--environment", "cloud", "--json", env=env)
        self.assertEqual((found["task_type"], found["task_id"], found["environment"], found["master"]),
                         ("worker", 0, "cloud", "algo-2:7"))
        found = self.spec_of("sagemaker", "--tensorflow", env=env)
        self.assertEqual(found, {"worker": ["algo-10:2223", "algo-2:2223"]})
        self.assertIn("SM_HOSTS", self.refused(70, "sagemaker"))
        self.assertIn("AssertionError: Not a SageMaker Environment", self.refused(70, "sagemaker", "--tensorflow"))

    def test_gce(self):
        gce = FakeComputeEngine(self, {"train-10": "10.0.0.9", "train-2": "10.0.0.10"})
        env = {"GCE_METADATA_HOST": gce.address}
        args = ("gce", "train", "--api", gce.url, "--port", "7")
        found = self.spec_of(*args, "--expect", "2", "--complete", "wait", "--json", env=env)
        self.assertEqual(found["cluster_spec"], {"worker": ["10.0.0.10:7", "10.0.0.9:7"]})
        self.assertEqual((found["task_id"], found["master"]), (1, "grpc://10.0.0.9:7"))
        place = ("--project", "p", "--zone", "z")
        found = self.spec_of(*args, *place, "--task-type", "ps", env=env)
        self.assertEqual(found, {"ps": ["10.0.0.10:7", "10.0.0.9:7"]})
        found = self.spec_of(*args, *place, "--token-file", self.write("token", "t"))
        self.assertEqual(found, {"worker": ["10.0.0.10:7", "10.0.0.9:7"]})
        self.assertIn("have 2 of 3", self.refused(70, *args, "--expect", "3", env=env))
        gce.addresses["train-2"] = "10.0.0.100"
        found = self.spec_of(*args, *place, "--tensorflow", env=env)
        self.assertEqual(found, {"worker": ["10.0.0.100:7", "10.0.0.9:7"]})
        told = self.refused(64, *args, "--tensorflow", env=env)
        self.assertIn("TypeError: GCEClusterResolver.__init__() missing 2 required positional arguments", told)

    def test_etcd(self):
        # The real one: //resolver/etcd:etcd_resolver_test.
        etcd = FakeEtcd(self, {"/c/worker/1": "h1:1", "/c/worker/0": "h0:1"})
        args = ("etcd", "/c", "--endpoint", "http://127.0.0.1:1", "--endpoint", etcd.url)
        self.assertEqual(self.spec_of(*args, "--expect", "worker=2"), {"worker": ["h0:1", "h1:1"]})
        self.assertIn("have 2 of 3", self.refused(70, *args, "--expect", "worker=3"))
        self.assertIn("password_file", self.refused(64, *args, "--user", "u"))
        self.assertIn("certificate_file", self.refused(64, *args, "--key", "k"))
        self.assertIn("none.pem", self.refused(66, *args, "--key", "none.pem", "--certificate", "none.pem"))
        self.assertIn("--endpoint", self.refused(64, "etcd", "/c"))

    def test_slurm(self):
        env = {
            "SLURM_PROCID": "2",
            "SLURM_STEP_NUM_TASKS": "3",
            "SLURM_STEP_NODELIST": "n[1-2]",
            "SLURM_STEP_TASKS_PER_NODE": "2,1",
            "CUDA_VISIBLE_DEVICES": "",
        }
        args = ["slurm", "--job", "ps=1", "--job", "worker=2", "--port", "7000", "--gpus-per-node", "0"]
        self.assertEqual(self.spec_of(*args, env=env), {"ps": ["n1:7000"], "worker": ["n1:7001", "n2:7000"]})
        task = self.spec_of(*args, "--format", "tf_config", env=env)["task"]
        self.assertEqual(task, {"type": "worker", "index": 1})
        self.assertIn("SLURM_", self.refused(70, "slurm"))

    def test_union(self):
        parts = [
            {"type": "static", "cluster_spec": {"ps": ["h0:1"]}},
            {"type": "static", "cluster_spec": {"worker": ["h1:1"]}},
            {"type": "static", "cluster_spec": {"worker": ["h2:1"]}},
        ]
        flags = [word for part in parts for word in ("--resolver", json.dumps(part))]
        self.assertEqual(self.spec_of("union", *flags), SPEC)
        self.assertEqual(self.spec_of("union", self.write("list.json", json.dumps(parts))), SPEC)
        whole = json.dumps({"type": "union", "resolvers": parts[:2]})
        self.assertEqual(self.spec_of("union", self.write("union.json", whole), *flags[4:]), SPEC)
        self.assertEqual(self.spec_of("union", self.path("union.json")), {"ps": ["h0:1"], "worker": ["h1:1"]})

    def test_a_kubeconfig_that_is_not_there_is_named(self):
        text = self.refused(66, "kubernetes", "--location", "off_cluster", "--kubeconfig", self.path("none"))
        self.assertIn(self.path("none"), text)

    def test_spark(self):
        spark = FakeSpark(self)
        spark.executors = [("driver", "d"), ("0", "a"), ("1", "a"), ("2", "b")]
        args = ["spark", spark.url, "--job", "ps=1", "--job", "worker=rest", "--port", "7000"]
        self.assertEqual(self.spec_of(*args), {"ps": ["a:7000"], "worker": ["a:7001", "b:7000"]})
        spec = self.spec_of(*args, "--job-port", "ps=8000")
        self.assertEqual(spec, {"ps": ["a:8000"], "worker": ["a:7000", "b:7000"]})
        task = self.spec_of(*args, "--format", "tf_config", "--executor", "2")["task"]
        self.assertEqual(task, {"type": "worker", "index": 1})
        self.assertIn("have 3 of 4", self.refused(70, "spark", spark.url, "--job", "worker=4"))
        wait = ["--complete", "wait", "--wait-timeout", "10ms"]
        self.assertIn("have 3 of 4", self.refused(75, "spark", spark.url, "--job", "worker=4", *wait))
        spark.applications = ["app-1", "app-2"]
        self.assertIn("app-1 (test), app-2 (test)", self.refused(64, *args))
        self.assertIn("no application app-7", self.refused(66, *args, "--application", "app-7"))
        spark.page = (403, "text/plain", b"forbidden")
        self.assertIn("spark.ui.view.acls", self.refused(77, *args))
        spark.page = (200, "text/html", b"\n<html>a page</html>")
        self.assertIn("not of a master", self.refused(70, *args))
        spark.page = (200, "application/json", b'[{"id": 7}]')
        self.assertIn('"id"', self.refused(70, *args))
        spark.page = (200, "text/plain", b"Spark is starting up. Please wait a while until it's ready.")
        self.assertIn("starting", self.refused(69, *args))
        spark.page = (500, "text/plain", b"oops")
        self.assertIn("status 500: oops", self.refused(69, *args))
        spark.close()
        self.assertIn("spark.ui.enabled", self.refused(69, *args))

    def test_a_watch_survives_faults_and_ends_with_a_signal(self):
        spark = FakeSpark(self)
        spark.executors = [("0", "a")]
        watch = self.start_cli("resolve", "spark", spark.url, "--watch", "--poll-interval", "20ms", "--json")

        def next_update():
            return json.loads(watch.stdout.readline())

        first = next_update()
        self.assertEqual((first["epoch"], first["error"]), (1, None))
        self.assertEqual(first["added"], [{"job": "worker", "index": 0, "address": "a:2222"}])
        spark.executors.append(("1", "b"))
        second = next_update()
        self.assertEqual((second["epoch"], second["cluster_spec"]), (2, {"worker": ["a:2222", "b:2222"]}))
        spark.page = (500, "text/plain", b"oops")
        lost = next_update()
        self.assertEqual((lost["epoch"], lost["error"]["code"]), (2, "UNAVAILABLE"))
        self.assertEqual(lost["cluster_spec"], second["cluster_spec"])
        self.assertLess(lost["confirmed_ms"], lost["time_ms"] + 1)
        spark.executors = [("1", "b")]
        spark.page = None
        again = next_update()
        self.assertEqual((again["epoch"], again["error"]), (3, None))
        self.assertEqual(again["moved"], [{"job": "worker", "index": 0, "from": "a:2222", "to": "b:2222"}])
        self.assertEqual(again["removed"], [{"job": "worker", "index": 1, "address": "b:2222"}])
        watch.send_signal(signal.SIGINT)
        out, err = watch.communicate(timeout=WAIT_S)
        self.assertEqual((watch.returncode, out, err), (130, "", ""))

    def test_a_watch_for_people_tells_faults_on_stderr(self):
        spark = FakeSpark(self)
        spark.executors = [("0", "a")]
        watch = self.start_cli("resolve", "spark", spark.url, "--watch", "--poll-interval", "20ms", "--format", "hosts")
        self.assertEqual(watch.stdout.readline() + watch.stdout.readline(), "worker:0 a:2222\n\n")
        spark.page = (500, "text/plain", b"oops")
        self.assertRegex(line_with(watch.stderr, "status 500: oops"), r"^millrace: .*may be old\)\n$")
        spark.page = None
        line_with(watch.stderr, "millrace: the source answers again, and nothing has changed\n")
        watch.send_signal(signal.SIGTERM)
        self.assertEqual(watch.wait(timeout=WAIT_S), 143)

    def test_a_watch_ends_when_nobody_reads(self):
        spark = FakeSpark(self)
        spark.executors = [("0", "a")]
        watch = self.start_cli("resolve", "spark", spark.url, "--watch", "--poll-interval", "20ms")
        self.assertEqual(json.loads(watch.stdout.readline()), {"worker": ["a:2222"]})
        watch.stdout.close()
        spark.executors = [("0", "b")]
        self.assertEqual(watch.wait(timeout=WAIT_S), 141)
        watch.stdout = subprocess.DEVNULL and open("/dev/null", encoding="utf-8")

    def test_cluster(self):
        self.assertIn("no cluster of yours runs", self.refused(69, "cluster"))
        self.assertIn("3f", self.refused(66, "cluster", "--cluster", "3f"))
        self.assertIn("token_file", self.refused(64, "cluster", "--connect", "127.0.0.1:1"))
        node = "trap 'exit 0' TERM; while [ ! -e end ]; do sleep 0.05; done"
        run = self.start_cli(
            "run", "-n", "2", "--num-ps", "1", "--output", "none", "--", "sh", "-c", node
        )
        wait_for(lambda: self.run_cli("clusters").stdout != "", "a cluster")
        wait = ["--complete", "wait", "--wait-timeout", f"{WAIT_S}s"]
        spec = self.spec_of("cluster", *wait)
        self.assertEqual({job: len(tasks) for job, tasks in spec.items()}, {"ps": 1, "worker": 1})
        watch = self.start_cli("resolve", "cluster", "--watch", "--json")
        self.assertEqual(json.loads(watch.stdout.readline())["cluster_spec"], spec)
        self.write("end", "")
        run.communicate(timeout=WAIT_S)
        while True:
            update = json.loads(watch.stdout.readline())
            if update["error"] is not None and update["error"]["code"] == "UNAVAILABLE":
                break
        watch.send_signal(signal.SIGINT)
        self.assertEqual(watch.wait(timeout=WAIT_S), 130)


if __name__ == "__main__":
    unittest.main()
