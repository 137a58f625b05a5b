"""Arrow inside feed frames: what sections 2, 3 and 7 of docs/feed_protocol.md ask of it.

A SCHEMA frame carries one encapsulated Arrow IPC Schema message, BATCH and RESULT carry one
encapsulated RecordBatch message whose body travels in frame parts of its own.  This module cuts a
pyarrow record batch into those parts and puts received parts together again, after checking
everything that section 7 lists.  The RecordBatch flatbuffer is read here, without pyarrow, because
the checks come before anything may decode it.

  message, parts = cut_batch(batch, cuts=[1])     # sender
  batch = read_batch(message, parts, schema, rows=4)  # receiver, raises ArrowBodyError
"""

import dataclasses
import struct

import pyarrow as pa

MAX_SCHEMA_BYTES = 16 << 20
MAX_COLUMNS = 65536
MAX_NESTING = 32
MAX_ROWS = (1 << 31) - 1

_CONTINUATION = 0xFFFFFFFF
_HEADER_SCHEMA = 1
_HEADER_RECORD_BATCH = 3


class ArrowBodyError(Exception):
    """Bytes of a peer that break the rules; `reason` is a stable word, the text is for people.

    `outcome` is "unsupported" where nothing is broken: a schema of something that is not carried.
    """

    def __init__(self, reason, text, outcome="bad_frame"):
        super().__init__(text)
        self.reason = reason
        self.outcome = outcome


@dataclasses.dataclass(frozen=True)
class FieldNode:
    """One field of the batch, in depth-first order. `position`: byte offset of its struct in the message."""

    position: int
    length: int
    null_count: int


@dataclasses.dataclass(frozen=True)
class BufferEntry:
    """One buffer of the batch. `position`: byte offset of its struct in the message."""

    position: int
    offset: int
    length: int


@dataclasses.dataclass(frozen=True)
class BatchLayout:
    """What a RecordBatch message says; nothing in it is checked against a schema or a body yet."""

    length: int
    length_position: int  # 0 when the field is absent, which means length 0
    body_length: int
    nodes: list
    buffers: list


def round_up_to_8(size):
    return (size + 7) & ~7


# --- flatbuffers, only what a RecordBatch message needs -------------------------------------------


class _Flatbuffer:
    """Bounds-checked reads from one flatbuffer that starts at `base` of `data`."""

    def __init__(self, data, base):
        self._data = data
        self._base = base

    def _read(self, form, position):
        size = struct.calcsize(form)
        if position < self._base or position + size > len(self._data) or (position - self._base) % size:
            raise ArrowBodyError("flatbuffer", f"a read of {size} bytes at {position} is not inside the message")
        return struct.unpack_from(form, self._data, position)[0]

    def root(self):
        return self._base + self._read("<I", self._base)

    def field(self, table, index):
        """Position of a table's field, or 0 when it is absent."""
        vtable = table - self._read("<i", table)
        vtable_size = self._read("<H", vtable)
        table_size = self._read("<H", vtable + 2)
        inside = vtable + vtable_size <= len(self._data) and table + table_size <= len(self._data)
        if vtable_size < 4 or vtable_size % 2 or not inside:
            raise ArrowBodyError("flatbuffer", "a table is not inside the message")
        if 4 + 2 * index + 2 > vtable_size:
            return 0
        offset = self._read("<H", vtable + 4 + 2 * index)
        if offset >= table_size and offset != 0:
            raise ArrowBodyError("flatbuffer", "a field is not inside its table")
        return table + offset if offset else 0

    def scalar(self, table, index, form, default):
        position = self.field(table, index)
        return self._read(form, position) if position else default

    def reference(self, table, index):
        """Position that an offset field points at, or 0 when it is absent."""
        position = self.field(table, index)
        return position + self._read("<I", position) if position else 0

    def structs(self, table, index, size):
        """Positions of the structs of a vector field, each of `size` bytes and 8-byte aligned."""
        vector = self.reference(table, index)
        if not vector:
            return []
        count = self._read("<I", vector)
        first = vector + 4
        if count and (first - self._base) % 8:
            raise ArrowBodyError("flatbuffer", "a vector of structs is not aligned")
        if count * size > len(self._data) - first:
            raise ArrowBodyError("flatbuffer", f"a vector of {count} structs is not inside the message")
        return [first + size * i for i in range(count)]


