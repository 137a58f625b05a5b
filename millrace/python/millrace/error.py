"""What goes wrong, as exceptions: one for each of the codes that Millrace has."""

from __future__ import annotations

from typing import Dict, Sequence, Type

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


def error_of(code: int, message: str) -> MillraceError:
    """The exception for a code of the C interface."""
    name = _CODES[code] if 0 < code < len(_CODES) else "UNKNOWN"
    made = _CLASSES.get(name)
    return made(name, message) if made else MillraceError(name, message)


def code_of(error: MillraceError) -> int:
    """The number of its code."""
    return _CODES.index(error.code) if error.code in _CODES[1:] else _CODES.index("UNKNOWN")
