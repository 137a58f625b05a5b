"""The chart and the bases for kustomize on a real API server, put there by Helm and kubectl. Their pods run as
processes of this machine, in the image's root, as the user and with the rights that the objects say.

    kubernetes_test.py IMAGE.tar CHART.tgz
"""

import http.client
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

import api_server
import container_image
import kube_tools
import kubelet
import oci_image
import page
from eventually import wait_for

_IMAGE, _PACKED_CHART = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
_ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], "millrace")
_CHART = _ROOT / "millrace/packaging/kubernetes/chart"
_KUSTOMIZE = _ROOT / "millrace/packaging/kubernetes/kustomize"
_MILLRACE = _ROOT / "core/cli/millrace"
_REQUIRED = os.environ.get("MILLRACE_REQUIRE_GO") == "1"
# The kinds that a release makes.
_KINDS = ["/api/v1/%s/" + kind for kind in ("pods", "services", "secrets")] + [
    "/apis/apps/v1/%s/statefulsets/", "/apis/batch/v1/%s/jobs/", "/apis/networking.k8s.io/v1/%s/networkpolicies/",
    "/apis/rbac.authorization.k8s.io/v1/%s/roles/", "/apis/rbac.authorization.k8s.io/v1/%s/rolebindings/",
]  # fmt: skip
_RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}

