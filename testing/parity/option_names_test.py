"""The options of a cluster have the same names, in the same groups, in every language.

What the headers of _HEADERS have is looked for in Java's builders, Python's classes, the structs of C, the parameters
that a coordinator takes and, without groups, the flags of `millrace run`. What differs stands in _MISSING and _ADDED,
with its reason. So have the defaults that drivers in Java and Python need themselves.
"""

import ast
import json
import pathlib
import re
import subprocess
import unittest

_ROOT = pathlib.Path("docs/parity.md").resolve().parent.parent
_AGENT = "core/agent/millrace-agent"
_CLUSTER_HEADERS = ("millrace/cluster_options.h", "millrace/node_options.h", "millrace/restart_policy.h")
_HEADERS = (
    *_CLUSTER_HEADERS,
    "millrace/adopting_launcher.h",
    "millrace/adoption_options.h",
    "millrace/local_launcher.h",
    "millrace/secret_place.h",
    "millrace/sidecar.h",
)
_JAVA = "spark_connector/java/main/io/millrace/spark"
_PYTHON = "millrace/python/millrace/options.py"

# Struct of C++: struct of C, and where the coordinator's `start` has it, "[]" after a list.
_STRUCTS = {
    "NodeOptions": ("millrace_cluster_node_options", "node"),
    "FeedOptions": ("millrace_cluster_feed_options", "feed"),
    "FailureOptions": ("millrace_cluster_failure_options", "failure"),
    "RestartPolicy": ("millrace_restart_policy", "failure.restart"),
    "QuarantinePolicy": ("millrace_quarantine_policy", "failure.quarantine"),
    "ClusterOptions": ("millrace_cluster_options", ""),
    "ClusterObserver": ("millrace_cluster_observer", ""),
    "Sidecar": ("millrace_sidecar", "node.sidecars[]"),
    "AdoptingLauncherOptions": ("millrace_agents", None),
}
# It has none: Spark places nodes, and whoever drives a coordinator starts agents.
_NOT_ON_SPARK = ("AdoptingLauncherOptions",)
# Members that are structs of their own, whose members others have in their place, after a prefix.
_FLAT = {"AdoptingLauncherOptions": {"secret": ("SecretPlace", "secret_"), "adoption": ("AdoptionOptions", "")}}
_DURATIONS = (
    "stop_grace", "stop_timeout", "reservation_timeout", "window", "duration", "initial_backoff", "max_backoff"
)  # fmt: skip

_SECONDS = {"Seconds": 1, "Minutes": 60, "Hours": 3600}

_OF_NODES = "agents are told, in their own `start`"
_OF_FEEDERS = "a feeder of C++ is told; Spark's has CURVE for other hosts alone"
_OF_SPARK = "only Spark has it"
_OF_THIS_PROCESS = "the process that drives the cluster does it"
_OF_PROGRAMS = "the program, which is an argument of its own in C++"
_OF_COORDINATORS = "of the coordinator, which C++ drives by itself"
_OF_LAUNCHERS = "the launcher, which is an argument of its own in C++"
_OF_FED_CLUSTERS = "`millrace run` feeds nobody"
_OF_GROUPS = "flags have no groups"
_OF_DRIVERS = "drivers in C++ have it"
_OF_ERRORS = "the error of the call says it"
_OF_QUARANTINE = "--quarantine FAILURES/TIME"

