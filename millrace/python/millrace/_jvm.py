"""What is Java's: options and programs for the connector's classes, through py4j, and their errors."""

from __future__ import annotations

import collections.abc
import contextlib
import dataclasses
import math
import os
import re
import threading
from typing import Any, Callable, Generator, List, Mapping, Optional, Sequence, TypeVar

from millrace._interrupt import interruptible
from millrace.error import FailedPreconditionError, MillraceError, NotFoundError
from millrace.options import ClusterObserver, InputMode, NodeInfo, NodeProgram, Sidecar
from millrace.options import given as members_of

_T = TypeVar("_T")

_DURATIONS = (
    "reservation_timeout", "stop_grace", "stop_timeout", "window", "duration", "initial_backoff", "max_backoff"
)  # fmt: skip


@contextlib.contextmanager
def translated() -> Generator[None, None, None]:
    """Raises what Millrace has thrown as MillraceError."""
    try:
        yield
    except Exception as error:  # py4j's is not imported here: it comes with Spark
        found = MillraceError.of(error)
        if found is None or found is error:
            raise
        raise found from error


def interruptible_call(spark: Any, call: Callable[[], _T]) -> _T:
    """What `call`, which waits in the JVM, returns or raises; Ctrl-C (KeyboardInterrupt) interrupts its thread there.

    The JVM's threads are those of Python (PySpark's default): in the main thread the call has another one, with the
    same job group and description, so that PySpark can still speak to the JVM when a signal comes.
    """
    context = spark.sparkContext
    if threading.current_thread() is not threading.main_thread() or not _threads_are_pinned(context):
        return call()
    properties = context._jsc.sc().getLocalProperties().clone()
    turn = threading.Lock()
    waiting: List[Any] = []
    stopped = False

    def run() -> _T:
        context._jsc.sc().setLocalProperties(properties)
        thread = context._jvm.java.lang.Thread.currentThread()
        with turn:
            if stopped:
                raise KeyboardInterrupt
            waiting.append(thread)
        return call()

    def stop(_: bool) -> None:
        nonlocal stopped
        with turn:
            stopped = True
        for thread in waiting:
            thread.interrupt()

    return interruptible(run, stop)


def _threads_are_pinned(context: Any) -> bool:
    return type(context._gateway).__name__ == "ClientServer"


def is_interrupt(error: BaseException) -> bool:
    """Whether the JVM's thread was interrupted."""
    java = getattr(error, "java_exception", None)
    return java is not None and java.getClass().getName() == "java.lang.InterruptedException"


def cluster_class(context: Any, jar: Callable[[], str]) -> Any:
    """The class MillraceCluster of a SparkContext's application. If that came without the connector's jar, the one that
    `jar` names is added to it; an error says what to do if there is none."""
    found = _find_cluster_class(context)
    if found is not None and _added_jar:
        _send_jar(context, _added_jar)
    if found is None:
        try:
            _add_jar(context, jar())
        except NotFoundError as error:
            raise FailedPreconditionError(
                "FAILED_PRECONDITION",
                "the connector's jar is not on the class path: spark-submit --jars millrace-spark.jar "
                f"({error.message})",
            ) from None
        found = _find_cluster_class(context)
    if found is None:
        raise FailedPreconditionError(
            "FAILED_PRECONDITION",
            "the connector's jar is not on the class path, and cannot be added to it any more: spark-submit --jars "
            'millrace-spark.jar, or SparkSession.builder.config("spark.jars", millrace.spark_jar()) before the session '
            "is there",
        )
    return found


def _find_cluster_class(context: Any) -> Any:
    found = context._gateway.jvm.io.millrace.spark.MillraceCluster
    return found if type(found).__name__ == "JavaClass" else None


_added_jar = ""  # to this process's JVM, by _add_jar


def _add_jar(context: Any, path: str) -> None:
    """To the executors, and to the driver, whose class loader takes more (checked: 3.5.9, 4.3.0)."""
    global _added_jar
    jvm = context._gateway.jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if not jvm.java.lang.Class.forName("org.apache.spark.util.MutableURLClassLoader").isInstance(loader):
        return
    loader.addURL(jvm.java.io.File(path).toURI().toURL())
    _added_jar = path
    _send_jar(context, path)


def _send_jar(context: Any, path: str) -> None:
    """To the executors, once. A JVM keeps its classes when a SparkContext ends; the executors of the next are new."""
    if getattr(context, "_millrace_jar", None) != path:
        context._jsc.addJar(path)
        context._millrace_jar = path


