"""What is Java's: options and programs for the connector's classes, through py4j, and their errors."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Any, Iterator, Mapping, Optional, Sequence

from millrace.error import FailedPreconditionError, MillraceError
from millrace.options import InputMode, NodeProgram, QuarantinePolicy, RestartPolicy, Sidecar

_DURATIONS = ("reservation_timeout", "stop_grace", "stop_timeout")


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Raises what Millrace has thrown as MillraceError."""
    try:
        yield
    except Exception as error:  # py4j's is not imported here: it comes with Spark
        found = MillraceError.of(error)
        if found is None or found is error:
            raise
        raise found from error


def is_interrupt(error: BaseException) -> bool:
    """Whether the JVM's thread was interrupted."""
    java = getattr(error, "java_exception", None)
    return java is not None and java.getClass().getName() == "java.lang.InterruptedException"


def cluster_class(jvm: Any) -> Any:
    """The class MillraceCluster; an error that says what to do if the jar is not there."""
    found = jvm.io.millrace.spark.MillraceCluster
    if type(found).__name__ != "JavaClass":
        raise FailedPreconditionError(
            "FAILED_PRECONDITION",
            "the connector's jar is not on the class path: spark-submit --jars millrace-spark.jar, or "
            'SparkSession.builder.config("spark.jars", millrace.spark_jar()) before the session is there',
        )
    return found


def array_of(gateway: Any, kind: Any, values: Sequence[Any]) -> Any:
    """A Java array."""
    array = gateway.new_array(kind, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def strings(gateway: Any, values: Sequence[str]) -> Any:
    """A Java String[]."""
    return array_of(gateway, gateway.jvm.java.lang.String, [str(value) for value in values])


def duration(gateway: Any, seconds: Optional[float]) -> Any:
    """A java.time.Duration; None and infinity are forever."""
    if seconds is None or math.isinf(seconds):
        return gateway.jvm.java.time.temporal.ChronoUnit.FOREVER.getDuration()
    return gateway.jvm.java.time.Duration.ofMillis(max(0, round(seconds * 1000)))


def program(gateway: Any, given: NodeProgram) -> Any:
    args = strings(gateway, given.args)
    kind = gateway.jvm.io.millrace.spark.NodeProgram
    made = kind.file(given.program, args) if given.shipped else kind.path(given.program, args)
    for name, value in given.env.items():
        made = made.env(name, value)
    return made


def _restart(gateway: Any, policy: RestartPolicy) -> Any:
    return (
        gateway.jvm.io.millrace.spark.RestartPolicy.builder()
        .maxRestarts(policy.max_restarts)
        .window(duration(gateway, policy.window))
        .initialBackoff(duration(gateway, policy.initial_backoff))
        .maxBackoff(duration(gateway, policy.max_backoff))
        .build()
    )


def _quarantine(gateway: Any, policy: QuarantinePolicy) -> Any:
    return gateway.jvm.io.millrace.spark.QuarantinePolicy.of(
        policy.failures, duration(gateway, policy.window), duration(gateway, policy.duration)
    )


def _sidecar(gateway: Any, sidecar: Sidecar) -> Any:
    java = gateway.jvm.io.millrace.spark.Sidecar.of(sidecar.name, sidecar.program, strings(gateway, sidecar.args))
    java = java.beside(sidecar.node)
    for variable, value in sidecar.env.items():
        java = java.env(variable, value)
    return java


def _option(gateway: Any, name: str, value: Any) -> Any:
    spark = gateway.jvm.io.millrace.spark
    if name in _DURATIONS:
        return duration(gateway, value)
    if name == "input_mode":
        return getattr(spark.InputMode, InputMode(value).value)
    if name == "queues":
        return strings(gateway, value)
    if name == "restart":
        return _restart(gateway, value)
    if name == "restart_by_job":
        return {job: _restart(gateway, policy) for job, policy in value.items()}
    if name == "quarantine":
        return _quarantine(gateway, value)
    if name == "sidecars":
        return array_of(gateway, spark.Sidecar, [_sidecar(gateway, each) for each in value])
    if name == "env":
        return {str(key): str(text) for key, text in value.items()}
    return value


def cluster_options(gateway: Any, num_executors: int, options: Mapping[str, Any]) -> Any:
    """Java's ClusterOptions: every option has the same name there, in its spelling."""
    builder = gateway.jvm.io.millrace.spark.ClusterOptions.builder().numExecutors(num_executors)
    for name, value in options.items():
        setter = re.sub("_([a-z])", lambda letter: letter.group(1).upper(), name)
        getattr(builder, setter)(_option(gateway, name, value))
    return builder.build()
