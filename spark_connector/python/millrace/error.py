"""Errors of Millrace, as the JVM throws them."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional

_CLASS = "io.millrace.spark.MillraceException"
_MAX_CAUSES = 50


class MillraceError(Exception):
    """What happened, where, and what to do about it; if a node caused it, its name, end and last words."""

    def __init__(
        self,
        code: str,
        message: str,
        node: str = "",
        exit_status: str = "",
        stderr_lines: Optional[List[str]] = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code  # of gRPC's status codes: "NOT_FOUND"
        self.message = message
        self.node = node  # "worker:1", "" if no node caused it
        self.exit_status = exit_status  # "exit code 3", "killed by SIGKILL", ""
        self.stderr_lines = list(stderr_lines or [])  # oldest first

    @classmethod
    def of(cls, error: BaseException) -> Optional["MillraceError"]:
        """The error of Millrace that is, or has caused, this one of Spark's; None if there is none."""
        if isinstance(error, cls):
            return error
        # Py4JJavaError has the one, PySpark's own exceptions the other.
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        for _ in range(_MAX_CAUSES):
            if java is None or not hasattr(java, "getClass"):
                return None
            if java.getClass().getName() == _CLASS:
                return cls(
                    java.code().name(), java.getMessage(), java.node(), java.exitStatus(), list(java.stderrLines())
                )
            java = java.getCause()
        return None


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


def is_interrupt(error: Optional[BaseException]) -> bool:
    """Whether the JVM's thread was interrupted."""
    java = getattr(error, "java_exception", None)
    return java is not None and java.getClass().getName() == "java.lang.InterruptedException"


def require_class(jvm: Any) -> Any:
    """The class MillraceCluster; an error that says what to do if the jar is not there."""
    found = jvm.io.millrace.spark.MillraceCluster
    if type(found).__name__ != "JavaClass":
        raise MillraceError(
            "FAILED_PRECONDITION",
            "the connector's jar is not on the class path: spark-submit --jars millrace-spark.jar, or "
            'SparkSession.builder.config("spark.jars", "millrace-spark.jar") before the session is there',
        )
    return found
