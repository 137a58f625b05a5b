"""What a cluster is made of."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any, Dict, Mapping, Optional, Sequence


class InputMode(enum.Enum):
    """Where nodes get their rows from."""

    DIRECT = "DIRECT"  # they read their own data, and hold their Spark slots
    FEED = "FEED"  # Spark feeds chief, master and workers


class NodeProgram:
    """The program that every node runs: any executable, built on the SDK or not."""

    def __init__(self, program: str, shipped: bool, args: Sequence[str], env: Optional[Mapping[str, str]] = None):
        self.program = program
        self.shipped = shipped
        self.args = tuple(str(arg) for arg in args)
        self.env: Dict[str, str] = dict(env or {})

    @classmethod
    def file(cls, path: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A file of the driver's host, which is sent to every executor and checked there."""
        return cls(path, True, args, env)

    @classmethod
    def path(cls, path: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A program that is on every host at that path."""
        return cls(path, False, args, env)

    def _to_java(self, gateway: Any) -> Any:
        args = string_array(gateway, self.args)
        program = gateway.jvm.io.millrace.spark.NodeProgram
        made = program.file(self.program, args) if self.shipped else program.path(self.program, args)
        for name, value in self.env.items():
            made = made.env(name, value)
        return made


def string_array(gateway: Any, values: Sequence[str]) -> Any:
    """A Java String[]."""
    array = gateway.new_array(gateway.jvm.java.lang.String, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def duration(gateway: Any, seconds: Optional[float]) -> Any:
    """A java.time.Duration; None is forever."""
    if seconds is None:
        return gateway.jvm.java.time.temporal.ChronoUnit.FOREVER.getDuration()
    return gateway.jvm.java.time.Duration.ofMillis(max(0, round(seconds * 1000)))


@dataclasses.dataclass(frozen=True)
class RestartPolicy:
    """How often a node that failed is started again, and how soon; times in seconds."""

    max_restarts: int = 0  # within the window; the next failure is the cluster's
    window: Optional[float] = None  # restarts longer ago do not count any more; None: all count
    initial_backoff: float = 1.0  # doubled with every failure that follows on a short run
    max_backoff: float = 30.0

    def _to_java(self, gateway: Any) -> Any:
        return (
            gateway.jvm.io.millrace.spark.RestartPolicy.builder()
            .maxRestarts(self.max_restarts)
            .window(duration(gateway, self.window))
            .initialBackoff(duration(gateway, self.initial_backoff))
            .maxBackoff(duration(gateway, self.max_backoff))
            .build()
        )


@dataclasses.dataclass(frozen=True)
class QuarantinePolicy:
    """A host on which so many nodes failed within the window gets no restarts for the duration; seconds."""

    failures: int = 3
    window: float = 60.0
    duration: float = 300.0

    def _to_java(self, gateway: Any) -> Any:
        return gateway.jvm.io.millrace.spark.QuarantinePolicy.of(
            self.failures, duration(gateway, self.window), duration(gateway, self.duration)
        )


@dataclasses.dataclass(frozen=True)
class Sidecar:
    """A program beside one node: started once the node runs, killed with it. How it ends is no failure."""

    name: str  # 1 to 40 of a-z 0-9 -
    program: str  # a path on the executor's host, or a name that is looked up in PATH there
    args: Sequence[str] = ()  # "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced
    node: str = ""  # "worker:0"; "": the chief or master, worker:0 in clusters without
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def _to_java(self, gateway: Any) -> Any:
        java = gateway.jvm.io.millrace.spark.Sidecar.of(self.name, self.program, string_array(gateway, self.args))
        java = java.beside(self.node)
        for variable, value in self.env.items():
            java = java.env(variable, value)
        return java