def _check_encapsulation(message, what):
    """Section 3: 0xFFFFFFFF, i32 length, flatbuffer and padding, exactly as long as given."""
    if len(message) < 8:
        raise ArrowBodyError("encapsulation", f"{what} of {len(message)} bytes")
    continuation, length = struct.unpack_from("<Ii", message)
    if continuation != _CONTINUATION:
        raise ArrowBodyError("encapsulation", f"{what} does not begin with 0xFFFFFFFF")
    if length <= 0 or length % 8 or length != len(message) - 8:
        raise ArrowBodyError("encapsulation", f"{what} gives length {length} for {len(message) - 8} bytes")


def parse_layout(message):
    """The layout of an encapsulated RecordBatch message. Raises ArrowBodyError."""
    message = bytes(message)
    _check_encapsulation(message, "RecordBatch message")
    fb = _Flatbuffer(message, 8)
    root = fb.root()
    if fb.scalar(root, 1, "<B", 0) != _HEADER_RECORD_BATCH:
        raise ArrowBodyError("flatbuffer", "not a RecordBatch message")
    header = fb.reference(root, 2)
    if not header:
        raise ArrowBodyError("flatbuffer", "a RecordBatch message without a header")
    if fb.field(header, 3):
        raise ArrowBodyError("compressed", "the body is compressed")
    if fb.field(header, 4):
        raise ArrowBodyError("type", "view types are not part of this protocol")
    nodes = [FieldNode(p, *struct.unpack_from("<qq", message, p)) for p in fb.structs(header, 1, 16)]
    buffers = [BufferEntry(p, *struct.unpack_from("<qq", message, p)) for p in fb.structs(header, 2, 16)]
    return BatchLayout(
        length=fb.scalar(header, 0, "<q", 0),
        length_position=fb.field(header, 0),
        body_length=fb.scalar(root, 3, "<q", 0),
        nodes=nodes,
        buffers=buffers,
    )


# --- schema ---------------------------------------------------------------------------------------


def write_schema(schema):
    return schema.serialize().to_pybytes()


def read_schema(message):
    """The schema of an encapsulated Schema message. Raises ArrowBodyError."""
    message = bytes(message)
    if len(message) > MAX_SCHEMA_BYTES:
        raise ArrowBodyError("schema_size", f"a schema of {len(message)} bytes")
    _check_encapsulation(message, "Schema message")
    fb = _Flatbuffer(message, 8)
    root = fb.root()
    if fb.scalar(root, 1, "<B", 0) != _HEADER_SCHEMA:
        raise ArrowBodyError("flatbuffer", "not a Schema message")
    header = fb.reference(root, 2)
    if not header:
        raise ArrowBodyError("flatbuffer", "a Schema message without a header")
    if fb.scalar(header, 0, "<h", 0) != 0:
        raise ArrowBodyError("endianness", "the schema is big-endian")
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(message))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ArrowBodyError("flatbuffer", str(error)) from error
    if len(schema) > MAX_COLUMNS:
        raise ArrowBodyError("columns", f"{len(schema)} columns")
    for field in schema:
        _check_depth(field.type, 1)
    _check_names(schema.names, "the schema")
    for field in schema:
        _check_type(field.name, field.type)
    return schema


def _check_depth(kind, depth):
    if depth > MAX_NESTING:
        raise ArrowBodyError("nesting", f"nesting over {MAX_NESTING}")
    for i in range(kind.num_fields):
        _check_depth(kind.field(i).type, depth + 1)


def _check_names(names, where):
    if len(set(names)) != len(names):
        raise ArrowBodyError("names", f"two names of {where} are equal", "unsupported")