# (where, struct): {name: why it is missing there, or is there alone}.
_MISSING = {
    ("json", "NodeOptions"): {"working_dir": _OF_NODES},
    ("json", "FeedOptions"): {"curve_only": _OF_FEEDERS},
    ("json", "ClusterOptions"): {
        "coordinator_port_range": "it is the coordinator's own port_range",
        "observer": "events are lines; output_events and metric_events ask for them",
        "progress": _OF_THIS_PROCESS,
        "resume": _OF_DRIVERS,
        "stop_request": "a request of its own",
    },
    ("json", "ClusterObserver"): {
        **dict.fromkeys(("on_slot", "on_failure"), "always told"),
        "on_restart": "a warning of the coordinator",
        **dict.fromkeys(("on_bytes", "on_operator_stop"), _OF_DRIVERS),
    },
    ("java", "FeedOptions"): {"curve_only": _OF_FEEDERS},
    ("java", "ClusterOptions"): {
        "cluster_file": "always written on Spark",
        "progress": "Spark has its own",
        "resume": "a driver on Spark takes its executors, and so its agents, along",
        "stop_request": "a thread is interrupted",
    },
    ("java", "ClusterObserver"): {
        **dict.fromkeys(("on_failure", "on_operator_stop"), _OF_ERRORS),
        "on_restart": "a warning of the coordinator",
        "on_bytes": _OF_DRIVERS,
    },
    ("python", "ClusterOptions"): {"resume": _OF_DRIVERS, "stop_request": "Ctrl-C"},
    ("python", "ClusterObserver"): {
        **dict.fromkeys(("on_failure", "on_operator_stop"), _OF_ERRORS),
        "on_bytes": _OF_DRIVERS,
    },
    ("python", "AdoptingLauncherOptions"): {
        **dict.fromkeys(("settle", "replacement_timeout", "wait_when_busy"), _OF_DRIVERS),
        "on_note": "a warning on stderr",
    },
    ("c", "NodeOptions"): {"release_port": "keep_port: zero is the default"},
    ("c", "ClusterOptions"): {
        "cluster_file": "no_cluster_file: zero is the default",
        "resume": _OF_DRIVERS,
        "stop_request": "stop: a millrace_stop",
    },
    ("c", "ClusterObserver"): {
        "on_operator_stop": _OF_ERRORS,
        "on_bytes": _OF_DRIVERS,
    },
    ("c", "AdoptingLauncherOptions"): {
        **dict.fromkeys(("settle", "replacement_timeout", "wait_when_busy"), _OF_DRIVERS),
        "on_note": "a warning on stderr",
    },
    ("c", "LocalLauncherOptions"): dict.fromkeys(("stdin_fd", "stdin_executor"), _OF_DRIVERS),
    ("flags", "all"): {
        **dict.fromkeys(("node", "failure", "restart", "resume"), _OF_GROUPS),
        **dict.fromkeys(
            ("input_mode", "feed", "queues", "port_range", "budget_bytes", "curve_only", "shared_memory"),
            _OF_FED_CLUSTERS,
        ),
        **dict.fromkeys(
            (
                "coordinator_port_range", "cluster_file", "default_fs", "gpus_by_job", "log_bytes_per_second",
                "sidecars", "restart_by_job", "settle", "replacement_timeout", "wait_when_busy",
            ),
            _OF_DRIVERS,
        ),
        **dict.fromkeys(("failures", "window", "duration"), _OF_QUARANTINE),
        **dict.fromkeys(("observer", "on_note"), "the terminal"),
        "release_port": "--keep-port: a flag that is not given is false",
        "progress": "--quiet",
        "stop_request": "Ctrl-C",
        "fixed_members": "known of the source that --on names",
    },
}
_ADDED = {
    ("json", "ClusterOptions"): {
        **dict.fromkeys(("program", "shipped", "args", "env"), _OF_PROGRAMS),
        **dict.fromkeys(("output_events", "metric_events"), "what the observer hears"),
        **dict.fromkeys(
            ("cluster_id", "bind_address", "port", "port_range", "advertise_host"),
            _OF_COORDINATORS,
        ),
    },
    ("java", "NodeOptions"): {"port_range": _OF_SPARK},
    ("java", "ClusterOptions"): {"driver_ps_nodes": _OF_SPARK, "nodes_per_executor": _OF_SPARK},
    ("python", "NodeOptions"): {"port_range": _OF_SPARK},
    ("python", "ClusterOptions"): {
        "driver_ps_nodes": _OF_SPARK,
        "nodes_per_executor": _OF_SPARK,
        "args": _OF_PROGRAMS,
        "env": _OF_PROGRAMS,
        "agents": _OF_LAUNCHERS,
    },
    ("python", "AdoptingLauncherOptions"): {"resolver": _OF_LAUNCHERS},
    ("c", "NodeOptions"): {"keep_port": "release_port"},
    ("c", "ClusterOptions"): {
        **dict.fromkeys(("program", "args", "env"), _OF_PROGRAMS),
        **dict.fromkeys(("agents", "agent_path"), _OF_LAUNCHERS),
        "no_cluster_file": "cluster_file",
        "stop": "stop_request",
    },
    ("c", "AdoptingLauncherOptions"): {"resolver": _OF_LAUNCHERS, "ship": _OF_PROGRAMS},
    ("flags", "all"): {
        **dict.fromkeys(("on", "members"), _OF_LAUNCHERS),
        **dict.fromkeys(("env", "ship"), _OF_PROGRAMS),
        "keep_port": "release_port",
        "quiet": "progress",
        "output": "what becomes of the output that an observer hears",
        **dict.fromkeys(("timestamp_output", "color"), "the same"),
        "stdin": "stdin_fd and stdin_executor of the launcher",
        "metrics_": "what the options of `millrace metrics` begin with here",
        "timeout": "of the whole run, which ends by itself",
        "resumable": "state_folder of the resume options",
        "resume_within": "lease of the resume options",
        "on_sigterm": "whether the command calls Request() or Leave() of its stop_request",
    },
}
# An argument before the options.
_ARGUMENTS = {("python", "ClusterOptions"): {"num_executors"}}


