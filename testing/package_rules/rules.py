"""What each package may depend on. `violations` compares a PackageGraph with it."""

from package_graph import is_below, package_of

_BASE = {"core/base", "core/process", "core/net"}
_LEAVES = _BASE | {"core/cluster_spec"}
_CONTROL = _LEAVES | {"core/proto", "core/client"}
# What a coordinator is started with, and the coordinator.
_COORDINATOR = {"core/coordinator", "core/coordinator/state"}
_FEED = {"feed", "feed/arrow", "feed/ipc", "feed/source", "feed/wire", "feed/segment", "feed/receiver",
         "feed/feeder"}
# The public targets of //:BUILD.
_ROOT = ":"

# Folder to the folders that its libraries and programs may name directly, as docs/architecture.md draws the
# floors; the longest matching folder counts, and a folder may always name itself and what lies in it, unless that in
# turn may name the folder. Tests may use anything.
ALLOWED = {
    "core/base": set(),
    "core/process": {"core/base"},
    "core/net": {"core/base", "core/process"},
    "core/cluster_spec": {"core/base", "core/process"},
    "core/balance": {"core/base"},
    "core/proto": _LEAVES,
    "core/client": _LEAVES | {"core/proto"},
    "core/launch": _BASE,
    # Samples as text, and who may ask for them.
    "core/metrics": _BASE,
    "feed/arrow": _BASE,
    "feed/ipc": _BASE | {"feed/arrow"},
    "feed/source": _BASE | {"feed/arrow", "feed/ipc"},
    "feed/wire": _BASE,
    "feed/segment": _BASE,
    # Neither end of the feed sees the other.
    "feed/receiver": _BASE | {"feed/arrow", "feed/ipc", "feed/segment", "feed/wire"},
    "feed/feeder": _BASE | {"core/balance", "feed/arrow", "feed/ipc", "feed/segment", "feed/source", "feed/wire"},
    # Tests of both ends.
    "feed": set(),
    "core/node": _LEAVES | {"feed/arrow", "feed/receiver"},
    "resolver/http": _BASE,
    "resolver/kubernetes/client": _BASE | {"resolver/http"},
    "resolver": _LEAVES | {"core/gpu"},
    # Asks name servers.
    "resolver/dns": _LEAVES | {"resolver"},
    # Asks etcd.
    "resolver/etcd": _LEAVES | {"resolver", "resolver/http"},
    # Asks Compute Engine.
    "resolver/gce": _LEAVES | {"resolver", "resolver/http"},
    # Subclasses of the resolvers, which do not know them: nothing of the Millrace cluster.
    "resolver/tensorflow": _LEAVES | {"resolver", "resolver/gce", "resolver/kubernetes/client"},
    # Asks Spark's master, and the coordinator of a cluster there.
    "resolver/spark": _CONTROL | {"resolver", "resolver/http"},
    "resolver/every": _LEAVES | {"resolver", "resolver/dns", "resolver/etcd", "resolver/gce",
                                  "resolver/kubernetes/client", "resolver/spark", "resolver/tensorflow"},
    "core/coordinator/state": _LEAVES | {"core/proto", "core/balance"},
    # What is kept on a disk: records, and no idea of what they mean.
    "core/coordinator/journal": _LEAVES | {"core/proto"},
    "core/coordinator/view": _CONTROL | {"core/coordinator/state"},
    # Of core/launch the ticket: how a driver that takes over stands with its agents.
    # The streams of agents, and no idea of what is decided about them.
    "core/coordinator/stream": _CONTROL | {"core/coordinator/view"},
    "core/coordinator/server": _CONTROL | {"core/coordinator/stream", "core/coordinator/state",
                                           "core/coordinator/journal", "core/coordinator/view", "core/balance",
                                           "core/launch"},
    "core/coordinator": _CONTROL | {"core/balance", "core/launch"},
    "core/gpu": _BASE,
    "core/agent/loop": _BASE,
    "core/agent/link": _CONTROL | {"core/agent/loop", "core/gpu"},
    "core/agent/node": _CONTROL | {"core/agent/loop", "core/gpu"},
    "core/agent/gpu": _CONTROL | {"core/agent/loop", "core/agent/node", "core/gpu"},
    # `millrace-agent coordinator` runs the coordinator; a relay serves an agent's stream as that does.
    "core/agent/modes": _CONTROL | _COORDINATOR | {"core/coordinator/stream", "core/agent/loop", "core/agent/link",
                                                   "core/launch", "core/metrics"},
    "core/agent": _CONTROL | {"core/gpu", "core/metrics"},
    # The agent is a program to it, which launchers find and start.
    "core/cluster": _CONTROL | _COORDINATOR | {"core/launch", "feed/arrow", "feed/feeder", "feed/source", "resolver"},
    "core/cli/help": set(),
    "core/cli/output": _LEAVES,
    "core/cli/view": _CONTROL | {"core/cli/output"},
    "core/cli/host": _CONTROL | {"core/cli/output", "core/cluster", "core/gpu", "core/launch"},
    "core/cli/slurm": _LEAVES | {"core/cluster", "core/launch"},
    "core/cli/metrics": _CONTROL | {"core/cli/output", "core/cli/view", "core/metrics"},
    # The window's model in a terminal.
    "core/cli/top": _CONTROL | {"core/cli/output", "core/cli/view", "dashboard/model", "dashboard/source"},
    # It looks at a node's output and environment as the agent does, and carries the agent along.
    "core/cli": _CONTROL | {"core/agent", "core/agent/node", "core/cluster", "core/coordinator/state", "core/launch",
                            "core/metrics", "resolver", "resolver/every", "resolver/tensorflow"},
    "dashboard/model": _CONTROL,
    "dashboard/views": _CONTROL | {"dashboard/model"},
    "dashboard/source": _CONTROL | {"dashboard/model"},
    "dashboard/report": _CONTROL | {"dashboard/model"},
    "dashboard/app": _CONTROL | {"dashboard/model", "dashboard/report", "dashboard/source", "dashboard/views"},
    # Its jar holds the agent and the GPU helper.
    "spark_connector": _LEAVES | {"core/proto", "core/agent", "core/gpu"},
    # What users include.
    "millrace": set(),
    # The C interface of nodes and drivers, and what stands on it.
    "millrace/c": _LEAVES | _FEED | {"core/cluster", "core/coordinator/state", "core/node", "resolver",
                                  "resolver/every"},
    "millrace/python": {"millrace/c"},
    "millrace/tensorflowonspark": {"millrace/python"},
    # What stands there is written as programs of others are.
    "examples": {_ROOT},
    "third_party": set(),
}

