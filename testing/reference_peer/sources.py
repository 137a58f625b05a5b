"""Rows made from their numbers, so that both ends of a test know what has to arrive.

Columns are given as "name:type", with types bool, int8..int64, uint8..uint64, float32, float64, utf8,
binary and fixed_size_list<float32, N>.  Row r of partition p holds: integers p * 1,000,000 + r, cut to
the type's width; floats r / 2; bool r % 3 == 0; utf8 and binary "p<p>r<r>"; lists r + i / 4 at i.
With null_every k, column c of row r is null where (r + c) % k == k - 1.
"""

import re

import pyarrow as pa

DEFAULT_COLUMNS = "id:int64,x:float32,name:utf8"

_PLAIN_TYPES = {
    "bool": pa.bool_(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "utf8": pa.utf8(),
    "binary": pa.binary(),
    **{f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)},
}


def parse_columns(text):
    """The schema that "a:int32,b:fixed_size_list<float32, 4>" describes. Raises ValueError."""
    fields = []
    for item in re.split(r",(?![^<]*>)", text):
        name, _, kind = item.strip().partition(":")
        listed = re.fullmatch(r"fixed_size_list<float32, ?(\d+)>", kind)
        if listed:
            fields.append(pa.field(name, pa.list_(pa.float32(), int(listed[1]))))
        elif kind in _PLAIN_TYPES:
            fields.append(pa.field(name, _PLAIN_TYPES[kind]))
        else:
            raise ValueError(f"column {item!r} is not name:type; types: {', '.join(_PLAIN_TYPES)}, fixed_size_list<float32, N>")
    return pa.schema(fields)


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
    if pa.types.is_string(kind):
        return f"p{partition}r{row}"
    if pa.types.is_binary(kind):
        return f"p{partition}r{row}".encode()
    return [row + i / 4 for i in range(kind.list_size)]


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
