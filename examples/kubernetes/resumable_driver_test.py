"""agents.yaml and resumable_driver.yaml on a real API server, as kubectl applies them: the driver's pod is evicted,
deleted, and lost with its node, and each time another pod goes on with the training.

    resumable_driver_test.py IMAGE.tar
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import api_server
import container_image
import kube_tools
import kubelet
import oci_image
from eventually import wait_for

_IMAGE = os.path.abspath(sys.argv.pop(1))
_ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], "millrace")
_MILLRACE = _ROOT / "core/cli/millrace"
_REQUIRED = os.environ.get("MILLRACE_REQUIRE_GO") == "1"
_RANKS = ("0", "1", "2", "3")


class ResumableDriverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if why := container_image.unavailable():
            raise unittest.SkipTest(why)
        if why := kube_tools.unavailable():
            raise AssertionError(why) if _REQUIRED else unittest.SkipTest(why)
        folder = tempfile.TemporaryDirectory(prefix="resumable-", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.folder.chmod(0o755)
        try:
            cls.server = api_server.ApiServer(cls.folder / "server")
        except api_server.Unavailable as why:
            raise AssertionError(why) if _REQUIRED else unittest.SkipTest(str(why)) from why
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        """A namespace with running agents, in which the driver has not been applied."""
        self.namespace = self._testMethodName.replace("_", "-")[:60].strip("-")
        folder = self.folder / self.namespace
        folder.mkdir()
        self.data = folder / "data"
        self.data.mkdir()
        self.data.chmod(0o777)
        # Made from Millrace's image: with Python, the program, and a file system that all pods share.
        image = oci_image.unpack(_IMAGE, folder / "image")
        for place in ("/usr/lib", "/usr/lib64", "/usr/bin"):
            if os.path.isdir(place):
                image.mounts[place] = place
        image.mounts["/app/train.py"] = _ROOT / "examples/kubernetes/train.py"
        image.writable_mounts["/data"] = self.data
        self.kubelet = kubelet.Kubelet(self.server, folder / "kubelet", {"registry.example/train": image})
        self.addCleanup(self._end)
        self.tools = kube_tools.KubeTools(folder, self.server.kubeconfig("default"))
        self.server.namespace(self.namespace)
        self._apply("rights.yaml")
        self._apply("agents.yaml")
        made = subprocess.run(
            [_MILLRACE, "agent-secret", "--kubernetes", "millrace-agent", "--namespace", self.namespace],
            check=True, capture_output=True, text=True, env={"HOME": str(folder)},
        )  # fmt: skip
        self.tools.kubectl("apply", "-f", "-", text=made.stdout)

    def _end(self):
        self.kubelet.close()
        if not self._outcome.success:
            print(self.kubelet.logs(), file=sys.stderr)
        for pod in self._pods():
            self._delete(pod["metadata"]["name"], gracePeriodSeconds=0)
        for job in ("train-worker", "train-ps", "train-driver"):
            self.tools.kubectl("delete", "job", job, "-n", self.namespace, "--ignore-not-found", "--wait=false")
        self.server.request("DELETE", "/api/v1/nodes/this-machine")
        if self.kubelet.problem:
            raise self.kubelet.problem

    def _apply(self, name):
        text = (_ROOT / "examples/kubernetes" / name).read_text(encoding="ascii")
        # The same in a namespace of the test's own.
        text = text.replace("namespace: ml", f"namespace: {self.namespace}")
        text = text.replace("--namespace=ml", f"--namespace={self.namespace}")
        self.tools.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", text=text)
        self.assertEqual(self.tools.warnings, [])

    # ---- what there is ----
    def _pods(self, **labels):
        pods = self.server.request("GET", f"/api/v1/namespaces/{self.namespace}/pods")["items"]
        return [p for p in pods if labels.items() <= p["metadata"]["labels"].items()]

    def _log(self, pod):
        return self.kubelet.log(self.namespace, pod)

    def _nodes(self, ranks=_RANKS):
        """What each node has noted: lines of what, host, pid and time of start."""
        files = {rank: self.data / f"node-{rank}" for rank in ranks}
        texts = {rank: file.read_text(encoding="ascii") if file.exists() else "" for rank, file in files.items()}
        return {rank: [line.split() for line in text.splitlines()] for rank, text in texts.items()}

    def _driver(self, but=()):
        """The name of a driver's pod that was started, other than these."""

        def started():
            for pod in self._pods(app="train-driver"):
                if pod["metadata"]["name"] not in but and pod["status"]["phase"] != "Pending":
                    return pod["metadata"]["name"]
            return None

        return wait_for(started, "a driver's pod that was started")

    def _trains(self, pod, steps=3):
        """Waits until each worker has been heard by the driver in this pod to train on."""

        def heard():
            log = self._log(pod)
            return all(len(re.findall(rf"(?m)^worker:{rank}\| step", log)) >= steps for rank in _RANKS)

        wait_for(heard, f"{pod} hears all workers")

    def _started(self):
        self._apply("resumable_driver.yaml")
        driver = self._driver()
        self._trains(driver)
        return driver

    def _goes_on_in(self, pod):
        wait_for(lambda: re.search(r"the cluster \w+ goes on", self._log(pod)), f"{pod} takes the cluster over")
        self._trains(pod)

    # ---- what happens ----
    def _delete(self, pod, **options):
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        try:
            self.server.request("DELETE", f"/api/v1/namespaces/{self.namespace}/pods/{pod}", body)
        except api_server.ApiError as error:
            if error.status != 404:
                raise

    def _evict(self, pod):
        """As `kubectl drain` does."""
        path = f"/api/v1/namespaces/{self.namespace}/pods/{pod}/eviction"
        self.server.request("POST", path, {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}})

    def _lose_node_of(self, pod):
        """As the garbage collector of pods does where a node is gone; its processes go on."""
        self.kubelet.cut_off(self.namespace, pod)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
        self.server.request(
            "PATCH", f"/api/v1/namespaces/{self.namespace}/pods/{pod}/status",
            {"status": {"phase": "Failed", "conditions": [condition]}}, "application/strategic-merge-patch+json",
        )  # fmt: skip

    def _go(self, code=0):
        # As a whole: nodes may look at any time.
        (self.data / "code").write_text(str(code), encoding="ascii")
        (self.data / "code").rename(self.data / "go")

    def _ends(self, how, pod, code):
        path = f"/apis/batch/v1/namespaces/{self.namespace}/jobs/train-driver"
        uid = self.server.request("GET", path)["metadata"]["uid"]
        self.assertEqual(wait_for(lambda: self.kubelet.job_ended(uid), "the Job ends"), how)
        (status,) = [p["status"] for p in self._pods(app="train-driver") if p["metadata"]["name"] == pod]
        self.assertEqual(status["containerStatuses"][0]["state"]["terminated"]["exitCode"], code, self._log(pod))

    def _expect_one_process_each(self, ranks=_RANKS):
        for rank, noted in self._nodes(ranks).items():
            self.assertEqual([words[0] for words in noted], ["start", "end"], f"worker:{rank}")
            self.assertEqual(noted[0][1:], noted[1][1:], f"worker:{rank}")

    def _expect_nothing_to_resume(self):
        (claim,) = (self.kubelet.folder / "claims").iterdir()
        self.assertEqual(list((claim / "train").iterdir()), [])

    def test_evicted_and_killed(self):
        first = self._started()
        address = {p["metadata"]["name"]: p["status"]["podIP"] for p in self._pods(app="train-driver")}
        self._evict(first)
        second = self._driver(but=[first])
        self._goes_on_in(second)
        address |= {p["metadata"]["name"]: p["status"]["podIP"] for p in self._pods(app="train-driver")}
        self.assertNotEqual(address[first], address[second])
        self.assertIn("got SIGTERM and leaves the cluster", self._log(first))
        # Gone at once, with no time to say anything.
        self._delete(second, gracePeriodSeconds=0)
        third = self._driver(but=[first, second])
        self._goes_on_in(third)
        self.assertNotIn("SIGTERM", self._log(second))
        self._go()
        self._ends("Complete", third, 0)
        self._expect_one_process_each()
        self.assertEqual([words[0] for words in self._nodes(["ps"])["ps"]], ["start"])
        self._expect_nothing_to_resume()

    def test_workers_pod_replaced_meanwhile(self):
        first = self._started()
        (worker,) = (p["metadata"]["name"] for p in self._pods(role="worker") if "-2-" in p["metadata"]["name"])
        self._delete(first)
        self._delete(worker, gracePeriodSeconds=0)
        second = self._driver(but=[first])
        self._goes_on_in(second)
        self._go()
        self._ends("Complete", second, 0)
        self._expect_one_process_each(["0", "1", "3"])
        self.assertEqual([words[0] for words in self._nodes()["2"]], ["start", "start", "end"])
        self._expect_nothing_to_resume()

    def test_node_cut_off(self):
        first = self._started()
        self._lose_node_of(first)
        # While the first one lives none takes its place: each says who has the cluster.
        refused = self._driver(but=[first])
        self._delete(first, gracePeriodSeconds=0)
        wait_for(lambda: " has a driver, pid " in self._log(refused), "the second driver is refused")
        self._trains(first, steps=len(re.findall(r"(?m)^worker:0\| step", self._log(first))) + 3)
        self.kubelet.reconnect()
        others = [first, refused]

        def next_one():
            for pod in self._pods(app="train-driver"):
                name = pod["metadata"]["name"]
                if name not in others and "goes on" in self._log(name):
                    return name
            return None

        last = wait_for(next_one, "a driver that takes the cluster over")
        self._trains(last)
        self._go()
        self._ends("Complete", last, 0)
        self._expect_one_process_each()
        self._expect_nothing_to_resume()

    def test_cut_off_without_locks(self):
        first = self._started()
        (claim,) = (self.kubelet.folder / "claims").iterdir()
        (claim / "train/lock").unlink()  # as on a file system whose locks end at a host
        self._lose_node_of(first)
        second = self._driver(but=[first])
        self._delete(first, gracePeriodSeconds=0)
        self._goes_on_in(second)
        fenced = r"(?m)^millrace: .*(taken over|another driver)"
        wait_for(lambda: re.search(fenced, self._log(first)), "the first driver ends")
        told = self._log(first)
        self._trains(second, steps=len(re.findall(r"(?m)^worker:0\| step", self._log(second))) + 3)
        self.assertEqual(self._log(first), told)  # it has ended
        self._go()
        self._ends("Complete", second, 0)
        self._expect_one_process_each()
        self._expect_nothing_to_resume()

    def test_failure_of_the_program(self):
        first = self._started()
        self._evict(first)
        second = self._driver(but=[first])
        self._goes_on_in(second)
        self._go(code=3)
        self._ends("Failed", second, 3)
        self._expect_nothing_to_resume()


if __name__ == "__main__":
    unittest.main()