def _check_type(column, kind):
    empty = pa.types.is_struct(kind) and kind.num_fields == 0
    empty = empty or (pa.types.is_fixed_size_list(kind) and kind.list_size == 0)
    if _buffer_count(kind) is None or empty or _values_per_row(kind) > MAX_ROWS:
        raise ArrowBodyError("type", f"column {column!r}: type {kind} is not part of this protocol", "unsupported")
    if pa.types.is_struct(kind):
        _check_names([kind.field(i).name for i in range(kind.num_fields)], f"a struct in column {column!r}")
    for child in _children(kind):
        _check_type(column, child)


def _values_per_row(kind):
    return kind.list_size * _values_per_row(kind.value_type) if pa.types.is_fixed_size_list(kind) else 1


def _is_list(kind):
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def _children(kind):
    if not (_is_list(kind) or pa.types.is_struct(kind)):
        return []
    return [kind.field(i).type for i in range(kind.num_fields)]


def _is_variable_binary(kind):
    return (
        pa.types.is_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_large_binary(kind)
    )


def _offset_bytes(kind):
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_large_list(kind)
    return 8 if wide else 4


def _is_fixed_width(kind):
    return (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def _buffer_count(kind):
    """Number of a field's own buffers in the IPC format, None for types that are not carried."""
    if _is_variable_binary(kind):
        return 3
    if pa.types.is_fixed_size_list(kind) or pa.types.is_struct(kind):
        return 1
    return 2 if _is_list(kind) or _is_fixed_width(kind) else None


def plain_values(column):
    """A column as JSON has it: binary as hex, dates and timestamps as the integers that are stored."""
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        column = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64())
    return [_plain_value(value) for value in column.to_pylist()]


def _plain_value(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain_value(item) for name, item in value.items()}
    return value


# --- batch ----------------------------------------------------------------------------------------


def cut_batch(batch, cuts=()):
    """The RecordBatch message of `batch` and its body as a list of parts.

    `cuts` are indexes of buffers (in the order of the message) at which a new part begins; the
    padding after the last buffer of a part is left out, as section 3 allows.
    """
    serialized = batch.serialize().to_pybytes()
    length = struct.unpack_from("<i", serialized, 4)[0]
    message, body = serialized[: 8 + length], serialized[8 + length :]
    layout = parse_layout(message)
    if not body:
        return message, []
    starts = [0] + [layout.buffers[i].offset for i in sorted(cuts)]
    starts = sorted(set(s for s in starts if s < len(body)))
    parts = []
    for start, end in zip(starts, starts[1:] + [len(body)]):
        used = max((b.offset + b.length for b in layout.buffers if start <= b.offset < end), default=end)
        parts.append(body[start : max(used, end - 7)])
    return message, parts


