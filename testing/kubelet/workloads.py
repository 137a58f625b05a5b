"""The pods of StatefulSets and indexed Jobs, as their controllers make them."""

import copy

_INDEX = "batch.kubernetes.io/job-completion-index"


class Workloads:
    """Makes pods that are missing, one round at a time. It ends none: whoever wants fewer pods deletes them."""

    def __init__(self, api):
        self._api = api
        self._made = 0

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
        pods = [p for p in self._pods(owner) if p["status"]["phase"] != "Failed" or owner["spec"]["backoffLimit"] == 0]
        if owner["spec"].get("completionMode") != "Indexed":
            if not pods:
                self._made += 1
                name = owner["metadata"]["name"]
                self._create(owner, f"{name}-{self._made:05d}", {"batch.kubernetes.io/job-name": name})
            return
        there = {p["metadata"]["annotations"][_INDEX] for p in pods if not p["metadata"].get("deletionTimestamp")}
        for i in range(owner["spec"]["completions"]):
            if str(i) not in there:
                self._made += 1
                name = owner["metadata"]["name"]
                labels = {"batch.kubernetes.io/job-name": name, _INDEX: str(i)}
                self._create(
                    owner, f"{name}-{i}-{self._made:05d}", labels, {_INDEX: str(i)}, {"hostname": f"{name}-{i}"}
                )

    def step(self):
        for path, make in [("apps/v1/statefulsets", self._stateful_set), ("batch/v1/jobs", self._job)]:
            answer = self._api.request("GET", f"/apis/{path}")
            for owner in answer["items"]:
                if not owner["metadata"].get("deletionTimestamp"):
                    kind = {"statefulsets": "StatefulSet", "jobs": "Job"}[path.rpartition("/")[2]]
                    make(owner | {"apiVersion": path.rpartition("/")[0], "kind": kind})
