"""The digits on Spark's own backend for Kubernetes: on a real API server, with pods that run as processes of this
machine.

    kubernetes_test.py --spark=3_5
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import api_server
import container_image
import kubelet
import spark_cluster
from eventually import wait_for
from spark_image import spark_image

_ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], "millrace")
_DIGITS = _ROOT / "examples/digits"
_REQUIRED = os.environ.get("MILLRACE_REQUIRE_GO") == "1" and os.environ.get("MILLRACE_REQUIRE_SPARK") == "1"
_ARGUMENTS = None
_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
# What docs/spark.md says that the driver's account needs.
_RULES = re.compile(r" rules:\n((?: *- .*\n)+)")
_EXECUTORS = "?labelSelector=spark-role%3Dexecutor"


def _rules():
    """The rules of the page, as JSON."""
    (text,) = _RULES.findall((_ROOT / "docs/spark.md").read_text(encoding="utf-8"))
    rules = []
    for line in text.splitlines():
        lists = dict(re.findall(r"(\w+): \[([^]]*)\]", line))
        rules.append({k: [word.strip().strip('"') for word in words.split(",")] for k, words in lists.items()})
    return rules


def _nodes(server):
    """Job and index of each node program that runs in a pod of this server, to the pod's name."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            argv = (process / "cmdline").read_bytes().split(b"\0")
            text = (process / "environ").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        environment = dict(entry.partition("=")[::2] for entry in text.split("\0"))
        ours = server.url.endswith(":" + environment.get("KUBERNETES_SERVICE_PORT", "none"))
        if ours and "TF_CONFIG" in environment and b"--strategy=ps" in argv:
            task = json.loads(environment["TF_CONFIG"])["task"]
            found[f"{task['type']}:{task['index']}"] = environment["HOSTNAME"]
    return found


class SparkOnKubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="spark-kubernetes-", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        if why := container_image.unavailable():
            raise unittest.SkipTest(why)
        package = spark_cluster.zip_package(_ROOT / "millrace/python/millrace", cls.folder / "millrace.zip")
        cls.files = {
            "digits.csv": _DIGITS / "digits.csv",
            "digits_node": _DIGITS / "digits_node",
            "digits_spark.py": _DIGITS / "digits_spark.py",
            "millrace-spark.jar": _ROOT / "spark_connector/millrace-spark.jar",
            "millrace.zip": package,
        }
        try:
            image = spark_image(cls.folder / "image", cls.files, _ARGUMENTS.spark)
            # As a shared file system: at the same place here and in pods.
            image.mounts[str(cls.folder / "image/app")] = cls.folder / "image/app"
            cls.server = api_server.ApiServer(cls.folder / "server")
        except (spark_cluster.SparkUnavailable, api_server.Unavailable) as why:
            raise AssertionError(why) if _REQUIRED else unittest.SkipTest(str(why)) from why
        cls.addClassCleanup(cls.server.close)
        cls.kubelet = kubelet.Kubelet(cls.server, cls.folder / "kubelet", {"spark:test": image})
        cls.addClassCleanup(cls.kubelet.close)

    def tearDown(self):
        if not self._outcome.success:
            print(self.kubelet.logs(), file=sys.stderr)
        if self.kubelet.problem:
            raise self.kubelet.problem

    def _namespace(self, name):
        """With an account "spark" that has the rights of the page."""
        self.server.namespace(name)
        self.server.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "spark"}})
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{name}"
        self.server.request("POST", f"{rbac}/roles", {"metadata": {"name": "spark"}, "rules": _rules()})
        binding = {
            "metadata": {"name": "spark"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "spark"},
            "subjects": [{"kind": "ServiceAccount", "name": "spark", "namespace": name}],
        }
        self.server.request("POST", f"{rbac}/rolebindings", binding)

    def _submit(self, namespace, mode, conf, arguments, token=None):
        """spark-submit as people run it; its output goes to a file, which is returned too."""
        home = spark_cluster.spark_home(_ARGUMENTS.spark)
        settings = {
            "spark.kubernetes.namespace": namespace,
            "spark.kubernetes.container.image": "spark:test",
            "spark.kubernetes.driver.master": self.server.url,
            "spark.executor.instances": "4",
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": _JVM,
            "spark.executor.extraJavaOptions": _JVM,
        } | conf
        command = [home / "bin/spark-submit", "--master", f"k8s://{self.server.url}", "--deploy-mode", mode]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        client = self.server if token is None else self.server.client(token)
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(self.folder), "TMPDIR": str(self.folder), "LANG": "C.UTF-8",
            "JAVA_HOME": str(spark_cluster.java_home()), "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder), "SPARK_SUBMIT_OPTS": _JVM, "PYSPARK_PYTHON": sys.executable,
            "KUBECONFIG": str(client.kubeconfig(namespace)),
        }  # fmt: skip
        log = self.folder / f"submit-{namespace}.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [*command, *arguments], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.addCleanup(lambda: (process.kill(), process.wait()))
        return process, log

    def _accuracy(self, told):
        found = re.search(r"(?m)^accuracy: (\S+)$", told)
        self.assertIsNotNone(found, told[-6000:])
        return float(found.group(1))

    def test_the_digits_with_the_driver_in_a_pod_though_an_executors_pod_is_deleted(self):
        self._namespace("cluster")
        process, log = self._submit(
            "cluster", "cluster",
            {
                "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
                "spark.kubernetes.driver.pod.name": "digits",
                "spark.kubernetes.executor.apiPollingInterval": "3s",
                "spark.jars": "local:///app/millrace-spark.jar",
                "spark.submit.pyFiles": "local:///app/millrace.zip",
            },
            [
                "local:///app/digits_spark.py", "/app/digits_node", "/app/digits.csv", "--max-restarts=3",
                "--epochs=400",
            ],
        )  # fmt: skip
        wait_for(
            lambda: "running: " in self.kubelet.log("cluster", "digits") or process.poll() is not None,
            "the cluster runs", within_s=300,
        )  # fmt: skip
        pods = "/api/v1/namespaces/cluster/pods"
        nodes = _nodes(self.server)
        self.assertIn("worker:0", nodes, log.read_text(encoding="utf-8") + self.kubelet.log("cluster", "digits"))
        before = {pod["metadata"]["name"] for pod in self.server.request("GET", pods + _EXECUTORS)["items"]}
        self.assertIn(nodes["worker:0"], before)
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 1}
        self.server.request("DELETE", f"{pods}/{nodes['worker:0']}", body)
        # In a pod that Spark makes in place of the deleted one.
        wait_for(
            lambda: _nodes(self.server).get("worker:0") not in before | {None} or process.poll() is not None,
            "the worker is back", within_s=300,
        )  # fmt: skip
        told = self.kubelet.log("cluster", "digits")
        self.assertIsNone(process.poll(), f"training ended before the worker was back:\n{told[-6000:]}")
        process.wait()
        told = self.kubelet.log("cluster", "digits")
        self.assertEqual(self.server.request("GET", f"{pods}/digits")["status"]["phase"], "Succeeded", told[-6000:])
        self.assertGreaterEqual(self._accuracy(told), 0.96)
        self.assertNotIn("orbidden", told)  # the page's rights are enough
        wait_for(lambda: not self.server.request("GET", pods + _EXECUTORS)["items"], "Spark removes its executors")
        self.assertFalse(_nodes(self.server))

    def test_the_digits_with_the_driver_at_the_client(self):
        self._namespace("client")
        process, log = self._submit(
            "client", "client",
            {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.jars": str(self.files["millrace-spark.jar"]),
                "spark.submit.pyFiles": str(self.files["millrace.zip"]),
            },
            [self.files["digits_spark.py"], *[self.folder / f"image/app/{n}" for n in ("digits_node", "digits.csv")]],
            token=self.server.account_token("client", "spark"),
        )  # fmt: skip
        code = process.wait()
        told = log.read_text(encoding="utf-8", errors="replace")
        self.assertEqual(code, 0, told[-6000:])
        self.assertGreaterEqual(self._accuracy(told), 0.96)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--spark", required=True)
    _ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
