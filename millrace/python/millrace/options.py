"""What a cluster is made of."""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import numbers
import os
import sys
from typing import (
    Any,
    Callable,
    Dict,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from millrace.error import InvalidArgumentError, NotFoundError

__all__ = [
    "Agents",
    "ClusterObserver",
    "ClusterOptions",
    "FailureOptions",
    "FeedOptions",
    "InputMode",
    "LocalOptions",
    "NodeInfo",
    "NodeOptions",
    "NodeProgram",
    "NodeRestart",
    "Program",
    "QuarantinePolicy",
    "RestartPolicy",
    "Sidecar",
    "SparkOptions",
]


class InputMode(enum.Enum):
    """Where nodes get their rows from."""

    DIRECT = "DIRECT"  # they read their own data, and on Spark they hold their slots
    FEED = "FEED"  # the driver, or Spark, feeds chief, master and workers


class NodeProgram:
    """The program that every node runs: any executable, built on the SDK or not."""

    def __init__(self, program: str, shipped: bool, args: Sequence[str], env: Optional[Mapping[str, str]] = None):
        self.program = program
        self.shipped = shipped
        self.args = tuple(str(arg) for arg in args)
        self.env: Dict[str, str] = dict(env or {})

    def __repr__(self) -> str:
        return f"<millrace.NodeProgram {' '.join([self.program, *self.args])}>"

    @classmethod
    def file(cls, path: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A file of the driver's host, which is sent to every executor and checked there."""
        return cls(path, True, args, env)

    @classmethod
    def path(cls, path: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A program that is on every host at that path."""
        return cls(path, False, args, env)

    @classmethod
    def python(cls, script: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A Python script, at that path on every host, for the interpreter that runs this one."""
        return cls(sys.executable, False, ["-u", script, *args], env)


class _Options:
    """Members that are named. One that is not given is None, and has the default of C++, which its comment names:
    it is said in millrace/cluster_options.h and millrace/restart_policy.h."""

    def __new__(cls, *_: Any, **members: Any) -> Any:
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]  # its subclasses are
        for name in members:
            if name not in names:
                raise TypeError(f"{cls.__name__} has no member {name!r}; it has {', '.join(names)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            check_type(f"{type(self).__name__}'s {name}", getattr(self, name), kind)


@dataclasses.dataclass(frozen=True)
class RestartPolicy(_Options):
    """How often a node that failed is started again, and how soon; times in seconds."""

    max_restarts: Optional[int] = None  # within the window; the next failure is the cluster's. 0
    window: Optional[float] = None  # restarts longer ago do not count any more. All count
    initial_backoff: Optional[float] = None  # doubled with every failure that follows on a short run. 1
    max_backoff: Optional[float] = None  # 30


@dataclasses.dataclass(frozen=True)
class QuarantinePolicy(_Options):
    """A host on which so many nodes failed within the window gets no restarts for the duration; seconds."""

    failures: Optional[int] = None  # 3
    window: Optional[float] = None  # 60
    duration: Optional[float] = None  # 300


@dataclasses.dataclass(frozen=True)
class Sidecar(_Options):
    """A program beside one node: started once the node runs, killed with it. How it ends is no failure."""

    name: str  # 1 to 40 of a-z 0-9 -
    program: str  # a path on the node's host, or a name that is looked up in PATH there
    args: Sequence[str] = ()  # "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced
    node: str = ""  # "worker:0"; "": the chief or master, worker:0 in clusters without
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class NodeOptions(_Options):
    """What every node gets, and what runs beside it."""

    working_dir: Optional[str] = None  # default: this process's, or an executor's own folder
    default_fs: Optional[str] = None  # default: "file://"; on Spark that of its Hadoop configuration
    release_port: Optional[bool] = None  # close a node's reserved port just before it starts; default: True
    gpus_per_node: Optional[int] = None  # default: 0, GPUs are left alone
    gpus_by_job: Optional[Mapping[str, int]] = None  # of the jobs that differ
    log_bytes_per_second: Optional[int] = None  # of its output that a node may send to the observer; default: 65536
    sidecars: Optional[Sequence[Sidecar]] = None
    port_range: Optional[str] = None  # on Spark: "8000-8100", of the nodes' reserved ports; default: any


@dataclasses.dataclass(frozen=True)
class FeedOptions(_Options):
    """How nodes are fed, with InputMode.FEED."""

    queues: Optional[Sequence[str]] = None  # default: ("input", "output", "error")
    port_range: Optional[str] = None  # "9000-9100": where nodes are fed; default: any
    budget_bytes: Optional[int] = None  # what one node may hold of the feed; default: 256 MiB
    curve_only: Optional[bool] = None  # feed nodes of this host over CURVE too; default: False
    shared_memory: Optional[bool] = None  # feeders write rows into memory of nodes of their host; default: True


@dataclasses.dataclass(frozen=True)
class FailureOptions(_Options):
    """What becomes of nodes that fail, and how long one may take to end; times in seconds."""

    restart: Optional[RestartPolicy] = None  # of every node; default: none is started again
    restart_by_job: Optional[Mapping[str, RestartPolicy]] = None  # of the jobs that differ
    quarantine: Optional[QuarantinePolicy] = None
    stop_grace: Optional[float] = None  # how long a node that was asked to stop may take; default: 5
    stop_timeout: Optional[float] = None  # how long a node may stay stopped by a signal; default: 10


@dataclasses.dataclass(frozen=True)
class NodeInfo:
    """One node of a cluster, as it was when it was asked for, or told of."""

    executor_id: int
    job_name: str
    task_index: int
    state: str  # "running"
    attempt: int
    host: str
    address: str  # "host:port", its reserved port
    pid: int  # 0 if it does not run

    @property
    def name(self) -> str:
        """ "worker:1" """
        return f"{self.job_name}:{self.task_index}"


@dataclasses.dataclass(frozen=True)
class NodeRestart:
    """A node failed, and another attempt of it follows."""

    node: str  # "worker:1"
    attempt: int  # that failed
    exit_status: str  # "exit code 3", "signal 9 (SIGKILL)"; "" if no process ended
    stderr_lines: Sequence[str]  # its last, oldest first
    after: float  # seconds from the failure to the next attempt
    used: int  # restarts, this one included, within the policy's window
    max: int  # of the policy


@dataclasses.dataclass(frozen=True)
class ClusterObserver(_Options):
    """Hears what nodes write and measure, how they are, and that one is started again, on another thread; must not
    call the cluster."""

    on_output: Optional[Callable[[str, str], object]] = None  # (node, line)
    on_metric: Optional[Callable[[str, str, int, float], object]] = None  # (node, name, step, value)
    on_restart: Optional[Callable[[NodeRestart], object]] = None  # None: a warning on stderr. Not on Spark
    on_slot: Optional[Callable[[NodeInfo], object]] = None  # its state, address or process has changed


@dataclasses.dataclass(frozen=True)
class Agents(_Options):
    """Agents that listen already (`millrace-agent agent --listen`), on other hosts or in pods: a resolver says where.

        Agents({"type": "static", "cluster_spec": {"worker": ["h1:7077", "h2:7077"]}}, secret_file="agents.json")

    A NodeProgram.file is sent to them; any other program must be there.
    """

    resolver: Union[str, Mapping[str, Any]]  # its description, as JSON or as the dict that JSON makes of it
    secret_file: Optional[str] = None  # the secret that the agents have: one of a file and a folder
    secret_dir: Optional[str] = None
    bind_address: Optional[str] = None  # where the coordinator listens; None: "0.0.0.0"
    driver_host: Optional[str] = None  # by which agents reach it; None: as they see this host
    poll_interval: Optional[float] = None  # seconds; how often a source that cannot push is asked. 5
    fixed_members: bool = False  # a node without an agent is an error at once


class ClusterOptions(TypedDict, total=False):
    """What every cluster may be given, in the groups of C++; times are in seconds, and math.inf is without end. What
    is not given, or None, has the default of C++."""

    name: str  # what people see of it beside its id, at most 64 bytes
    num_ps: int  # the first nodes are parameter servers
    master_node: str  # "chief" or "master": the role of the next one
    eval_node: bool  # the one after that evaluates
    input_mode: InputMode  # DIRECT
    log_dir: str  # of the nodes' output; none is kept without
    tensorboard: bool  # on log_dir, beside the first fed node
    reservation_timeout: float  # 600: how long the start may take
    node: NodeOptions
    feed: FeedOptions
    failure: FailureOptions
    coordinator_port_range: str
    env: Mapping[str, str]  # added to the program's environment
    observer: ClusterObserver


class LocalOptions(ClusterOptions, total=False):
    """And those of a cluster that this process drives."""

    agents: Agents  # which run the nodes, instead of this machine
    args: Sequence[str]  # of a program that is a script or an executable
    cluster_file: bool  # True: the CLI and the dashboard find the cluster
    progress: bool  # what happens, on stderr; without, if that is a terminal


class SparkOptions(ClusterOptions, total=False):
    """And those of a cluster on Spark."""

    driver_ps_nodes: bool  # parameter servers run on the driver's host
    nodes_per_executor: int  # at most


_HERE = "on this machine"
_ON_SPARK = "on Spark"
_GROUPS = {
    "node": NodeOptions, "feed": FeedOptions, "failure": FailureOptions, "observer": ClusterObserver
}  # fmt: skip
# Members of groups that one kind of cluster has not.
_OF_THE_OTHER = {_HERE: ("node.port_range",), _ON_SPARK: ("feed.curve_only", "observer.on_restart")}


def local_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Those that are given; raises TypeError for what no cluster on this machine has."""
    return _checked(options, LocalOptions, _HERE)


def spark_options(options: Mapping[str, Any]) -> Dict[str, Any]:
    """The same on Spark."""
    return _checked(options, SparkOptions, _ON_SPARK)


def given(group: Any) -> Dict[str, Any]:
    """The members of a group that are given, by name."""
    members = {field.name: getattr(group, field.name) for field in dataclasses.fields(group)}
    return {name: value for name, value in members.items() if value is not None}


def _checked(options: Mapping[str, Any], known: Type[ClusterOptions], where: str) -> Dict[str, Any]:
    kinds = get_type_hints(known)
    for name, value in options.items():
        if name not in kinds:
            raise TypeError(f"a cluster {where} has no option {name!r}; {_place_of(name, kinds)}")
        check_type(name, value, kinds[name])
    for path in _OF_THE_OTHER[where]:
        group, member = path.split(".")
        if getattr(options.get(group), member, None) is not None:
            raise TypeError(f"a cluster {where} has no option {path}")
    return {name: value for name, value in options.items() if value is not None}


def _place_of(name: str, kinds: Mapping[str, Any]) -> str:
    for group, kind in _GROUPS.items():
        if group in kinds and name in [field.name for field in dataclasses.fields(kind)]:
            return f"it is in a group: {group}=millrace.{kind.__name__}({name}=...)"
    return f"it has {', '.join(sorted(kinds))}"


def check_type(what: str, value: Any, kind: Any) -> None:
    """Raises TypeError unless the value is None or of that kind."""
    if value is not None and not _is_a(value, kind):
        raise TypeError(f"{what} is {value!r}, of type {type(value).__name__}: it must be {_name_of(kind)}")


def _is_a(value: Any, kind: Any) -> bool:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin is Union:
        return any(_is_a(value, each) for each in arguments)
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is collections.abc.Mapping:
        key, member = arguments
        return isinstance(value, collections.abc.Mapping) and all(
            _is_a(each, key) and _becomes_a(value[each], member) for each in value
        )
    if origin is collections.abc.Sequence:
        is_list = isinstance(value, collections.abc.Collection) and not isinstance(value, (str, bytes))
        return is_list and all(_becomes_a(each, arguments[0]) for each in value)
    if kind is InputMode:
        return isinstance(value, InputMode) or value in [mode.value for mode in InputMode]
    if kind is str:
        return isinstance(value, (str, os.PathLike))
    if kind in (int, bool):
        return isinstance(value, numbers.Integral)
    return isinstance(value, numbers.Real if kind is float else kind)


def _becomes_a(value: Any, kind: Any) -> bool:
    """In lists and dicts of texts 5 is as good as "5"."""
    return _is_a(value, kind) or (kind is str and isinstance(value, numbers.Number))


def _name_of(kind: Any) -> str:
    if get_origin(kind) is Union:
        return " or ".join(_name_of(each) for each in get_args(kind) if each is not type(None))
    if get_origin(kind) is not None:
        return str(kind).replace("typing.", "")
    name: str = kind.__name__
    return f"millrace.{name}" if kind.__module__.startswith("millrace") else name


# NodeProgram; or, on this machine: a script ("train.py"), an executable, or a function of one node, that a
# file has at its top level.
Program = Union[NodeProgram, str, "os.PathLike[str]", Callable[[Any], object]]


def local_program(program: Program, args: Sequence[str]) -> NodeProgram:
    """What `program` means on this machine."""
    if isinstance(program, NodeProgram):
        if args:
            raise InvalidArgumentError("INVALID_ARGUMENT", "args= is for scripts; a NodeProgram has arguments")
        return program
    if callable(program):
        return _function_program(program, args)
    path = os.fspath(program)
    if not path.endswith(".py"):
        return NodeProgram.path(path, *args)
    if not os.path.exists(path):
        raise NotFoundError("NOT_FOUND", f"there is no {os.path.abspath(path)}; Cluster.run needs a node's program")
    return NodeProgram.python(os.path.abspath(path), *args)


def _function_program(function: Callable[..., object], args: Sequence[str]) -> NodeProgram:
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", "")
    main = sys.modules.get("__main__")
    where = getattr(main, "__file__", "") if module == "__main__" else module
    if not where or not name or "<" in name:
        raise InvalidArgumentError(
            "INVALID_ARGUMENT",
            f"{name or function!r} is in no file that a node could import: write it at the top level of a file, and "
            'give its function, or the file: Cluster.run("train.py")',
        )
    if args:
        raise InvalidArgumentError("INVALID_ARGUMENT", "args= is for scripts; a function takes its node alone")
    if module == "__main__":
        where = os.path.abspath(where)
    folders = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    return NodeProgram.path(
        sys.executable, "-u", "-m", "millrace._function", where, name, env={"PYTHONPATH": folders}
    )
