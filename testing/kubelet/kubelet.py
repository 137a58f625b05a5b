"""A small stand-in for the kubelet, the scheduler and the controllers of workloads: pods of a real API server run as
processes of this machine.

    with Kubelet(server, folder, {"millrace:0.2.0": Image(root=unpacked)}) as kubelet:
        ...                                      # whatever makes pods
        kubelet.log("ml", "train-worker-0")

README.md says what it does and what it does not.
"""

import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from api_server import ApiError
from workloads import Workloads

_CONTAINER = pathlib.Path(__file__).with_name("container.py")
_NODE = "this-machine"
_POLL_S = 0.3
_RESTART_AFTER_S = 1.0
_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


class _NotYet(Exception):
    """Something that the pod names is not there; a kubelet tries again."""


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _field(pod, path, ip):
    at = {"status": pod["status"] | {"podIP": ip, "hostIP": "127.0.0.1"}, **{k: pod[k] for k in ("metadata", "spec")}}
    for name in path.split("."):
        at = at[name.partition("[")[0]]
        if "['" in name:  # metadata.labels['x']
            at = at[path.partition("['")[2].removesuffix("']")]
            break
    return str(at)


class _Container:
    """One of a pod's."""

    def __init__(self, spec, number):
        self.spec = spec
        self.number = number
        self.process = None
        self.restarts = 0
        self.ended_at = None
        self.started_at = ""
        self.code = None  # of the last end
        self.retry_at = 0

    def running(self):
        return self.process is not None and self.process.poll() is None


