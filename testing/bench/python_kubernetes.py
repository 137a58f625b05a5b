"""Lists pods with the Kubernetes project's Python client, for //testing/bench:resolver.

Lines of JSON on stdin and stdout. The first says where the API server is and what to list; each
{"do": "list"} after it is answered by what a list into sorted addresses cost, the client being ready.
"""

import json
import resource
import sys
import time

import kubernetes


def _resident_bytes():
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def _list_pods(api, setup):
    addresses = []
    following = None
    while True:
        page = api.list_namespaced_pod(
            setup["namespace"], label_selector=setup["selector"], limit=setup["page_pods"], _continue=following
        )
        for pod in sorted(page.items, key=lambda pod: pod.metadata.name):
            if pod.status.phase == "Running":
                addresses.append(f"{pod.status.pod_ip}:8470")
        following = page.metadata._continue
        if not following:
            return addresses


def main():
    setup = json.loads(sys.stdin.readline())
    configuration = kubernetes.client.Configuration()
    configuration.host = setup["url"]
    configuration.ssl_ca_cert = setup["ca_file"]
    configuration.api_key = {"authorization": "Bearer " + setup["token"]}
    api = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))
    print(json.dumps({"version": kubernetes.__version__}), flush=True)
    for _ in sys.stdin:
        resident = _resident_bytes()
        cpu = time.process_time()
        begin = time.perf_counter()
        addresses = _list_pods(api, setup)
        answer = {
            "wall_s": time.perf_counter() - begin,
            "cpu_s": time.process_time() - cpu,
            "peak_growth_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - resident,
            "tasks": len(addresses),
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
