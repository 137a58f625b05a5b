"""Python objects of Arrow arrays that lie in memory, for small things."""

from __future__ import annotations

import ctypes
import datetime
import struct
from typing import Any, Dict, List, Optional

from millrace._library import ArrowArray, ArrowSchema
from millrace.error import InvalidArgumentError

_NUMBERS: Dict[str, Any] = {
    "c": ctypes.c_int8,
    "C": ctypes.c_uint8,
    "s": ctypes.c_int16,
    "S": ctypes.c_uint16,
    "i": ctypes.c_int32,
    "I": ctypes.c_uint32,
    "l": ctypes.c_int64,
    "L": ctypes.c_uint64,
    "f": ctypes.c_float,
    "g": ctypes.c_double,
}
_EPOCH = datetime.datetime(1970, 1, 1)
_UNITS = {"s": 1_000_000, "m": 1_000, "u": 1}  # of a timestamp, in microseconds


def _numbers(kind: Any, address: Optional[int], first: int, count: int) -> List[Any]:
    if count == 0 or not address:
        return []
    return list((kind * count).from_address(address + first * ctypes.sizeof(kind)))


def _bits(address: Optional[int], first: int, count: int) -> List[bool]:
    if count == 0 or not address:
        return []
    data = ctypes.string_at(address + first // 8, (first % 8 + count + 7) // 8)
    return [bool(data[i >> 3] >> (i & 7) & 1) for i in range(first % 8, first % 8 + count)]


def _halves(address: Optional[int], first: int, count: int) -> List[float]:
    if count == 0 or not address:
        return []
    return list(struct.unpack(f"<{count}e", ctypes.string_at(address + 2 * first, 2 * count)))


def _timestamps(form: str, values: List[int]) -> List[Any]:
    unit, zone = form[2], form[4:]
    if unit == "n":  # datetime has no nanoseconds
        return values
    made = [_EPOCH + datetime.timedelta(microseconds=value * _UNITS[unit]) for value in values]
    return [each.replace(tzinfo=datetime.timezone.utc) for each in made] if zone else made


def _offsets(form: str, array: ArrowArray, first: int, count: int) -> List[int]:
    return _numbers(ctypes.c_int64 if form in ("U", "Z", "+L") else ctypes.c_int32, array.buffers[1], first, count + 1)


def _texts(form: str, array: ArrowArray, first: int, count: int) -> List[Any]:
    offsets = _offsets(form, array, first, count)
    begin, size = offsets[0], offsets[-1] - offsets[0]
    data = ctypes.string_at(array.buffers[2] + begin, size) if size else b""
    parts = [data[a - begin : b - begin] for a, b in zip(offsets, offsets[1:])]
    return [part.decode() for part in parts] if form in "uU" else parts


def views(schema: ArrowSchema, array: ArrowArray, first: int, count: int) -> List[memoryview]:
    """Rows [first, first + count) of texts or bytes without nulls, where they lie: valid as long as `array`."""
    if count == 0:
        return []
    offsets = _offsets((schema.format or b"").decode(), array, first + array.offset, count)
    begin, size = offsets[0], offsets[-1] - offsets[0]
    data = memoryview((ctypes.c_ubyte * size).from_address(array.buffers[2] + begin) if size else b"").cast("B")
    return [data[a - begin : b - begin] for a, b in zip(offsets, offsets[1:])]


def _lists(form: str, schema: ArrowSchema, array: ArrowArray, first: int, count: int) -> List[Any]:
    if form.startswith("+w:"):
        size = int(form[3:])
        offsets = [(first + i) * size for i in range(count + 1)]
    else:
        offsets = _offsets(form, array, first, count) or [0] * (count + 1)
    begin = offsets[0]
    items = to_pylist(schema.children[0].contents, array.children[0].contents, begin, offsets[-1] - begin)
    return [items[a - begin : b - begin] for a, b in zip(offsets, offsets[1:])]


def _structs(schema: ArrowSchema, array: ArrowArray, first: int, count: int) -> List[Any]:
    names = [(schema.children[i].contents.name or b"").decode() for i in range(schema.n_children)]
    columns = [
        to_pylist(schema.children[i].contents, array.children[i].contents, first, count)
        for i in range(schema.n_children)
    ]
    return [dict(zip(names, row)) for row in zip(*columns)]


def _present(form: str, schema: ArrowSchema, array: ArrowArray, first: int, count: int) -> List[Any]:
    """The values, whatever stands for nulls."""
    if form in _NUMBERS:
        return _numbers(_NUMBERS[form], array.buffers[1], first, count)
    if form == "b":
        return _bits(array.buffers[1], first, count)
    if form == "e":
        return _halves(array.buffers[1], first, count)
    if form == "tdD":
        days = _numbers(ctypes.c_int32, array.buffers[1], first, count)
        return [_EPOCH.date() + datetime.timedelta(days=day) for day in days]
    if form == "tdm":
        millis = _numbers(ctypes.c_int64, array.buffers[1], first, count)
        return [(_EPOCH + datetime.timedelta(milliseconds=each)).date() for each in millis]
    if form.startswith("ts"):
        return _timestamps(form, _numbers(ctypes.c_int64, array.buffers[1], first, count))
    if form in ("u", "U", "z", "Z"):
        return _texts(form, array, first, count)
    if form == "+s":
        return _structs(schema, array, first, count)
    if form in ("+l", "+L") or form.startswith("+w:"):
        return _lists(form, schema, array, first, count)
    raise InvalidArgumentError("INVALID_ARGUMENT", f"Arrow's type {form!r} is none that a feed carries")


def to_pylist(schema: ArrowSchema, array: ArrowArray, first: int, count: int) -> List[Any]:
    """Rows [first, first + count) of `array`; None for nulls. Timestamps are datetimes (in UTC where they
    have a zone), those of nanoseconds numbers since 1970."""
    if count == 0:
        return []
    first += array.offset
    values = _present((schema.format or b"").decode(), schema, array, first, count)
    if array.null_count == 0 or not array.buffers[0]:
        return values
    return [value if valid else None for value, valid in zip(values, _bits(array.buffers[0], first, count))]