class _BatchReader:
    """Walks schema, field nodes and buffers together; see read_batch."""

    def __init__(self, layout, parts, rows):
        self._layout = layout
        self._parts = parts
        self._rows = rows
        self._next_node = 0
        self._next_buffer = 0
        self._starts = []
        position = 0
        for part in parts:
            self._starts.append(position)
            position += round_up_to_8(len(part))
        self._body_size = position

    def check_all_used(self):
        if self._next_node != len(self._layout.nodes):
            raise ArrowBodyError(
                "node_count", f"{len(self._layout.nodes)} field nodes, the schema asks for {self._next_node}"
            )
        if self._next_buffer != len(self._layout.buffers):
            raise ArrowBodyError(
                "buffer_count", f"{len(self._layout.buffers)} buffers, the schema asks for {self._next_buffer}"
            )

    def _take_node(self, expected_length, below_list):
        if self._next_node >= len(self._layout.nodes):
            raise ArrowBodyError("node_count", "fewer field nodes than the schema asks for")
        node = self._layout.nodes[self._next_node]
        self._next_node += 1
        limit = MAX_ROWS if below_list else self._rows
        if not 0 <= node.length <= limit:
            raise ArrowBodyError("node_length", f"a field of length {node.length} in a batch of {self._rows} rows")
        if expected_length is not None and node.length != expected_length:
            raise ArrowBodyError("node_length", f"a field of length {node.length} where {expected_length} is needed")
        if not 0 <= node.null_count <= node.length:
            raise ArrowBodyError("null_count", f"{node.null_count} nulls in a field of length {node.length}")
        return node

    def _take_buffer(self, needed):
        """The next buffer, which has to hold at least `needed` bytes."""
        if self._next_buffer >= len(self._layout.buffers):
            raise ArrowBodyError("buffer_count", "fewer buffers than the schema asks for")
        entry = self._layout.buffers[self._next_buffer]
        self._next_buffer += 1
        if entry.offset < 0 or entry.length < 0 or entry.offset > self._body_size:
            raise ArrowBodyError("buffer_range", f"a buffer at {entry.offset} of {entry.length} bytes")
        if entry.offset % 8:
            raise ArrowBodyError("buffer_alignment", f"a buffer at offset {entry.offset}")
        if entry.length < needed:
            raise ArrowBodyError("buffer_size", f"a buffer of {entry.length} bytes where {needed} are needed")
        if entry.length == 0:
            return pa.py_buffer(b"")
        for start, part in zip(self._starts, self._parts):
            if start <= entry.offset and entry.offset + entry.length <= start + len(part):
                begin = entry.offset - start
                return pa.py_buffer(memoryview(part)[begin : begin + entry.length])
        raise ArrowBodyError(
            "buffer_range", f"a buffer at {entry.offset} of {entry.length} bytes is not inside one part"
        )

    def array(self, kind, expected_length, below_list=False):
        node = self._take_node(expected_length, below_list)
        own = _buffer_count(kind)
        buffers = [self._take_buffer((node.length + 7) // 8 if node.null_count else 0)]
        if not node.null_count:
            buffers[0] = None
        children = []
        last = 0
        if _is_variable_binary(kind) or (_is_list(kind) and not pa.types.is_fixed_size_list(kind)):
            width = _offset_bytes(kind)
            offsets = self._take_buffer((node.length + 1) * width if node.length else 0)
            last = self._last_offset(offsets, node.length, width)
            buffers.append(offsets)
            if _is_variable_binary(kind):
                buffers.append(self._take_buffer(last))
        elif _is_fixed_width(kind):
            buffers.append(self._take_buffer((node.length * kind.bit_width + 7) // 8))
        for child in _children(kind):
            if pa.types.is_fixed_size_list(kind):
                children.append(self.array(child, node.length * kind.list_size, True))
            elif _is_list(kind):
                children.append(self.array(child, None, True))
                if last > len(children[-1]):
                    raise ArrowBodyError("offsets", f"offset {last} in a list of {len(children[-1])} values")
            else:
                children.append(self.array(child, node.length, below_list))
        return pa.Array.from_buffers(kind, node.length, buffers, node.null_count, 0, children or None)

    def _last_offset(self, offsets, length, width):
        """The end of the data that checked offsets point at. Section 7: monotonic, not negative."""
        if length == 0:
            return 0
        form = "q" if width == 8 else "i"
        values = memoryview(offsets.to_pybytes()[: (length + 1) * width]).cast(form)
        previous = 0
        for value in values:
            if value < previous:
                raise ArrowBodyError("offsets", f"offset {value} after {previous}")
            previous = value
        return previous


def read_batch(message, parts, schema, rows):
    """The record batch in `message` and its body `parts`, without copying the parts.

    `rows` is what the frame's metadata says. Raises ArrowBodyError.
    """
    layout = parse_layout(message)
    if not 1 <= rows <= MAX_ROWS:
        raise ArrowBodyError("rows", f"a batch of {rows} rows")
    if layout.length != rows:
        raise ArrowBodyError("node_length", f"a RecordBatch of length {layout.length} in a frame of {rows} rows")
    reader = _BatchReader(layout, parts, rows)
    try:
        arrays = [reader.array(field.type, rows) for field in schema]
        reader.check_all_used()
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        batch.validate(full=True)
    except (pa.ArrowException, ValueError) as error:
        reason = "utf8" if "UTF8" in str(error) else "offsets"
        raise ArrowBodyError(reason, str(error)) from error
    return batch
