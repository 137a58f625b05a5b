"""What a cluster is made of."""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Type, TypedDict, Union

from millrace.error import InvalidArgumentError, NotFoundError

__all__ = [
    "Agents",
    "ClusterOptions",
    "InputMode",
    "LocalOptions",
    "NodeProgram",
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


@dataclasses.dataclass(frozen=True)
class RestartPolicy:
    """How often a node that failed is started again, and how soon; times in seconds."""

    max_restarts: int = 0  # within the window; the next failure is the cluster's
    window: Optional[float] = None  # restarts longer ago do not count any more; None: all count
    initial_backoff: float = 1.0  # doubled with every failure that follows on a short run
    max_backoff: float = 30.0


@dataclasses.dataclass(frozen=True)
class QuarantinePolicy:
    """A host on which so many nodes failed within the window gets no restarts for the duration; seconds."""

    failures: int = 3
    window: float = 60.0
    duration: float = 300.0


@dataclasses.dataclass(frozen=True)
class Sidecar:
    """A program beside one node: started once the node runs, killed with it. How it ends is no failure."""

    name: str  # 1 to 40 of a-z 0-9 -
    program: str  # a path on the node's host, or a name that is looked up in PATH there
    args: Sequence[str] = ()  # "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced
    node: str = ""  # "worker:0"; "": the chief or master, worker:0 in clusters without
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Agents:
    """Agents that listen already (`millrace-agent agent --listen`), on other hosts or in pods: a resolver says where.

        Agents({"type": "static", "cluster_spec": {"worker": ["h1:7077", "h2:7077"]}}, secret_file="agents.json")

    A NodeProgram.file is sent to them; any other program must be there.
    """

    resolver: Union[str, Mapping[str, Any]]  # its description, as JSON or as the dict that JSON makes of it
    secret_file: Optional[str] = None  # the secret that the agents have: one of a file and a folder
    secret_dir: Optional[str] = None
    bind_address: Optional[str] = None  # where the coordinator listens; None: "0.0.0.0"
    driver_host: Optional[str] = None  # by which agents reach it; None: as they see this host
    poll_interval: float = 5.0  # seconds; how often a source that cannot push is asked
    fixed_members: bool = False  # a node without an agent is an error at once


class ClusterOptions(TypedDict, total=False):
    """What every cluster may be given; times are in seconds, and math.inf is without end. An option that is not
    given, or None, has the default of ClusterOptions in C++ and Java."""

    num_ps: int  # the first nodes are parameter servers
    master_node: str  # "chief" or "master": the role of the next one
    eval_node: bool  # the one after that evaluates
    input_mode: InputMode  # DIRECT
    queues: Sequence[str]  # ("input", "output", "error")
    log_dir: str  # of the nodes' output; none is kept without
    tensorboard: bool  # on log_dir, beside the first fed node
    release_port: bool  # True: a node's reserved port is closed just before it starts. False: it inherits it
    reservation_timeout: float  # 600: how long the start may take
    gpus_per_node: int
    gpus_by_job: Mapping[str, int]  # of the jobs that differ
    restart: RestartPolicy  # of every node
    restart_by_job: Mapping[str, RestartPolicy]  # of the jobs that differ
    quarantine: QuarantinePolicy
    sidecars: Sequence[Sidecar]
    default_fs: str
    working_dir: str
    feed_port_range: str  # "9000-9100"
    coordinator_port_range: str
    feed_budget_bytes: int  # 256 MiB: what one node may hold of the feed
    stop_grace: float  # 5: how long a node that was asked to stop may take
    stop_timeout: float  # 10: how long a node may stay stopped by a signal
    env: Mapping[str, str]  # added to the nodes' environment


class LocalOptions(ClusterOptions, total=False):
    """And those of a cluster that this process drives."""

    agents: Agents  # which run the nodes, instead of this machine
    args: Sequence[str]  # of a program that is a script or an executable
    cluster_file: bool  # True: the CLI and the dashboard find the cluster
    progress: bool  # what happens, on stderr; without, if that is a terminal
    on_output: Callable[[str, str], object]  # (node, line); on another thread, and must not call the cluster
    on_metric: Callable[[str, str, int, float], object]  # (node, name, step, value); likewise


class SparkOptions(ClusterOptions, total=False):
    """And those of a cluster on Spark."""

    driver_ps_nodes: bool  # parameter servers run on the driver's host
    feed_shared_memory: bool  # False: executors write rows into memory of nodes of their host
    nodes_per_executor: int  # at most
    port_range: str  # "8000-8100": of the nodes' reserved ports


def check_names(options: Mapping[str, Any], known: Type[ClusterOptions], where: str) -> None:
    """Raises TypeError, as Python does for an argument that no function has."""
    names = known.__optional_keys__  # type: ignore[attr-defined]  # mypy takes it for a plain dict
    for name in options:
        if name not in names:
            raise TypeError(f"a cluster {where} has no option {name!r}; it has {', '.join(sorted(names))}")


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