def array_of(gateway: Any, kind: Any, values: Sequence[Any]) -> Any:
    """A Java array."""
    array = gateway.new_array(kind, len(values))
    for i, value in enumerate(values):
        array[i] = value
    return array


def strings(gateway: Any, values: Sequence[str]) -> Any:
    """A Java String[]."""
    return array_of(gateway, gateway.jvm.java.lang.String, [str(value) for value in values])


def listed(collection: Any) -> List[Any]:
    """What a Java collection has.

    Iteration over the collection itself ends by an exception in the JVM, of which PySpark asks many questions: 10 to
    100 ms.
    """
    return list(collection.toArray())


def duration(gateway: Any, seconds: Optional[float]) -> Any:
    """A java.time.Duration; None and infinity are forever."""
    if seconds is None or math.isinf(seconds):
        return gateway.jvm.java.time.temporal.ChronoUnit.FOREVER.getDuration()
    return gateway.jvm.java.time.Duration.ofMillis(max(0, round(seconds * 1000)))


def program(gateway: Any, given: NodeProgram, env: Mapping[str, str]) -> Any:
    args = strings(gateway, given.args)
    kind = gateway.jvm.io.millrace.spark.NodeProgram
    made = kind.file(given.program, args) if given.shipped else kind.path(given.program, args)
    for name, value in {**given.env, **env}.items():
        made = made.env(str(name), str(value))
    return made


def _sidecar(gateway: Any, sidecar: Sidecar) -> Any:
    java = gateway.jvm.io.millrace.spark.Sidecar.of(sidecar.name, sidecar.program, strings(gateway, sidecar.args))
    java = java.beside(sidecar.node)
    for variable, value in sidecar.env.items():
        java = java.env(variable, value)
    return java


class _Heard:
    """A ClusterObserver in Java that calls one of Python, on a thread of py4j's."""

    def __init__(self, gateway: Any, observer: ClusterObserver) -> None:
        self._gateway = gateway
        self._observer = observer

    def onOutput(self, output: Any) -> None:
        if self._observer.on_output is not None:
            node = output.node()
            # One message for all of them.
            for line in self._gateway.jvm.java.lang.String.join("\n", output.lines()).split("\n"):
                self._observer.on_output(node, line)

    def onMetric(self, node: str, name: str, step: int, value: float) -> None:
        if self._observer.on_metric is not None:
            self._observer.on_metric(node, name, step, value)

    def onSlot(self, node: Any) -> None:
        if self._observer.on_slot is not None:
            self._observer.on_slot(node_info(node))

    class Java:
        implements = ["io.millrace.spark.ClusterObserver"]


def _heard(gateway: Any, observer: ClusterObserver) -> Any:
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(gateway)
    return _Heard(gateway, observer)


def node_info(node: Any) -> NodeInfo:
    """Java's, in Python."""
    return NodeInfo(
        node.executorId(),
        node.jobName(),
        node.taskIndex(),
        node.state().toString(),
        node.attempt(),
        node.host(),
        node.address(),
        node.pid(),
    )


def _value(gateway: Any, name: str, value: Any) -> Any:
    spark = gateway.jvm.io.millrace.spark
    if name in _DURATIONS:
        return duration(gateway, value)
    if name == "input_mode":
        return getattr(spark.InputMode, InputMode(value).value)
    if name == "queues":
        return strings(gateway, value)
    if name == "sidecars":
        return array_of(gateway, spark.Sidecar, [_sidecar(gateway, each) for each in value])
    if isinstance(value, ClusterObserver):
        return _heard(gateway, value)
    if dataclasses.is_dataclass(value):
        return _built(gateway, type(value).__name__, members_of(value))
    if isinstance(value, collections.abc.Mapping):
        return {str(key): _value(gateway, "", each) for key, each in value.items()}
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _built(gateway: Any, java_class: str, members: Mapping[str, Any]) -> Any:
    builder = getattr(gateway.jvm.io.millrace.spark, java_class).builder()
    for name, value in members.items():
        setter = re.sub("_([a-z])", lambda letter: letter.group(1).upper(), name)
        getattr(builder, setter)(_value(gateway, name, value))
    return builder.build()


def cluster_options(gateway: Any, num_executors: int, options: Mapping[str, Any]) -> Any:
    """Java's ClusterOptions: every group and every option has the same name there, in its spelling."""
    return _built(gateway, "ClusterOptions", {"num_executors": num_executors, **options})
