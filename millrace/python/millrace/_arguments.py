"""What a call is given, as the library takes it; or an exception that names the argument and says what it must be."""

from __future__ import annotations

import math
import operator
from typing import Any

from millrace.error import InvalidArgumentError

__all__ = ["count", "data", "milliseconds", "number", "text", "whole"]

_ENDLESS_MS = 1 << 62


def _wrong_type(name: str, value: Any, kind: str) -> TypeError:
    return TypeError(f"{name} is {value!r}, of type {type(value).__name__}: it must be {kind}")


def whole(name: str, value: Any) -> int:
    """An int, of Python, NumPy or whatever else has them."""
    if isinstance(value, bool):
        raise _wrong_type(name, value, "int")
    try:
        return operator.index(value)
    except TypeError:
        raise _wrong_type(name, value, "int") from None


def count(name: str, value: Any) -> int:
    """An int from 1 on."""
    given = whole(name, value)
    if given < 1:
        raise InvalidArgumentError("INVALID_ARGUMENT", f"{name}={given}; the least is 1")
    return given


def number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise _wrong_type(name, value, "float")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise _wrong_type(name, value, "float") from None


def text(name: str, value: Any) -> bytes:
    """In UTF-8."""
    if not isinstance(value, str):
        raise _wrong_type(name, value, "str")
    return value.encode()


def data(name: str, value: Any) -> bytes:
    """The bytes of whatever has some; a str in UTF-8."""
    if isinstance(value, str):
        return value.encode()
    try:
        return memoryview(value).tobytes()
    except TypeError:
        raise _wrong_type(name, value, "bytes or str") from None


def milliseconds(name: str, seconds: Any, least: int = 0) -> int:
    """None and infinity, which are forever, are -1; what is less than `least` is that."""
    if seconds is None:
        return -1
    given = 1000 * number(name, seconds)
    if math.isnan(given):
        raise InvalidArgumentError("INVALID_ARGUMENT", f"{name}={seconds}; give seconds, or None for no limit")
    return -1 if given >= _ENDLESS_MS else round(max(given, least))
