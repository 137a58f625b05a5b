"""The pods of StatefulSets and indexed Jobs, as their controllers make them."""

import copy

_INDEX = "batch.kubernetes.io/job-completion-index"


class _JobState:
    """Of a Job that is not indexed."""

    def __init__(self):
        self.counted = set()  # UIDs of pods whose end was looked at
        self.failures = 0
        self.ended = None


def _holds(rule, pod):
    """Whether a rule of a podFailurePolicy is about how this pod ended."""
    if "onPodConditions" in rule:
        conditions = {(c["type"], c["status"]) for c in pod["status"].get("conditions", [])}
        return any((p["type"], p.get("status", "True")) in conditions for p in rule["onPodConditions"])
    codes = rule["onExitCodes"]
    for container in pod["status"].get("containerStatuses", []):
        ended = container["state"].get("terminated")
        named = codes.get("containerName") in (None, container["name"])
        if ended and named and ended["exitCode"] != 0:
            if (ended["exitCode"] in codes["values"]) == (codes["operator"] == "In"):
                return True
    return False


class Workloads:
    """Makes pods that are missing, one round at a time. It ends none: whoever wants fewer pods deletes them."""

    def __init__(self, api):
        self._api = api
        self._made = 0
        self._jobs = {}  # by UID

    def ended(self, uid):
        """"Complete" or "Failed" for a Job for which no pod is made any more."""
        return self._jobs[uid].ended if uid in self._jobs else None

    def _pods(self, owner):
        namespace = owner["metadata"]["namespace"]
        pods = self._api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
        uid = owner["metadata"]["uid"]
        return [p for p in pods if any(o["uid"] == uid for o in p["metadata"].get("ownerReferences", []))]

    def _create(self, owner, name, labels, annotations=None, spec=None):
        meta = owner["metadata"]
        template = copy.deepcopy(owner["spec"]["template"])
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
        pod = {
            "metadata": {
                "name": name,
                "labels": template["metadata"].get("labels", {}) | labels,
                "annotations": template["metadata"].get("annotations", {}) | (annotations or {}),
                "ownerReferences": [reference | {"controller": True}],
            },
            "spec": template["spec"] | (spec or {}),
        }
        self._api.request("POST", f"/api/v1/namespaces/{meta['namespace']}/pods", pod)

    def _stateful_set(self, owner):
        there = {pod["metadata"]["name"] for pod in self._pods(owner)}
        for i in range(owner["spec"]["replicas"]):
            name = f"{owner['metadata']['name']}-{i}"
            if name not in there:
                labels = {"statefulset.kubernetes.io/pod-name": name, "apps.kubernetes.io/pod-index": str(i)}
                self._create(owner, name, labels, spec={"hostname": name})

    def _job(self, owner):
        if owner["spec"].get("completionMode") != "Indexed":
            self._plain_job(owner)
            return
        pods = [p for p in self._pods(owner) if p["status"]["phase"] != "Failed" or owner["spec"]["backoffLimit"] == 0]
        there = {p["metadata"]["annotations"][_INDEX] for p in pods if not p["metadata"].get("deletionTimestamp")}
        for i in range(owner["spec"]["completions"]):
            if str(i) not in there:
                self._made += 1
                name = owner["metadata"]["name"]
                labels = {"batch.kubernetes.io/job-name": name, _INDEX: str(i)}
                self._create(
                    owner, f"{name}-{i}-{self._made:05d}", labels, {_INDEX: str(i)}, {"hostname": f"{name}-{i}"}
                )

    def _plain_job(self, owner):
        """One pod at a time, as long as the Job's policies let it have another."""
        spec = owner["spec"]
        job = self._jobs.setdefault(owner["metadata"]["uid"], _JobState())
        waits = spec.get("podReplacementPolicy") == "Failed"  # until the end of a pod is known
        pods = self._pods(owner)
        alive = [p for p in pods if p["status"]["phase"] not in ("Succeeded", "Failed")]
        deleted = [p for p in alive if p["metadata"].get("deletionTimestamp")]
        failed = [p for p in pods if p["status"]["phase"] == "Failed"] + ([] if waits else deleted)
        for pod in failed:
            if pod["metadata"]["uid"] in job.counted:
                continue
            job.counted.add(pod["metadata"]["uid"])
            rules = spec.get("podFailurePolicy", {}).get("rules", [])
            action = next((rule["action"] for rule in rules if _holds(rule, pod)), "Count")
            if action == "FailJob":
                job.ended = job.ended or "Failed"
            job.failures += action == "Count"
        if any(p["status"]["phase"] == "Succeeded" for p in pods):
            job.ended = job.ended or "Complete"
        if job.failures > spec["backoffLimit"]:
            job.ended = job.ended or "Failed"
        if job.ended or (alive if waits else len(alive) > len(deleted)):
            return
        self._made += 1
        name = owner["metadata"]["name"]
        self._create(owner, f"{name}-{self._made:05d}", {"batch.kubernetes.io/job-name": name})

    def step(self):
        for path, make in [("apps/v1/statefulsets", self._stateful_set), ("batch/v1/jobs", self._job)]:
            answer = self._api.request("GET", f"/apis/{path}")
            for owner in answer["items"]:
                if not owner["metadata"].get("deletionTimestamp"):
                    kind = {"statefulsets": "StatefulSet", "jobs": "Job"}[path.rpartition("/")[2]]
                    make(owner | {"apiVersion": path.rpartition("/")[0], "kind": kind})