# Named by everyone.
_FREE = ("third_party",)
# Its headers are implemented by everyone; what lies below it is not meant.
_PUBLIC_HEADERS = "millrace"
# Which packages carry along.
_LICENCE = "//:LICENSE"
# Names everything, as the root with its public aliases does.
_UNCHECKED = ("testing", "docs", "millrace/packaging")

CLUSTER_SERVER = "//core/node:cluster_server"
# What links into programs that carry a gRPC and a Protobuf of their own.
PUBLIC_NODE = ("//:node", "//millrace/c:libmillrace.so")
CURL_USER = "resolver/http"
HTTPLIB_USER = "core/metrics"


def _is_grpc_or_protobuf(label):
    return label.startswith(("@com_github_grpc_grpc//", "@com_google_protobuf//", "//core/proto:"))


def _is_imgui(label):
    return label.startswith("@") and "imgui" in label.split("//")[0]


def _is_zeromq_or_curl(label):
    return label.startswith("@millrace_libzmq//") or _is_curl(label)


def _is_curl(label):
    return label.startswith(("@millrace_curl//", "@com_github_curl_"))


def _is_httplib(label):
    return label.startswith("@millrace_cpp_httplib//")


def _is_cluster_or_feed(label):
    package = package_of(label)
    return package is not None and (is_below(package, "core/cluster") or is_below(package, "feed"))


def _folder_of(package):
    candidates = [folder for folder in ALLOWED if is_below(package, folder)]
    return max(candidates, key=len, default=None)


def _direction(graph):
    for rule, dependency in graph.edges():
        package = package_of(rule.label)
        target = package_of(dependency)
        if target is None or package == "" or dependency == _LICENCE:
            continue
        if any(is_below(package, free) for free in _UNCHECKED):
            continue
        folder = _folder_of(package)
        floor = _folder_of(target) if target else _ROOT
        if folder is None:
            yield f"{rule.label}: package_rules/rules.py does not say what //{package} may depend on"
        elif rule.for_tests or any(is_below(target, free) for free in _FREE):
            continue
        elif is_below(target, folder) and folder not in ALLOWED[floor]:
            continue
        elif floor in ALLOWED[folder] or (target == _PUBLIC_HEADERS and ALLOWED[folder] != {_ROOT}):
            continue
        elif floor == _ROOT:
            yield f"{rule.label} -> {dependency}: the root's targets are for programs outside"
        else:
            allowed = ", ".join(f"//{name}" for name in sorted(ALLOWED[folder])) or "nothing of ours"
            yield f"{rule.label} -> {dependency}: //{folder} may depend on {allowed} only"


def _unreachable(graph, rules, is_target, what):
    for rule in rules:
        path = graph.path(rule.label, is_target)
        if path:
            yield f"{' -> '.join(path)}: {rule.label} must not reach {what}"


def _http_users(graph):
    for rule, dependency in graph.edges():
        package = package_of(rule.label)
        if package is None or rule.for_tests:
            continue
        for matches, what, user in (
            (_is_curl, "curl", CURL_USER),
            (_is_httplib, "cpp-httplib", HTTPLIB_USER),
        ):
            if matches(dependency) and not any(is_below(package, each) for each in (user, *_UNCHECKED, *_FREE)):
                yield f"{rule.label} -> {dependency}: only //{user} may use {what} itself"


def _node_libraries(graph):
    """The libraries of //core/node without cluster_server and what stands on it."""
    for rule in graph.products("core/node"):
        if rule.label != CLUSTER_SERVER and not graph.path(rule.label, CLUSTER_SERVER.__eq__):
            yield rule


def violations(graph):
    """Returns one line for each broken rule; it names the edge or the path."""
    grpc = "gRPC or Protobuf"
    public_node = [graph.rules[label] for label in PUBLIC_NODE if label in graph.rules]
    found = list(_direction(graph)) + list(_http_users(graph))
    found += _unreachable(graph, _node_libraries(graph), _is_grpc_or_protobuf, grpc)
    found += _unreachable(graph, public_node, _is_grpc_or_protobuf, grpc)
    found += _unreachable(graph, graph.products("feed"), _is_grpc_or_protobuf, grpc)
    # A fully static program cannot link them.
    found += _unreachable(graph, graph.products("core/agent"), _is_zeromq_or_curl, "ZeroMQ or curl")
    found += _unreachable(
        graph, graph.products("dashboard"), _is_cluster_or_feed, "//core/cluster or //feed"
    )
    found += _unreachable(graph, graph.products("dashboard/model"), _is_imgui, "Dear ImGui")
    return sorted(set(found))
