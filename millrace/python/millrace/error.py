"""What goes wrong, as exceptions: one for each of the codes that Millrace has."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence, Tuple, Type

__all__ = [
    "AbortedError",
    "CancelledError",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "MillraceError",
    "NotFoundError",
    "ResourceExhaustedError",
    "UnavailableError",
]

_JAVA_CLASS = "io.millrace.spark.MillraceException"
_MAX_CAUSES = 50


class MillraceError(Exception):
    """What happened, where, and what to do about it; the first line is complete in itself.

    At a driver, if a node caused it: its name, its end and its last words.
    """

    node = ""  # "worker:1"
    exit_status = ""  # "exit code 3", "signal 9 (SIGKILL)"
    stderr_lines: Sequence[str] = ()  # the last, oldest first

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code  # of gRPC's status codes: "NOT_FOUND"
        self.message = message

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"

    def __reduce__(self) -> Tuple[Any, ...]:
        """Errors go from process to process."""
        return type(self), (self.code, self.message), vars(self)

    @classmethod
    def of(cls, error: BaseException) -> Optional["MillraceError"]:
        """The error of Millrace that is, or has caused, this one of Spark's; None if there is none."""
        if isinstance(error, MillraceError):
            return error
        # Py4JJavaError has the one, PySpark's own exceptions the other.
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        for _ in range(_MAX_CAUSES):
            if java is None or not hasattr(java, "getClass"):
                return None
            if java.getClass().getName() == _JAVA_CLASS:
                made = error_named(java.code().name(), java.getMessage())
                made.node, made.exit_status = java.node(), java.exitStatus()
                made.stderr_lines = tuple(java.stderrLines())
                return made
            java = java.getCause()
        return None


class InvalidArgumentError(MillraceError, ValueError):
    """What was given cannot be: a number out of range, values of another type or length."""


class NotFoundError(MillraceError, KeyError):
    """There is no column, queue or key of that name."""


class FailedPreconditionError(MillraceError, RuntimeError):
    """Not now, or not here: the node is not fed, the feed is closed, results are missing."""


class DeadlineExceededError(MillraceError, TimeoutError):
    """It did not happen in time."""


class CancelledError(MillraceError):
    """Somebody has ended it."""


class AbortedError(MillraceError):
    """Another node has ended."""


class ResourceExhaustedError(MillraceError):
    """GPUs, memory, or the limits of a store."""


class UnavailableError(MillraceError, ConnectionError):
    """The agent or the coordinator is gone."""


_CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
_CLASSES: Dict[str, Type[MillraceError]] = {
    "ABORTED": AbortedError,
    "CANCELLED": CancelledError,
    "DEADLINE_EXCEEDED": DeadlineExceededError,
    "FAILED_PRECONDITION": FailedPreconditionError,
    "INVALID_ARGUMENT": InvalidArgumentError,
    "NOT_FOUND": NotFoundError,
    "RESOURCE_EXHAUSTED": ResourceExhaustedError,
    "UNAVAILABLE": UnavailableError,
}


def error_named(code: str, message: str) -> MillraceError:
    """The exception for a code by its name."""
    return _CLASSES.get(code, MillraceError)(code, message)


def error_of(code: int, message: str) -> MillraceError:
    """The exception for a code of the C interface."""
    return error_named(_CODES[code] if 0 < code < len(_CODES) else "UNKNOWN", message)


def code_of(error: MillraceError) -> int:
    """The number of its code."""
    return _CODES.index(error.code) if error.code in _CODES[1:] else _CODES.index("UNKNOWN")
