"""tf.train.Example in Python, for TFRecord files without TensorFlow: a map of features, each a list of int64s, floats
or bytes.

Its objects have the members of TensorFlow's that are read: example.features.feature["x"].int64_list.value.
"""

import array
import struct
import sys
import types

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10
_FLOAT = struct.Struct("<f")


def _varint(data, at):
    """The number at `at`, and what comes after it."""
    value = 0
    for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
    raise ValueError("a number of more than ten bytes")


def _fields(data):
    """(number, kind, value) of each field of a message: a value is a number, or the bytes of the field."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
        else:
            if kind == _BYTES:
                size, at = _varint(data, at)
            elif kind in (_FIXED32, _FIXED64):
                size = 4 if kind == _FIXED32 else 8
            else:
                raise ValueError(f"field {number} of kind {kind}, which no Example has")
            if size > end - at:
                raise ValueError(f"field {number} ends after the message")
            value = data[at : at + size]
            at += size
        yield number, kind, value


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


def _int64s(data):
    values = []
    for number, kind, value in _fields(data):
        if number != 1:
            continue
        if kind == _VARINT:
            values.append(_signed(value))
            continue
        at = 0
        while at < len(value):
            one, at = _varint(value, at)
            values.append(_signed(one))
    return values


def _floats(data):
    values = array.array("f")
    for number, kind, value in _fields(data):
        if number == 1 and kind in (_BYTES, _FIXED32):
            values.frombytes(value)
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def _texts(data):
    return [bytes(value) for number, kind, value in _fields(data) if number == 1 and kind == _BYTES]


_LISTS = {1: ("bytes_list", _texts), 2: ("float_list", _floats), 3: ("int64_list", _int64s)}


def _feature(data):
    lists = {name: types.SimpleNamespace(value=[]) for name, _ in _LISTS.values()}
    for number, kind, value in _fields(data):
        if number in _LISTS and kind == _BYTES:
            name, read = _LISTS[number]
            lists = {each: types.SimpleNamespace(value=[]) for each in lists}  # the last one counts
            lists[name].value = read(value)
    return types.SimpleNamespace(**lists)


def parse(data):
    """The Example that `data` is. Raises ValueError if it is none."""
    features = {}
    try:
        for number, kind, value in _fields(data):
            if number != 1 or kind != _BYTES:
                continue
            for inner, inner_kind, entry in _fields(value):
                if inner == 1 and inner_kind == _BYTES:
                    members = {key: each for key, form, each in _fields(entry) if form == _BYTES}
                    features[bytes(members.get(1, b"")).decode()] = _feature(members.get(2, b""))
    except (IndexError, ValueError) as error:
        raise ValueError(f"a record of {len(data)} bytes is no tf.train.Example: {error}") from None
    return types.SimpleNamespace(features=types.SimpleNamespace(feature=features))


def _number(value):
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _field(number, data):
    return _number(number << 3 | _BYTES) + _number(len(data)) + data


def int64_feature(values):
    return _field(3, _field(1, b"".join(map(_number, map(int, values)))))


def float_feature(values):
    return _field(2, _field(1, b"".join(map(_FLOAT.pack, values))))


def bytes_feature(values):
    return _field(1, b"".join(_field(1, value) for value in values))


def serialize(features):
    """The Example of these features, by name."""
    entries = (_field(1, _field(1, name.encode()) + _field(2, feature)) for name, feature in features.items())
    return _field(1, b"".join(entries))
