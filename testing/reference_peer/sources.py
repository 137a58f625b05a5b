"""Rows made from their numbers, so that both ends of a test know what has to arrive.

Columns are given as "name:type", with types bool, int8..int64, uint8..uint64, float16, float32, float64, utf8,
large_utf8, binary, large_binary, date32, date64, timestamp[UNIT] and timestamp[UNIT,ZONE] (UNIT s, ms,
us or ns), list<T>, large_list<T>, fixed_size_list<T,N> and struct<name:T,...>.  Row r of partition p
holds: integers p * 1,000,000 + r, cut to the type's width; floats r / 2; bool r % 3 == 0; dates day r;
timestamps r units after 1970; utf8 and binary "p<p>r<r>"; in a fixed_size_list of floats r + i / 4 at i,
in other lists what row r + i would hold at i, for i below N or r % 4; in a struct every field what
the row holds of its type.  With null_every k, column c of row r is null where (r + c) % k == k - 1.
"""

import re

import pyarrow as pa

DEFAULT_COLUMNS = "id:int64,x:float32,name:utf8"

_PLAIN_TYPES = {
    "bool": pa.bool_(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.utf8(),
    "large_utf8": pa.large_utf8(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32": pa.date32(),
    "date64": pa.date64(),
    **{f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def _split(text):
    """The items between the commas of `text` that are not within brackets."""
    items, depth, begin = [], 0, 0
    for at, character in enumerate(text):
        depth += (character in "<[") - (character in ">]")
        if character == "," and depth == 0:
            items.append(text[begin:at])
            begin = at + 1
    return [item.strip() for item in items + [text[begin:]]]


def _parse_type(text):
    if text in _PLAIN_TYPES:
        return _PLAIN_TYPES[text]
    if timestamp := re.fullmatch(r"timestamp\[(s|ms|us|ns)(?:, ?([^]]+))?\]", text):
        return pa.timestamp(timestamp[1], timestamp[2])
    if nested := re.fullmatch(r"(list|large_list|fixed_size_list|struct)<(.*)>", text):
        items = _split(nested[2])
        if nested[1] == "struct":
            return pa.struct(_parse_fields(items))
        element = _parse_type(items[0])
        if nested[1] == "fixed_size_list" and len(items) == 2:
            return pa.list_(element, int(items[1]))
        if nested[1] != "fixed_size_list" and len(items) == 1:
            return pa.list_(element) if nested[1] == "list" else pa.large_list(element)
    raise ValueError(f"{text!r} is no type; types: see sources.py")


def _parse_fields(items):
    fields = []
    for item in items:
        name, _, kind = item.partition(":")
        fields.append(pa.field(name, _parse_type(kind)))
    return fields


def parse_columns(text):
    """The schema that "a:int32,b:fixed_size_list<float32, 4>" describes. Raises ValueError."""
    return pa.schema(_parse_fields(_split(text)))


def _integer(kind, value):
    value &= (1 << kind.bit_width) - 1
    signed = pa.types.is_signed_integer(kind)
    return value - (1 << kind.bit_width) if signed and value >> (kind.bit_width - 1) else value


def cell(kind, partition, row):
    """The value of one cell, as Python sees it."""
    if pa.types.is_boolean(kind):
        return row % 3 == 0
    if pa.types.is_integer(kind):
        return _integer(kind, partition * 1_000_000 + row)
    if pa.types.is_floating(kind):
        return row / 2
    if pa.types.is_date64(kind):
        return row * 86_400_000
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return row
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return f"p{partition}r{row}"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return f"p{partition}r{row}".encode()
    if pa.types.is_struct(kind):
        return {field.name: cell(field.type, partition, row) for field in kind.fields}
    if pa.types.is_fixed_size_list(kind):
        if pa.types.is_floating(kind.value_type):
            return [row + i / 4 for i in range(kind.list_size)]
        return [cell(kind.value_type, partition, row + i) for i in range(kind.list_size)]
    return [cell(kind.value_type, partition, row + i) for i in range(row % 4)]


class NumberedRows:
    """A deterministic source: `rows` rows in batches of `batch_rows`.

    `cuts` are the buffers at which a batch's body is cut into parts, see arrow_body.cut_batch.
    """

    deterministic = True

    def __init__(self, schema, partition, rows, batch_rows, null_every=0, cuts=()):
        self.schema = schema
        self.cuts = cuts
        self._partition = partition
        self._rows = rows
        self._batch_rows = batch_rows
        self._null_every = null_every

    def batch(self, row):
        """The batch that begins at `row`, None at the end of the partition."""
        count = min(self._batch_rows, self._rows - row)
        return self.slice(row, count) if count > 0 else None

    def slice(self, row, count):
        """Any `count` rows from `row` on."""
        columns = []
        for index, field in enumerate(self.schema):
            values = [
                None if self._is_null(index, r) else cell(field.type, self._partition, r)
                for r in range(row, row + count)
            ]
            columns.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _is_null(self, column, row):
        return self._null_every > 0 and (row + column) % self._null_every == self._null_every - 1