def _text(path):
    return (_ROOT / path).read_text(encoding="utf-8")


def _members(text, head):
    """Names of the members of the struct that begins with `head`, in C or C++."""
    found = re.search(rf"^{re.escape(head)} \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise AssertionError(f"there is no {head}")
    body = re.sub(r"//[^\n]*", "", re.sub(r'"[^"\n]*"', '""', found.group(1)))
    names = []
    for statement in body.split(";"):
        declared = statement.split("=")[0].strip()  # "int gpus", "T* const* list", "int64_t reserved[4]"
        member = re.search(r"\(\*(\w+)\)\(", declared) or re.search(r"[\s*>](\w+)(?:\[\d+\])?$", declared)
        if member is not None and not declared.startswith("friend "):
            names.append(member.group(1))
    return names


def _cpp(struct):
    text = "\n".join(_text(header) for header in _HEADERS)
    names = set(_members(text, f"struct {struct}"))
    for name, (inner, prefix) in _FLAT.get(struct, {}).items():
        names.remove(name)
        names |= {prefix + member for member in _cpp(inner)}
    return names


def _without_unit(names):
    """`stop_grace` of stop_grace_ms."""
    return {re.sub(r"_ms$", "", name) for name in names}


def _java(struct):
    members = {"ClusterObserver": r"^  default void (\w+)\(", "Sidecar": r"^  private final [^;]* (\w+);"}
    pattern = members.get(struct, r"^    public Builder (\w+)\(")
    names = re.findall(pattern, _text(f"{_JAVA}/{struct}.java"), re.MULTILINE)
    return {re.sub("[A-Z]", lambda letter: "_" + letter.group().lower(), name) for name in names}


def _python_classes():
    module = ast.parse(_text(_PYTHON))
    return {
        node.name: {each.target.id for each in node.body if isinstance(each, ast.AnnAssign)}
        for node in module.body
        if isinstance(node, ast.ClassDef)
    }


def _python(struct):
    classes = _python_classes()
    if struct == "ClusterOptions":
        return classes[struct] | classes["LocalOptions"] | classes["SparkOptions"]
    return classes["Agents" if struct == "AdoptingLauncherOptions" else struct]


def _c(struct):
    names = _members(_text("millrace/c/cluster.h"), f"typedef struct {_STRUCTS[struct][0]}")
    counts = {name for name in names if name.startswith("num_") and name[4:] in names}
    return _without_unit(set(names) - counts - {"struct_size", "reserved", "user_data"})


def _flags():
    """Those of `millrace run`, without those that every resolver has besides."""
    body = r"\(.*?\) \{\n(.*?)^\}"
    texts = [
        re.search(rf"^(?:void|CLI::App\*) {function}{body}", _text(path), re.MULTILINE | re.DOTALL).group(1)
        for path, function in (
            ("core/cli/command_line.cc", "Parser::AddProgram"),
            ("core/cli/command_line.cc", "Parser::AddRun"),
            ("core/cli/command_line.cc", "Parser::AddQuarantine"),
            ("core/cli/resolve_flags.cc", "ResolveFlags::AddOnTo"),
            ("core/cli/resolve_flags.cc", "ResolveFlags::AddPollingTo"),
        )
    ]
    return {name.replace("-", "_") for name in re.findall(r'"(?:-\w,)?--([a-z-]+)"', "\n".join(texts))}


# Without end. Values of defaults are what Python has.
_FOREVER = None


def _cpp_constants():
    """By name: the defaults that several structs of C++ have."""
    constant = r"^inline constexpr \S+ (k\w+)(?:\[\])? = (.*);"
    return dict(re.findall(constant, _text("millrace/option_defaults.h"), re.MULTILINE))


def _cpp_value(text):
    text = re.sub(r"\bkDefault\w+", lambda name: _cpp_constants()[name.group()], text)
    if text == "absl::InfiniteDuration()":
        return _FOREVER
    duration = re.fullmatch(r"absl::(Seconds|Minutes|Hours)\((\d+)\)", text)
    if duration is not None:
        return int(duration.group(2)) * _SECONDS[duration.group(1)]
    text = re.sub(r"int64_t\{(\d+)\}", r"\1", text)
    return _literal({"true": "True", "false": "False"}.get(text, re.sub(r"^\{(.*)\}$", r"(\1)", text)))


def _java_value(text):
    if text == "Durations.FOREVER":
        return _FOREVER
    duration = re.fullmatch(r"Duration\.of(Seconds|Minutes|Hours)\((\d+)\)", text)
    if duration is not None:
        return int(duration.group(2)) * _SECONDS[duration.group(1)]
    text = re.sub(r"^Collections\.unmodifiableList\(Arrays\.asList(\(.*\))\)$", r"\1", text)
    return _literal({"true": "True", "false": "False"}.get(text, re.sub(r"(\d)L\b", r"\1", text)))


def _literal(text):
    """The value of `256 << 20`, `"input"` or `("input", "output")`."""
    shifted = re.fullmatch(r"(\d+) << (\d+)", text)
    return int(shifted.group(1)) << int(shifted.group(2)) if shifted else ast.literal_eval(text)


def _cpp_defaults():
    """By name: what TrainOptions, InferenceOptions and ShutdownOptions have, and what drivers need besides."""
    texts = {}
    for header, struct, names in (
        ("millrace/cluster.h", "TrainOptions", None),
        ("millrace/cluster.h", "InferenceOptions", None),
        ("millrace/cluster.h", "ShutdownOptions", None),
        ("millrace/node_options.h", "FeedOptions", ("queues", "budget_bytes", "shared_memory")),
        ("millrace/node_options.h", "FailureOptions", ("stop_grace",)),
    ):
        body = re.search(rf"^struct {struct} \{{\n(.*?)^\}}", _text(header), re.MULTILINE | re.DOTALL).group(1)
        for name, text in re.findall(r"^  [\w:<>]+\*? (\w+) = (.*?);", body, re.MULTILINE):
            if name == "stop_request" or (names is not None and name not in names):
                continue
            if texts.setdefault(name, text) != text:
                raise AssertionError(f"{struct} has {name} = {text}, another struct {texts[name]}")
    return {name: _cpp_value(text) for name, text in texts.items()}


def _java_defaults():
    found = re.findall(r"static final \S+ (\w+) = (.*);", _text(f"{_JAVA}/internal/base/Defaults.java"))
    return {name.lower(): _java_value(text) for name, text in found}


def _python_defaults():
    members = {}
    exec(_text("millrace/python/millrace/_defaults.py"), members)  # it has constants alone
    return {name.lower(): value for name, value in members.items() if name.isupper()}


def _java_literals(text):
    """The members with a default of C++ that have a value of their own."""
    found = re.findall(r"^    private [\w.]+ (\w+) = (.*);", text, re.MULTILINE)
    names = {re.sub("_(.)", lambda letter: letter.group(1).upper(), name) for name in _cpp_defaults()}
    return [
        name for name, value in found if re.sub("Millis$", "", name) in names and not value.startswith("Defaults.")
    ]


def _python_literals(text):
    """The parameters with a default of C++ that have a value of their own."""
    literals = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        arguments = function.args
        positional = arguments.args[len(arguments.args) - len(arguments.defaults) :]
        pairs = [*zip(positional, arguments.defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
        for argument, default in pairs:
            if argument.arg in _cpp_defaults() and isinstance(default, (ast.Constant, ast.BinOp)):
                literals.append(argument.arg)
    return literals


class Coordinator:
    """Tells which members its `start` knows: an unknown one is answered with their names."""

    def __init__(self):
        self._process = subprocess.Popen(
            [_AGENT, "coordinator", "--parent=stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._process.stdout.readline()

    def end(self):
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def names(self, path):
        params = {"?": 1}
        for name in reversed([each for each in path.split(".") if each]):
            params = {name[:-2]: [{**params, "name": "s", "program": "p"}]} if name.endswith("[]") else {name: params}
        request = {"id": 1, "method": "start", "params": {"program": "/bin/true", **params}}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        message = json.loads(self._process.stdout.readline())["error"]["message"]
        return _without_unit(message.split(" has ")[1].split(", "))


class OptionNamesTest(unittest.TestCase):
    def _compare(self, where, struct, found, expected=None):
        missing = set(_MISSING.get((where, struct), {}))
        added = set(_ADDED.get((where, struct), {}))
        expected = (expected or _cpp(struct)) - _ARGUMENTS.get((where, struct), set())
        self.assertLessEqual(missing, expected, f"{where}, {struct}: C++ does not have what should be missing")
        self.assertEqual(found, (expected - missing) | added, f"{where}, {struct}")

    def test_the_members_of_cpp_are_read(self):
        self.assertEqual(_cpp("RestartPolicy"), {"max_restarts", "window", "initial_backoff", "max_backoff"})
        self.assertLessEqual({"node", "feed", "failure", "observer", "num_ps"}, _cpp("ClusterOptions"))
        self.assertLessEqual({"gpus_by_job", "sidecars"}, _cpp("NodeOptions"))
        self.assertLessEqual({"on_output", "on_bytes"}, _cpp("ClusterObserver"))
        self.assertLessEqual({"secret_file", "secret_dir", "settle", "on_note"}, _cpp("AdoptingLauncherOptions"))
        durations = re.findall(r"absl::Duration (\w+) =", "\n".join(_text(header) for header in _CLUSTER_HEADERS))
        self.assertEqual(set(durations), set(_DURATIONS))

    def test_java_has_them(self):
        for struct in _STRUCTS:
            if struct not in _NOT_ON_SPARK:
                self._compare("java", struct, _java(struct))

    def test_python_has_them(self):
        for struct in _STRUCTS:
            self._compare("python", struct, _python(struct))
        durations = re.search(r"_DURATIONS = (\(.*?\))", _text("millrace/python/millrace/_jvm.py"), re.DOTALL).group(1)
        self.assertEqual(set(ast.literal_eval(durations)), set(_DURATIONS), "they become java.time.Duration")

    def test_the_defaults_that_others_need_are_those_of_cpp(self):
        self.assertEqual(_java_defaults(), _cpp_defaults())
        # Which leaves these to the library.
        expected = _cpp_defaults()
        del expected["budget_bytes"], expected["shared_memory"], expected["stop_grace"]
        self.assertEqual(_python_defaults(), expected)

    def test_java_and_python_say_a_default_once(self):
        for struct in ("TrainOptions", "InferenceOptions", "ShutdownOptions", "internal/feed/SessionOptions"):
            self.assertEqual(_java_literals(_text(f"{_JAVA}/{struct}.java")), [], struct)
        for name in ("cluster", "local_cluster", "spark_cluster"):
            self.assertEqual(_python_literals(_text(f"millrace/python/millrace/{name}.py")), [], name)

    def test_a_default_that_is_said_again_is_found(self):
        self.assertEqual(_java_literals('    private String queue = "input";\n'), ["queue"])
        self.assertEqual(_java_literals("    private String queue = Defaults.QUEUE;\n    private long row;\n"), [])
        self.assertEqual(_python_literals('def f(rows, queue="a", *, batch_bytes=1): ...'), ["queue", "batch_bytes"])
        self.assertEqual(_python_literals("def train(queue=_defaults.QUEUE, num_partitions=None): ..."), [])

    def test_c_has_them(self):
        for struct in _STRUCTS:
            self._compare("c", struct, _c(struct))
        missing = _MISSING["c", "LocalLauncherOptions"].keys()
        self.assertEqual(_cpp("LocalLauncherOptions") - _c("ClusterOptions"), missing)

    def test_the_command_line_has_them(self):
        self.assertLessEqual({"num_executors", "quarantine", "secret_file", "poll_interval"}, _flags())
        structs = [struct for struct in _STRUCTS if struct not in ("ClusterObserver", "Sidecar")]
        self._compare("flags", "all", _flags(), set().union(*(_cpp(struct) for struct in structs)))

    def test_the_coordinator_has_them(self):
        coordinator = Coordinator()
        self.addCleanup(coordinator.end)
        for struct, (_, path) in _STRUCTS.items():
            if struct in _NOT_ON_SPARK:
                continue
            names = coordinator.names(path)
            if struct == "ClusterObserver":
                names = {"on_" + name[: -len("_events")] for name in names if name.endswith("_events")}
            self._compare("json", struct, names)


if __name__ == "__main__":
    unittest.main()