class _Pod:
    """A pod that was taken, with its processes."""

    def __init__(self, kubelet, pod, ip):
        self.kubelet = kubelet
        self.pod = pod
        self.ip = ip
        meta = pod["metadata"]
        self.namespace, self.name, self.uid = meta["namespace"], meta["name"], meta["uid"]
        self.host = pod["spec"].get("hostname", self.name)
        self.path = f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"
        self.folder = kubelet.folder / f"{self.namespace}_{self.name}_{self.uid[:8]}"
        self.folder.mkdir(parents=True)
        self.hosts = self.folder / "hosts"
        self.hosts.write_text("", encoding="ascii")
        self.containers = [_Container(spec, i) for i, spec in enumerate(pod["spec"]["containers"])]
        self.ready_at = {}
        self.started = False
        self.said = None  # the status that the server has
        self.why = ""
        self.kill_at = None
        self.over = False  # of a pod that is being deleted: the server knows how it ended
        self.volumes = None

    # ---- volumes ----
    def _write(self, path, text, mode):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
        path.chmod(mode)
        group = self.pod["spec"].get("securityContext", {}).get("fsGroup")
        os.chown(path, 0, group if group is not None else 0)

    def _object(self, kind, name, optional=False):
        try:
            return self.kubelet.api.request("GET", f"/api/v1/namespaces/{self.namespace}/{kind}/{name}")
        except ApiError as error:
            if error.status == 404 and optional:
                return {}
            raise _NotYet(str(error)) from error

    def _keys(self, folder, source, values, mode):
        items = source.get("items") or [{"key": key, "path": key} for key in values]
        for item in items:
            self._write(folder / item["path"], values[item["key"]], item.get("mode", mode))

    def _secret(self, folder, source, mode):
        name = source.get("secretName") or source["name"]
        data = self._object("secrets", name, source.get("optional")).get("data", {})
        self._keys(folder, source, {key: base64.b64decode(value) for key, value in data.items()}, mode)

    def _config_map(self, folder, source, mode):
        data = self._object("configmaps", source["name"], source.get("optional")).get("data", {})
        self._keys(folder, source, {key: value.encode() for key, value in data.items()}, mode)

    def _projected(self, folder, source, mode):
        if "serviceAccountToken" in source:
            token = source["serviceAccountToken"]
            account = self.pod["spec"].get("serviceAccountName", "default")
            path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
            bound = {"kind": "Pod", "apiVersion": "v1", "name": self.name, "uid": self.uid}
            spec = {"expirationSeconds": token.get("expirationSeconds", 3600), "boundObjectRef": bound}
            answer = self.kubelet.api.request("POST", path, {"spec": spec})
            # Readable to the pod's user, whoever that is.
            self._write(folder / token["path"], answer["status"]["token"].encode(), 0o644)
        elif "configMap" in source:
            self._config_map(folder, source["configMap"], mode)
        elif "secret" in source:
            self._secret(folder, source["secret"], mode)
        else:
            for item in source["downwardAPI"]["items"]:
                value = _field(self.pod, item["fieldRef"]["fieldPath"], self.ip)
                self._write(folder / item["path"], value.encode(), item.get("mode", mode))

    def _claim(self, name):
        """The folder of a claim, which outlives its pods, owned as a kubelet makes volumes a group's."""
        claim = self._object("persistentvolumeclaims", name)
        if claim["spec"]["accessModes"] == ["ReadWriteOncePod"] and self.kubelet.claimed(self, name):
            raise _NotYet(f"another pod has the claim {name}")
        folder = self.kubelet.folder / "claims" / claim["metadata"]["uid"]
        folder.mkdir(parents=True, exist_ok=True)
        security = self.pod["spec"].get("securityContext", {})
        group = security.get("fsGroup")
        there = folder.stat()
        matches = there.st_gid == group and there.st_mode & 0o2770 == 0o2770
        if group is None or (matches and security.get("fsGroupChangePolicy") == "OnRootMismatch"):
            return folder
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, -1, group, follow_symlinks=False)
            path.chmod(path.stat().st_mode | (0o2770 if path.is_dir() else 0o660))
        return folder

    def claims(self):
        volumes = self.pod["spec"].get("volumes", [])
        return {v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v}

    def _volume(self, volume):
        folder = self.folder / "volumes" / volume["name"]
        if folder.exists():
            shutil.rmtree(folder)  # of an attempt that something was missing for
        folder.mkdir(parents=True)
        if "secret" in volume:
            self._secret(folder, volume["secret"], volume["secret"].get("defaultMode", 0o644))
        elif "configMap" in volume:
            self._config_map(folder, volume["configMap"], volume["configMap"].get("defaultMode", 0o644))
        elif "projected" in volume:
            for source in volume["projected"]["sources"]:
                self._projected(folder, source, volume["projected"].get("defaultMode", 0o644))
        elif "emptyDir" in volume:
            folder.chmod(0o1777)
        elif "persistentVolumeClaim" in volume:
            folder = self._claim(volume["persistentVolumeClaim"]["claimName"])
        else:
            raise ValueError(f"{self.path}: no volume of this kind here: {volume}")
        return folder

    # ---- containers ----
    def _environment(self, spec, image):
        server = self.kubelet.api.url.removeprefix("https://").split(":")
        environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOSTNAME": self.host,
            "KUBERNETES_SERVICE_HOST": server[0],
            "KUBERNETES_SERVICE_PORT": server[1],
            **image.environment,
        }
        for variable in spec.get("env", []):
            source = variable.get("valueFrom")
            if source is None:
                environment[variable["name"]] = self._expanded(variable.get("value", ""), environment)
            elif "fieldRef" in source:
                environment[variable["name"]] = _field(self.pod, source["fieldRef"]["fieldPath"], self.ip)
            elif "secretKeyRef" in source:
                data = self._object("secrets", source["secretKeyRef"]["name"])["data"]
                environment[variable["name"]] = base64.b64decode(data[source["secretKeyRef"]["key"]]).decode()
            else:
                raise ValueError(f"{self.path}: no variable of this kind here: {variable}")
        return environment

    @staticmethod
    def _expanded(text, environment):
        for name, value in environment.items():
            text = text.replace(f"$({name})", value)
        return text

    def _argv(self, spec, image, environment):
        entrypoint = spec.get("command") or image.entrypoint
        # An image's own command goes with its own entry point only.
        arguments = spec.get("args") or ([] if spec.get("command") else image.command)
        words = [self._expanded(word, environment) for word in [*entrypoint, *arguments]]
        # Pods share this machine's network: "every address" is the pod's one.
        return [word.replace("0.0.0.0", self.ip) for word in words]

    def _start(self, container):
        spec = container.spec
        image = self.kubelet.images.get(spec["image"])
        if image is None:
            raise _NotYet(f"no image {spec['image']}")
        root = self.folder / f"root-{container.number}-{container.restarts}"
        shutil.copytree(image.root, root, symlinks=True)
        mounts = [{"source": str(path), "at": at} for at, path in image.mounts.items()]
        writable = {"/dev": "/dev", **image.writable_mounts}
        mounts += [{"source": str(path), "at": at, "writable": True} for at, path in writable.items()]
        mounts.append({"source": str(self.hosts), "at": "/etc/hosts"})
        for mount in spec.get("volumeMounts", []):
            source = self.volumes[mount["name"]] / mount.get("subPath", "")
            writable = not mount.get("readOnly", False)
            mounts.append({"source": str(source), "at": mount["mountPath"], "writable": writable})
        mounts.sort(key=lambda mount: mount["at"].count("/"))  # folders before what is in them
        security = self.pod["spec"].get("securityContext", {}) | spec.get("securityContext", {})
        user = security.get("runAsUser", image.user)
        if security.get("runAsNonRoot") and user == 0:
            raise ValueError(f"{self.path}: runAsNonRoot, but the user is root")
        groups = [security["fsGroup"]] if "fsGroup" in security else []
        environment = self._environment(spec, image)
        description = self.folder / f"container-{container.number}.json"
        description.write_text(
            json.dumps({
                "host": self.host,
                "root": str(root),
                "mounts": mounts,
                "read_only": security.get("readOnlyRootFilesystem", False),
                "user": user,
                "group": security.get("runAsGroup", user),
                "groups": groups + security.get("supplementalGroups", []),
                "folder": spec.get("workingDir", image.folder),
                "argv": self._argv(spec, image, environment),
                "environment": environment,
            }),
            encoding="utf-8",
        )  # fmt: skip
        with open(self.log_path(spec["name"]), "ab") as log:
            container.process = subprocess.Popen(
                [sys.executable, "-I", _CONTAINER, description],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        container.started_at = _now()

    def log_path(self, container):
        return self.kubelet.folder / f"{self.namespace}_{self.name}_{container}.log"

    # ---- one round ----
    def _restarts(self, container):
        if self.kill_at is not None:
            return False
        policy = self.pod["spec"].get("restartPolicy", "Always")
        return policy == "Always" or (policy == "OnFailure" and container.code != 0)

    def _ready(self, container):
        if not container.running():
            return False
        probe = container.spec.get("readinessProbe")
        if probe is None:
            return True
        if container.number in self.ready_at and time.monotonic() - self.ready_at[container.number] < 5:
            return True
        port = probe["tcpSocket"]["port"]
        if isinstance(port, str):
            port = {p.get("name"): p["containerPort"] for p in container.spec["ports"]}[port]
        try:
            socket.create_connection((self.ip, port), timeout=0.5).close()
        except OSError:
            return False
        self.ready_at[container.number] = time.monotonic()
        return True

    def _state(self, container):
        if container.running():
            return {"running": {"startedAt": container.started_at}}
        if container.code is None:
            return {"waiting": {"reason": "ContainerCreating", "message": self.why}}
        reason = "Completed" if container.code == 0 else "Error"
        ended = {"exitCode": container.code, "reason": reason, "startedAt": container.started_at}
        return {"terminated": ended | {"finishedAt": container.ended_at}}

    def _phase(self):
        if not self.started:
            return "Pending"
        if any(c.running() or self._restarts(c) for c in self.containers):
            return "Running"
        return "Succeeded" if all(c.code == 0 for c in self.containers) else "Failed"

    def _tell(self):
        ready = {c.number: self._ready(c) for c in self.containers}
        true = "True" if all(ready.values()) else "False"
        status = {
            "phase": self._phase(),
            "hostIP": "127.0.0.1",
            "podIP": self.ip,
            "podIPs": [{"ip": self.ip}],
            "startTime": self.pod["metadata"]["creationTimestamp"],
            "conditions": [{"type": t, "status": true} for t in ("Ready", "ContainersReady")]
            + [{"type": t, "status": "True"} for t in ("Initialized", "PodScheduled")],
            "containerStatuses": [
                {
                    "name": c.spec["name"],
                    "image": c.spec["image"],
                    "imageID": c.spec["image"],
                    "containerID": f"process://{self.uid}/{c.number}/{c.restarts}",
                    "ready": ready[c.number],
                    "started": c.running(),
                    "restartCount": c.restarts,
                    "state": self._state(c),
                }
                for c in self.containers
            ],
        }
        if status != self.said:
            kind = "application/strategic-merge-patch+json"
            patch = {"metadata": {"uid": self.uid}, "status": status}
            self.kubelet.api.request("PATCH", f"{self.path}/status", patch, kind)
            self.said = status

    def _collect(self):
        for c in self.containers:
            if c.process is not None and c.process.poll() is not None:
                c.code = c.process.returncode if c.process.returncode >= 0 else 128 - c.process.returncode
                c.process = None
                c.ended_at = _now()
                c.retry_at = time.monotonic() + _RESTART_AFTER_S

    def step(self, pod):
        """Does what there is to do for the pod as the server has it now."""
        self.pod = pod
        self._collect()
        if pod["metadata"].get("deletionTimestamp"):
            self._end(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
            return
        try:
            if not self.started:
                self.volumes = {v["name"]: self._volume(v) for v in pod["spec"].get("volumes", [])}
                for container in self.containers:
                    self._start(container)
                self.started = True
            for container in self.containers:
                if container.process is None and self._restarts(container) and time.monotonic() > container.retry_at:
                    container.restarts += 1
                    self._start(container)
        except _NotYet as why:
            self.why = str(why)
        self._tell()

    def _end(self, grace):
        if self.kill_at is None:
            self.kill_at = time.monotonic() + grace
            for c in self.containers:
                if c.running():
                    c.process.send_signal(signal.SIGTERM)
        if time.monotonic() >= self.kill_at:
            self.kill()
        self._collect()
        self._tell()
        if self.over:
            body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
            body["preconditions"] = {"uid": self.uid}
            self.kubelet.api.request("DELETE", self.path, body)
        # Controllers look at how it ended before it is gone.
        self.over = not any(c.running() for c in self.containers)

    def kill(self):
        for c in self.containers:
            if c.process is not None:
                c.process.kill()
                c.process.wait()


class Kubelet:
    """Runs the pods of all namespaces until close(). `images` may be added to at any time."""

    def __init__(self, server, folder, images):
        self.api = server.client(server.token)
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.folder.chmod(0o755)
        self.images = images
        self.problem = None  # what ended its thread
        self._pods = {}  # by UID
        self._cut_off = {}  # pods that this kubelet does not look after, by UID
        self._lock = threading.Lock()  # around a round
        self._next = 0
        self._workloads = Workloads(server.client(server.token))
        self._stop = threading.Event()
        self.api.request("POST", "/api/v1/nodes", {"metadata": {"name": _NODE}})
        self._thread = threading.Thread(target=self._run, name="kubelet")
        self._thread.start()

    def log(self, namespace, pod, container=None):
        """What the container wrote; all of them, without a name."""
        names = sorted(self.folder.glob(f"{namespace}_{pod}_{container or '*'}.log"))
        return "".join(path.read_text(encoding="utf-8", errors="replace") for path in names)

    def logs(self):
        """Of everything, for a test that fails."""
        return "".join(
            f"--- {path.name}\n{path.read_text(encoding='utf-8', errors='replace')[-6000:]}\n"
            for path in sorted(self.folder.glob("*.log"))
        )

    def cut_off(self, namespace, name):
        """As if the pod's node were cut off from the server: its processes go on, whatever becomes of the pod."""
        with self._lock:
            (pod,) = (p for p in self._pods.values() if (p.namespace, p.name) == (namespace, name))
            self._cut_off[pod.uid] = self._pods.pop(pod.uid)

    def reconnect(self):
        """Nodes are back: pods that the server does not have any more are ended."""
        with self._lock:
            self._pods.update(self._cut_off)
            self._cut_off = {}

    def claimed(self, pod, claim):
        """Whether another pod that the server has, and that has not ended, has started with the claim."""
        return any(
            other is not pod and other.started and not other.over and other.namespace == pod.namespace
            and claim in other.claims() and other.pod["status"].get("phase") not in ("Succeeded", "Failed")
            for other in self._pods.values()
        )  # fmt: skip

    def job_ended(self, uid):
        """"Complete", "Failed", or None while the Job's controller makes pods. For Jobs that are not indexed."""
        return self._workloads.ended(uid)

    def _take(self, pod):
        meta = pod["metadata"]
        if meta.get("deletionTimestamp") or pod["spec"].get("nodeName", _NODE) != _NODE:
            return
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": _NODE}
            path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding"
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}, "target": target}
            self.api.request("POST", path, binding)
        self._next += 1
        ip = f"127.{self._unique[0]}.{self._unique[1] + self._next // 250}.{1 + self._next % 250}"
        self._pods[meta["uid"]] = _Pod(self, pod, ip)

    # Tests that run at the same time have different addresses.
    _unique = (os.getpid() // 250 % 200 + 10, os.getpid() % 250)

    def _write_hosts(self):
        """The names of headless Services and of the pods behind them, for all pods."""
        lines = ["127.0.0.1 localhost"]
        for service in self.api.request("GET", "/api/v1/services")["items"]:
            selector = service["spec"].get("selector")
            if service["spec"].get("clusterIP") != "None" or not selector:
                continue
            namespace, name = service["metadata"]["namespace"], service["metadata"]["name"]
            for pod in self._pods.values():
                labels = pod.pod["metadata"].get("labels", {})
                if pod.namespace == namespace and selector.items() <= labels.items():
                    lines.append(f"{pod.ip} {name}.{namespace}.svc {name}.{namespace}.svc.cluster.local")
                    if pod.pod["spec"].get("subdomain") == name:
                        lines.append(f"{pod.ip} {pod.host}.{name}.{namespace}.svc.cluster.local")
        for pod in self._pods.values():
            # In place: it is bound into roots.
            text = "\n".join([*lines, f"{pod.ip} {pod.host}", ""])
            if text != pod.hosts.read_text(encoding="ascii"):
                pod.hosts.write_text(text, encoding="ascii")

    def _round(self):
        self._workloads.step()
        listed = {pod["metadata"]["uid"]: pod for pod in self.api.request("GET", "/api/v1/pods")["items"]}
        for uid, pod in listed.items():
            if uid not in self._pods and uid not in self._cut_off:
                self._take(pod)
        self._write_hosts()
        for uid, pod in list(self._pods.items()):
            if uid not in listed:
                pod.kill()
                del self._pods[uid]
                continue
            try:
                pod.step(listed[uid])
            except ApiError as error:
                if error.status not in (404, 409):  # it is gone, or changed meanwhile
                    raise

    def _run(self):
        try:
            while not self._stop.wait(_POLL_S):
                with self._lock:
                    self._round()
        except Exception as error:  # for whoever looks
            self.problem = error
            print(f"kubelet: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            for pod in [*self._pods.values(), *self._cut_off.values()]:
                pod.kill()

    def close(self):
        self._stop.set()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
