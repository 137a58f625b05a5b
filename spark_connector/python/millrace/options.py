"""What a cluster is made of."""

from __future__ import annotations

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


def millis(seconds: Optional[float]) -> int:
    """None is forever."""
    return -1 if seconds is None else max(0, round(seconds * 1000))


# Arguments of MillraceCluster.run: name of ours, name of Java's, and what makes the one of the other.
_PLAIN = {
    "num_executors": "numExecutors",
    "num_ps": "numPs",
    "eval_node": "evalNode",
    "driver_ps_nodes": "driverPsNodes",
    "tensorboard": "tensorboard",
    "release_port": "releasePort",
    "nodes_per_executor": "nodesPerExecutor",
    "gpus_per_node": "gpusPerNode",
    "max_restarts": "maxRestarts",
    "feed_budget_bytes": "feedBudgetBytes",
}
_TEXT = {
    "master_node": "masterNode",
    "log_dir": "logDir",
    "default_fs": "defaultFs",
    "working_dir": "workingDir",
    "port_range": "portRange",
    "feed_port_range": "feedPortRange",
    "coordinator_port_range": "coordinatorPortRange",
}
_SECONDS = {
    "reservation_timeout": "reservationTimeoutMillis",
    "stop_grace": "stopGraceMillis",
    "stop_timeout": "stopTimeoutMillis",
}


def cluster_options(gateway: Any, values: Mapping[str, Any]) -> Any:
    """ClusterOptions; what is None is left at its default."""
    builder = gateway.jvm.io.millrace.spark.ClusterOptions.builder()
    for name, value in values.items():
        if value is None:
            continue
        if name == "input_mode":
            builder.inputMode(getattr(gateway.jvm.io.millrace.spark.InputMode, InputMode(value).value))
        elif name == "queues":
            builder.queues(string_array(gateway, value))
        elif name == "env":
            builder.env({str(key): str(text) for key, text in value.items()})
        elif name in _SECONDS:
            getattr(builder, _SECONDS[name])(millis(value))
        elif name in _TEXT:
            getattr(builder, _TEXT[name])(str(value))
        elif name in _PLAIN:
            getattr(builder, _PLAIN[name])(value)
        else:
            raise TypeError(f"MillraceCluster.run has no argument {name!r}")
    return builder.build()