# What the chart says of a PodMonitor, as Prometheus' operator knows it; any other field is refused.
_STRING = {"type": "string"}
_SECRET_KEY = {"type": "object", "required": ["key"], "properties": {"name": _STRING, "key": _STRING}}
_POD_MONITOR = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podmonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "PodMonitor", "plural": "podmonitors", "singular": "podmonitor"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
            "type": "object", "required": ["spec"], "properties": {"spec": {
                "type": "object", "required": ["selector", "podMetricsEndpoints"], "properties": {
                    "podTargetLabels": {"type": "array", "items": _STRING},
                    "selector": {"type": "object", "properties": {
                        "matchLabels": {"type": "object", "additionalProperties": _STRING}}},
                    "podMetricsEndpoints": {"type": "array", "items": {"type": "object", "properties": {
                        "port": _STRING, "path": {"type": "string", "pattern": "^/"},
                        "scheme": {"type": "string", "enum": ["http", "https"]},
                        "tlsConfig": {"type": "object", "properties": {"serverName": _STRING, "ca": {
                            "type": "object", "properties": {"secret": _SECRET_KEY}}}},
                        "authorization": {"type": "object", "properties": {
                            "type": _STRING, "credentials": _SECRET_KEY}},
                        "relabelings": {"type": "array", "items": {"type": "object", "properties": {
                            "targetLabel": _STRING, "replacement": _STRING}}},
                        "interval": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"}}}}}}}}}}],
    },
}  # fmt: skip


def _without_helms_own(objects):
    """The labels and the namespace that only Helm gives."""
    for item in objects.values():
        item["metadata"].pop("namespace", None)
        for label in ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"):
            item["metadata"].get("labels", {}).pop(label, None)
    return objects


_shared = {}


def setUpModule():
    """One server for all of them."""
    folder = tempfile.TemporaryDirectory(prefix="kubernetes-", ignore_cleanup_errors=True)
    unittest.addModuleCleanup(folder.cleanup)
    path = pathlib.Path(folder.name)
    path.chmod(0o755)
    if why := kube_tools.unavailable():
        raise AssertionError(why) if _REQUIRED else unittest.SkipTest(why)
    try:
        server = api_server.ApiServer(path / "server")
    except api_server.Unavailable as why:
        raise AssertionError(why) if _REQUIRED else unittest.SkipTest(str(why)) from why
    unittest.addModuleCleanup(server.close)
    # Where they lie they are links.
    shutil.copytree(_CHART, path / "chart")
    shutil.copytree(_KUSTOMIZE, path / "kustomize")
    _shared.update(folder=path, server=server)


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.server = _shared["folder"], _shared["server"]
        cls.tools = kube_tools.KubeTools(cls.folder, cls.server.kubeconfig("default"))
        cls.chart, cls.bases = cls.folder / "chart", cls.folder / "kustomize"

    def _secret(self, name):
        """The values of a release that has its Secret itself, and the file of the same for drivers here."""
        path = self.folder / f"{name}.json"
        subprocess.run([_MILLRACE, "agent-secret", "--file", path], check=True)
        options = []
        for part, value in json.loads(path.read_text(encoding="ascii")).items():
            file = self.folder / f"{name}.{part}"
            file.write_text(value, encoding="ascii")
            options.append(f"--set-file=secret.{part}={file}")
        return path, options

    def _of_release(self, namespace, release):
        """The paths of what there is of a release."""
        found = []
        for kind in _KINDS:
            path = kind % f"namespaces/{namespace}"
            selector = f"?labelSelector=app.kubernetes.io/instance%3D{release}"
            for item in self.server.request("GET", path.rstrip("/") + selector)["items"]:
                found.append(path + item["metadata"]["name"])
        return found


class RenderedTest(KubernetesTest):
    def test_helm_finds_nothing_to_complain_of(self):
        told = self.tools.helm("lint", "--strict", self.chart)
        self.assertIn("0 chart(s) failed", told)
        self.assertNotRegex(told, r"\[(WARNING|ERROR)\]")
        options = ["kind=Job", "podMonitor.enabled=true", "driver.command={millrace,--version}", "secret.token=x"]
        options += ["metrics.port=9465", "driver.stateSize=100Mi"]
        self.tools.helm("lint", "--strict", self.chart, "--set", ",".join(options))

    def test_the_packed_chart_is_the_chart(self):
        packed, own = (self.tools.helm("template", "millrace", chart) for chart in (_PACKED_CHART, self.chart))
        self.assertEqual(packed, own)

    def test_helm_and_kustomize_make_the_same_objects(self):
        for kind, base in (("StatefulSet", "statefulset"), ("Job", "job")):
            rendered = self.tools.helm("template", "millrace", self.chart, "--set", f"kind={kind}")
            built = self.tools.kubectl("kustomize", self.bases / base)
            helms = _without_helms_own(self.tools.objects(rendered))
            kustomizes = _without_helms_own(self.tools.objects(built))
            self.maxDiff = None
            self.assertEqual(helms, kustomizes)
            self.assertIn(f"{kind} millrace-worker", helms)
            self.assertEqual(len(helms), 8)

    def test_values_that_mean_nothing_are_refused_by_name(self):
        for values, said in (
            ("kind=Deployment", "kind"),
            ("agents.worker.replicas=0", "replicas"),
            ("agents.Worker.replicas=1", "Worker"),
            ("agents.worker.count=1", "count"),
            ("prot=1", "prot"),
            ("port=80", "port"),
            ("podMonitor.interval=soon", "interval"),
            ("metrics.port=100000", "metrics"),
            ("driver.stateSize=large", "stateSize"),
            ("driver.backoffLimit=-1", "backoffLimit"),
        ):
            with self.assertRaisesRegex(kube_tools.Failed, said):
                self.tools.helm("template", "millrace", self.chart, "--set", values)

    def test_a_group_has_its_own_resources_and_the_values_where_it_says_nothing(self):
        values = "agents.worker.replicas=3,agents.ps.replicas=1,agents.ps.resources.limits.nvidia\\.com/gpu=1"
        objects = self.tools.objects(self.tools.helm("template", "t", self.chart, "--set", values))
        of = {name: objects[f"StatefulSet t-{name}"]["spec"] for name in ("worker", "ps")}
        self.assertEqual((of["worker"]["replicas"], of["ps"]["replicas"]), (3, 1))
        resources = {n: s["template"]["spec"]["containers"][0]["resources"] for n, s in of.items()}
        self.assertEqual(resources["ps"], {"limits": {"nvidia.com/gpu": 1}})
        self.assertEqual(resources["worker"]["requests"]["memory"], "1Gi")

    def test_a_driver_with_a_state_is_what_the_page_says_of_one(self):
        """But for what the chart says of any pod."""
        values = ["driver.command={millrace,--version}", "driver.stateSize=100Mi", "driver.backoffLimit=20"]
        ours = self.tools.objects(self.tools.helm("template", "t", self.chart, "--set", ",".join(values)))
        page = self.tools.objects((_ROOT / "examples/kubernetes/resumable_driver.yaml").read_text(encoding="ascii"))
        claim = ours["PersistentVolumeClaim t-driver"]["spec"]
        self.assertEqual(claim, page["PersistentVolumeClaim train-state"]["spec"])
        job, example = ours["Job t-driver"]["spec"], page["Job train-driver"]["spec"]
        for name in ("backoffLimit", "podReplacementPolicy"):
            self.assertEqual(job[name], example[name])
        ignore, fail = job["podFailurePolicy"]["rules"]
        self.assertEqual(ignore["onPodConditions"][0].pop("status"), "True")  # the default
        self.assertEqual([ignore, fail], example["podFailurePolicy"]["rules"])
        pod, example = (each["template"]["spec"] for each in (job, example))
        self.assertLessEqual(example["securityContext"].items(), pod["securityContext"].items())
        (container,), (shown,) = pod["containers"], example["containers"]
        self.assertIn(shown["env"][0], container["env"])
        self.assertIn(shown["volumeMounts"][1], container["volumeMounts"])
        without = self.tools.objects(self.tools.helm("template", "t", self.chart, "--set", values[0]))
        self.assertNotIn("PersistentVolumeClaim t-driver", without)
        self.assertNotIn("podReplacementPolicy", without["Job t-driver"]["spec"])
        self.assertNotIn("podFailurePolicy", without["Job t-driver"]["spec"])


class AppliedTest(KubernetesTest):
    def _may(self, account, verb, resource, namespace="kust"):
        attributes = {"namespace": namespace, "verb": verb, "resource": resource}
        spec = {"user": f"system:serviceaccount:kust:{account}", "resourceAttributes": attributes}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return self.server.request("POST", path, {"spec": spec})["status"]["allowed"]

    def test_kubectl_applies_an_overlay_of_a_base_and_its_accounts_may_do_what_they_need_alone(self):
        self.server.namespace("kust", _RESTRICTED)
        self.server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _POD_MONITOR)
        overlay = self.folder / "overlay"
        overlay.mkdir()
        (overlay / "kustomization.yaml").write_text(
            "namespace: kust\nresources: [../kustomize/statefulset]\ncomponents: [../kustomize/pod_monitor]\n"
            "images: [{name: millrace, newName: registry.example/train, newTag: v1}]\n"
            "replicas: [{name: millrace-worker, count: 5}]\n",
            encoding="ascii",
        )
        apply = ["apply", "--server-side", "--validate=strict", "-k", overlay]
        wait_for(lambda: "podmonitors" in self.tools.kubectl("api-resources"), "the server knows PodMonitors")
        first = self.tools.kubectl(*apply)
        self.assertEqual(first.count("serverside-applied"), 9, first)
        self.assertEqual(self.tools.warnings, [])
        get = ["get", "statefulset,service,role,networkpolicy,podmonitor", "-n", "kust", "-o"]
        get.append("jsonpath={.items[*].metadata.resourceVersion}")
        versions = self.tools.kubectl(*get)
        self.assertEqual(len(versions.split()), 6)
        self.tools.kubectl(*apply)  # a second time changes nothing and conflicts with nothing
        self.assertEqual(self.tools.kubectl(*get), versions)

        there = self.server.request("GET", "/apis/apps/v1/namespaces/kust/statefulsets/millrace-worker")
        self.assertEqual(there["spec"]["replicas"], 5)
        self.assertEqual(there["spec"]["template"]["spec"]["containers"][0]["image"], "registry.example/train:v1")
        monitor = "/apis/monitoring.coreos.com/v1/namespaces/kust/podmonitors/millrace"
        self.assertEqual(self.server.request("GET", monitor)["spec"]["podMetricsEndpoints"][0]["port"], "metrics")

        wait_for(lambda: self._may("millrace-driver", "watch", "pods"), "the authorizer knows the role")
        self.assertTrue(self._may("millrace-driver", "list", "pods"))
        for account, verbs in (("millrace-driver", ["get", "create", "delete", "patch"]), ("millrace-agent", ["list"])):
            for verb in verbs:
                self.assertFalse(self._may(account, verb, "pods"), f"{account} {verb}")
        for resource in ("secrets", "configmaps", "services", "nodes"):
            self.assertFalse(self._may("millrace-driver", "list", resource), resource)
        self.assertFalse(self._may("millrace-driver", "list", "pods", "default"))
        monitors = self.tools.helm("template", "kust", self.chart, "--namespace", "kust", "--set",
                                   "podMonitor.enabled=true,metrics.port=9465", "--show-only",
                                   "templates/pod_monitor.yaml")  # fmt: skip
        self.tools.kubectl("apply", "--server-side", "--validate=strict", "-n", "kust", "-f", "-", text=monitors)
        path = "/apis/monitoring.coreos.com/v1/namespaces/kust/podmonitors/kust"
        programs, agents = self.server.request("GET", path)["spec"]["podMetricsEndpoints"]
        self.assertEqual((programs["port"], agents["port"], agents["scheme"]), ("metrics", "agent-metrics", "https"))
        self.assertEqual(agents["tlsConfig"]["ca"]["secret"], {"name": "millrace-agent-metrics", "key": "ca.crt"})
        self.assertEqual(agents["authorization"]["credentials"]["key"], "token")
        self.tools.kubectl("delete", "podmonitor", "kust", "-n", "kust")
        self.tools.kubectl("delete", "-k", overlay)
        self.assertEqual(self._of_release("kust", "millrace"), [])


class RunningTest(KubernetesTest):
    """With pods that run."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if why := container_image.unavailable():
            raise unittest.SkipTest(why)
        image = oci_image.unpack(_IMAGE, cls.folder / "image")
        # One that is made from it: with a shell, and what is dynamically linked finds here.
        own = oci_image.unpack(_IMAGE, cls.folder / "own")
        for place in ("/usr/lib", "/usr/lib64", "/usr/bin"):
            if os.path.isdir(place):
                own.mounts[place] = place
        # As a shared file system: at the same place here and in pods.
        cls.data = cls.folder / "data"
        cls.data.mkdir()
        shutil.copy(_ROOT / "examples/digits/digits.csv", cls.data)
        own.mounts[str(cls.data)] = cls.data
        version = re.search(r"^version: (.*)$", (cls.chart / "Chart.yaml").read_text(), re.MULTILINE).group(1)
        cls.kubelet = kubelet.Kubelet(
            cls.server, cls.folder / "kubelet",
            {f"millrace:{version}": image, f"registry.example/millrace:{version}": image,
             "registry.example/train:v1": own},
        )  # fmt: skip
        cls.addClassCleanup(cls.kubelet.close)
        cls.port = random.randrange(20000, 32000)

    def tearDown(self):
        if not self._outcome.success:
            print(self.kubelet.logs(), file=sys.stderr)
        if self.kubelet.problem:
            raise self.kubelet.problem

    def _pods(self, namespace, **labels):
        pods = self.server.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        return [p for p in pods if labels.items() <= p["metadata"]["labels"].items()]

    def _ready(self, namespace, count):
        def ready():
            conditions = [
                {c["type"]: c["status"] for c in pod["status"].get("conditions", [])}
                for pod in self._pods(namespace, **{"app.kubernetes.io/component": "agent"})
                if not pod["metadata"].get("deletionTimestamp")
            ]
            return sum(c.get("Ready") == "True" for c in conditions) == count

        wait_for(ready, f"{count} agents of {namespace} are ready")

    def _driver_ends(self, namespace):
        """The phase in which the driver's pod ends."""

        def phase():
            pods = self._pods(namespace, **{"app.kubernetes.io/component": "driver"})
            return next((p["status"]["phase"] for p in pods if p["status"]["phase"] in ("Succeeded", "Failed")), None)

        return wait_for(phase, f"the driver of {namespace} ends")

    def _log_of(self, namespace, component):
        pods = self._pods(namespace, **{"app.kubernetes.io/component": component})
        return "".join(self.kubelet.log(namespace, pod["metadata"]["name"]) for pod in pods)

    def test_a_driver_of_the_release_runs_a_program_on_its_agents_and_nothing_is_left(self):
        for kind in ("StatefulSet", "Job"):
            namespace = f"run-{kind.lower()}"
            with self.subTest(kind):
                self.server.namespace(namespace, _RESTRICTED)
                _, secret = self._secret(namespace)
                began = time.monotonic()
                told = self.tools.helm(
                    "install", "train", self.chart, "--namespace", namespace, *secret,
                    "--set", f"kind={kind},port={self.port}",
                )  # fmt: skip
                # The driver runs what the release says that drivers run.
                *command, program = shlex.split(told[told.index("  millrace run") :].replace("\\\n", ""))
                self.assertEqual(program, "PROGRAM", told)
                driver = f"driver.command={json.dumps([*command, 'millrace', '--version'])}"
                self.tools.helm(
                    "upgrade", "train", self.chart, "--namespace", namespace, "--reuse-values", "--set-json", driver
                )
                phase = self._driver_ends(namespace)
                print(f"Helm, {kind}: the release's driver ended {time.monotonic() - began:.1f} s later", flush=True)
                told = self._log_of(namespace, "driver")
                self.assertEqual(phase, "Succeeded", told)
                for worker in (0, 1):
                    self.assertRegex(told, rf"(?m)^worker:{worker}\| millrace")
                self._ready(namespace, 2)
                self.tools.helm("uninstall", "train", "--namespace", namespace)
                # Owners' pods are the garbage collector's, which does not run here.
                for pod in self._pods(namespace):
                    self.tools.kubectl("delete", "pod", pod["metadata"]["name"], "-n", namespace, "--wait=false")
                wait_for(lambda n=namespace: not self._of_release(n, "train"), "nothing is left of the release")

    def test_a_driver_with_a_state_goes_on_in_another_pod_when_it_is_evicted(self):
        self.server.namespace("state", _RESTRICTED)
        _, secret = self._secret("state")
        go = self.data / "go"
        program = f"echo here; while ! test -e {go}; do sleep 0.1; done; echo done"
        options = ["--on=kubernetes", "--namespace=state", f"--port={self.port + 3}", "--secret-dir=/etc/millrace"]
        options += ["--job=worker=app.kubernetes.io/instance=s,millrace.io/job=worker", "--expect=worker=2"]
        options += ["--driver-host=$(POD_IP)", "--bind-address=$(POD_IP)"]
        options += ["--resumable=/state/run", "--on-sigterm=leave"]
        command = json.dumps(["millrace", "run", *options, "--", "sh", "-c", program])
        values = f"port={self.port + 3},image.repository=registry.example/train,image.tag=v1"
        self.tools.helm(
            "install", "s", self.chart, "--namespace", "state", *secret, "--set", values,
            "--set-json", f"driver.command={command}", "--set", "driver.stateSize=100Mi,driver.backoffLimit=20",
        )  # fmt: skip
        wait_for(lambda: self._log_of("state", "driver").count("| here") == 2, "both workers run")
        (first,) = self._pods("state", **{"app.kubernetes.io/component": "driver"})
        name = first["metadata"]["name"]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        self.server.request("POST", f"/api/v1/namespaces/state/pods/{name}/eviction", body)

        def replaced():
            pods = self._pods("state", **{"app.kubernetes.io/component": "driver"})
            names = [pod["metadata"]["name"] for pod in pods if pod["metadata"]["name"] != name]
            return next((n for n in names if "goes on" in self.kubelet.log("state", n)), None)

        second = wait_for(replaced, "another pod goes on")
        self.assertIn("got SIGTERM and leaves the cluster", self.kubelet.log("state", name))
        go.touch()
        self.assertEqual(self._driver_ends("state"), "Succeeded")
        for worker in (0, 1):
            self.assertIn(f"worker:{worker}| done", self.kubelet.log("state", second))
            self.assertEqual(self.kubelet.log("state", f"s-worker-{worker}").count("adopted as executor"), 1)

    def test_agents_answer_whoever_has_the_token_as_the_page_says(self):
        self.server.namespace("ml2", _RESTRICTED)
        _, secret = self._secret("ml2")
        values = f"port={self.port + 4},image.repository=registry.example/millrace"
        self.tools.helm("install", "train", self.chart, "--namespace", "ml2", *secret, "--set", values)
        self._ready("ml2", 2)
        folder = self.folder / "metrics"
        folder.mkdir()
        text = (_ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")
        section = text.partition("### Metrics of agents\n")[2].partition("\n**kustomize**")[0]
        script = "\n".join(line for line in section.splitlines() if line.startswith("    "))
        # Only the addresses are a test's own.
        script = script.replace("--namespace ml ", "--namespace ml2 ").replace("=9465", f"={self.port + 5}")
        script = script.replace("millrace/packaging/kubernetes/chart", str(self.chart))
        self.tools.typed(script, folder)
        # Their controller would replace the pods one after the other.
        for pod in self._pods("ml2"):
            self.tools.kubectl("delete", "pod", pod["metadata"]["name"], "-n", "ml2", "--wait=false")
        context = ssl.create_default_context(cafile=folder / "tls.crt")
        token = (folder / "token").read_text(encoding="ascii").strip()

        def scrape(pod, headers):
            ports = {p["name"]: p["containerPort"] for p in pod["spec"]["containers"][0]["ports"]}
            connection = http.client.HTTPSConnection("millrace-agent", ports["agent-metrics"], context=context)
            connection.sock = context.wrap_socket(
                socket.create_connection((pod["status"]["podIP"], ports["agent-metrics"]), timeout=30),
                server_hostname="millrace-agent",
            )
            connection.request("GET", "/metrics", headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            connection.close()
            return answer.status, text

        def restarted():
            pods = [p for p in self._pods("ml2") if not p["metadata"].get("deletionTimestamp")]
            there = ["--metrics-address=0.0.0.0" in p["spec"]["containers"][0]["args"] for p in pods]
            return there == [True, True]

        wait_for(restarted, "pods of the new template")
        self._ready("ml2", 2)
        for pod in self._pods("ml2"):
            status, numbers = scrape(pod, {"Authorization": f"Bearer {token}"})
            self.assertEqual(status, 200, numbers)
            self.assertIn('millrace_agent_slots{state="free"} 1', numbers)
            for headers in ({}, {"Authorization": "Bearer another"}):
                self.assertEqual(scrape(pod, headers)[0], 401)

    def test_what_the_page_says_of_installing_makes_agents_that_are_ready(self):
        self.server.namespace("ml", _RESTRICTED)
        shutil.copy(_PACKED_CHART, self.folder)
        (script,) = page.sections()["Kubernetes"]
        self.assertIn("--namespace ml --create-namespace", script)
        script = script.replace("REGISTRY", "registry.example")
        script = script.replace("--set image", f"--set port={self.port + 2},image")
        began = time.monotonic()
        told = self.tools.typed(script, self.folder, _MILLRACE)
        self._ready("ml", 2)
        print(f"docs/install.md: agents are ready after {time.monotonic() - began:.1f} s", flush=True)
        self.assertIn("  millrace run --on kubernetes --namespace ml ", told)
        self.tools.helm("uninstall", "train", "--namespace", "ml")

    def test_digits_reach_their_accuracy_on_the_charts_agents_though_a_pod_is_replaced(self):
        self.server.namespace("digits", _RESTRICTED)
        file, secret = self._secret("digits")
        groups = {"ps": 1, "chief": 1, "evaluator": 1, "worker": 2}
        values = [f"agents.{name}.replicas={count}" for name, count in groups.items()]
        values += [f"port={self.port + 1}", "image.repository=registry.example/train,image.tag=v1"]
        self.tools.helm("install", "d", self.chart, "--namespace", "digits", *secret, "--set", ",".join(values))
        self._ready("digits", 5)
        token = self.server.account_token("digits", "d-driver")
        members = {
            "type": "kubernetes",
            "executable_location": "off_cluster",
            "kubeconfig": str(self.server.client(token).kubeconfig("digits")),
            "job_to_label_mapping": {n: [f"app.kubernetes.io/instance=d,millrace.io/job={n}"] for n in groups},
            "expected_tasks": groups,
            "tf_server_port": self.port + 1,
        }
        options = [f"--members={json.dumps(members)}", f"--secret={file}", "--max-restarts=3", "--epochs=600"]
        with subprocess.Popen(
            [_ROOT / "examples/digits/digits", *options, f"--data={self.data}/digits.csv"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={"HOME": str(self.folder)},
        ) as digits:  # fmt: skip
            told = ""
            for line in digits.stdout:
                told += line
                if "evaluation 1: " in line:
                    self.tools.kubectl("delete", "pod", "d-worker-1", "-n", "digits", "--wait=false")
        self.assertEqual(digits.returncode, 0, told)
        accuracy = re.search(r"(?m)^accuracy: (\S+)$", told)
        self.assertIsNotNone(accuracy, told)
        self.assertGreaterEqual(float(accuracy.group(1)), 0.96)
        self._ready("digits", 5)
        # The pod that was deleted, and the one in its place.
        self.assertEqual(self.kubelet.log("digits", "d-worker-1").count("adopted as executor"), 2, told)


del KubernetesTest  # its subclasses are what runs

if __name__ == "__main__":
    unittest.main()
