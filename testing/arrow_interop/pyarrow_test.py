"""Batches between //feed and pyarrow, in one process; see README.md."""

import ctypes
import gc
import random
import string
import unittest

import pyarrow as pa

BRIDGE = ctypes.CDLL("testing/arrow_interop/libarrow_bridge.so")
SCHEMA_BYTES, ARRAY_BYTES, STREAM_BYTES = 72, 80, 40  # of the structs of the C Data Interface

SCALARS = [
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(),
    pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms", "UTC"),
    pa.timestamp("us", "Europe/Berlin"), pa.timestamp("ns", "+05:30"), pa.utf8(), pa.large_utf8(), pa.binary(),
    pa.large_binary(),
]  # fmt: skip
UNSUPPORTED = [
    pa.null(), pa.time32("s"), pa.duration("ms"), pa.decimal128(9, 2), pa.binary(4), pa.map_(pa.utf8(), pa.int8()),
    pa.dictionary(pa.int8(), pa.utf8()), pa.run_end_encoded(pa.int32(), pa.int8()), pa.month_day_nano_interval(),
    pa.dense_union([pa.field("a", pa.int8())]), pa.string_view(), pa.list_(pa.int8(), 0), pa.struct([]),
]  # fmt: skip


class BridgeError(Exception):
    pass


def _call(function, *arguments):
    error = ctypes.create_string_buffer(1000)
    if function(*arguments, error):
        raise BridgeError(error.value.decode())


class _Exported:
    """A batch as structs; empty ones to be filled without `batch`."""

    def __init__(self, batch=None):
        self.schema = ctypes.create_string_buffer(SCHEMA_BYTES)
        self.array = ctypes.create_string_buffer(ARRAY_BYTES)
        if batch is not None:
            batch._export_to_c(ctypes.addressof(self.array), ctypes.addressof(self.schema))

    def batch(self):
        return pa.RecordBatch._import_from_c(ctypes.addressof(self.array), ctypes.addressof(self.schema))


def _slice(batch, first, rows):
    given, out = _Exported(batch), _Exported()
    first, rows = ctypes.c_int64(first), ctypes.c_int64(rows)
    _call(BRIDGE.bridge_slice, given.schema, given.array, first, rows, out.schema, out.array)
    return out.batch()


def _encode(batch, first, rows):
    given = _Exported(batch)
    handle, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int64()
    first, rows = ctypes.c_int64(first), ctypes.c_int64(rows)
    results = [ctypes.byref(handle), ctypes.byref(data), ctypes.byref(size)]
    _call(BRIDGE.bridge_encode, given.schema, given.array, first, rows, *results)
    stream = ctypes.string_at(data.value, size.value)
    BRIDGE.bridge_free(handle)
    return stream


def _decode(batch):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    stream = sink.getvalue().to_pybytes()
    out = _Exported()
    size, rows = ctypes.c_int64(len(stream)), ctypes.c_int64(batch.num_rows)
    _call(BRIDGE.bridge_decode, stream, size, rows, out.schema, out.array)
    return out.batch()


def _export_stream(schema, batches):
    stream = ctypes.create_string_buffer(STREAM_BYTES)
    pa.RecordBatchReader.from_batches(schema, batches)._export_to_c(ctypes.addressof(stream))
    return stream


def _random_type(rng, depth):
    if depth == 1 or rng.random() < 0.4:
        return rng.choice(SCALARS)
    kind = rng.randrange(4)
    if kind == 0:
        fields = [
            pa.field(f"f{i}", _random_type(rng, depth - 1), nullable=rng.random() < 0.8)
            for i in range(rng.randint(1, 3))
        ]
        return pa.struct(fields)
    element = pa.field("item", _random_type(rng, depth - 1), nullable=rng.random() < 0.8)
    return [pa.list_(element), pa.large_list(element), pa.list_(element, rng.randint(1, 3))][kind - 1]


def _random_value(rng, kind, nullable):
    if nullable and rng.random() < 0.2:
        return None
    if pa.types.is_boolean(kind):
        return rng.random() < 0.5
    if pa.types.is_integer(kind):
        signed = pa.types.is_signed_integer(kind)
        return rng.getrandbits(kind.bit_width) - (signed << (kind.bit_width - 1))
    if pa.types.is_floating(kind):
        return float(rng.randint(-(2**20), 2**20)) / 64
    if pa.types.is_date64(kind):
        return rng.randint(-10000, 10000) * 86_400_000
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return rng.randint(-10000, 10000)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "".join(rng.choices(string.ascii_letters + "\u00fc\u20ac\U0001f600", k=rng.randrange(6)))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return rng.randbytes(rng.randrange(6))
    if pa.types.is_struct(kind):
        return {f.name: _random_value(rng, f.type, f.nullable) for f in kind.fields}
    size = kind.list_size if pa.types.is_fixed_size_list(kind) else rng.randrange(4)
    return [_random_value(rng, kind.value_type, kind.value_field.nullable) for _ in range(size)]


def _random_batch(rng, schema, rows):
    columns = [pa.array([_random_value(rng, f.type, f.nullable) for _ in range(rows)], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _random_schema(rng):
    fields = []
    for i in range(rng.randint(1, 5)):
        nullable = rng.random() < 0.8
        fields.append(pa.field(f"c{i}", _random_type(rng, 4), nullable=nullable))
    return pa.schema(fields)


def _empty(schema):
    return pa.RecordBatch.from_arrays([_empty_array(field.type) for field in schema], schema=schema)


def _empty_array(kind):
    if pa.types.is_union(kind):  # pa.array() does not make these two
        return pa.UnionArray.from_dense(
            pa.array([], pa.int8()), pa.array([], pa.int32()), [pa.array([], pa.int8())], ["a"]
        )
    if pa.types.is_run_end_encoded(kind):
        return pa.RunEndEncodedArray.from_arrays(pa.array([], pa.int32()), pa.array([], pa.int8()))
    return pa.array([], kind)


def _samples(count):
    """Random batches, each with its seed and the generator to go on with."""
    for seed in range(count):
        rng = random.Random(seed)
        batch = _random_batch(rng, _random_schema(rng), rng.randint(1, 40))
        # A part of a larger batch half of the time, so that buffers begin anywhere.
        if seed % 2:
            first = rng.randrange(batch.num_rows)
            batch = batch.slice(first, rng.randint(1, batch.num_rows - first))
        yield seed, rng, batch


class PropertyTest(unittest.TestCase):
    """Many random schemas; a failure names the seed."""

    def check(self, wanted, found):
        found.validate(full=True)
        self.assertEqual(found.schema, wanted.schema)
        if not found.equals(wanted):
            self.fail(f"wanted {wanted}\nfound {found}")

    def test_the_c_data_interface_keeps_every_batch(self):
        for seed, rng, batch in _samples(300):
            with self.subTest(seed=seed):
                self.check(batch, _slice(batch, 0, batch.num_rows))
                first = rng.randint(0, batch.num_rows)
                rows = rng.randint(0, batch.num_rows - first)
                self.check(batch.slice(first, rows), _slice(batch, first, rows))

    def test_pyarrow_reads_what_the_feed_writes(self):
        for seed, rng, batch in _samples(300):
            with self.subTest(seed=seed):
                first = rng.randrange(batch.num_rows)
                rows = rng.randint(1, batch.num_rows - first)
                with pa.ipc.open_stream(_encode(batch, first, rows)) as reader:
                    self.check(batch.slice(first, rows), reader.read_next_batch())

    def test_the_feed_reads_what_pyarrow_writes(self):
        for seed, _, batch in _samples(300):
            with self.subTest(seed=seed):
                self.check(batch, _decode(batch))

    def test_streams_pass_and_batches_are_joined(self):
        for seed, rng, batch in _samples(60):
            with self.subTest(seed=seed):
                batches = [batch] + [_random_batch(rng, batch.schema, rng.randint(0, 9)) for _ in range(3)]
                out = ctypes.create_string_buffer(STREAM_BYTES)
                _call(BRIDGE.bridge_restream, _export_stream(batch.schema, batches), out)
                reader = pa.RecordBatchReader._import_from_c(ctypes.addressof(out))
                for wanted in batches:
                    self.check(wanted, reader.read_next_batch())
                self.assertRaises(StopIteration, reader.read_next_batch)
                joined = _Exported()
                _call(BRIDGE.bridge_concat, _export_stream(batch.schema, batches), joined.schema, joined.array)
                self.check(pa.concat_batches(batches), joined.batch())


class InteropTest(unittest.TestCase):
    def test_buffers_stay_where_they_are(self):
        batch = pa.record_batch(
            {
                "x": pa.array(range(1000), pa.float32()),
                "tags": pa.array([["a", "b"]] * 1000),
                "point": pa.array([{"x": 1.5}] * 1000),
            }
        )
        back = _slice(batch, 10, 900)
        self.assertEqual(back["x"].buffers()[1].address, batch["x"].buffers()[1].address)
        self.assertEqual(back["tags"].values.buffers()[2].address, batch["tags"].values.buffers()[2].address)
        pages = [rows["point"].field(0).buffers()[1].address // 4096 for rows in (back, batch)]
        self.assertEqual(pages[0], pages[1])

    def test_memory_lives_as_long_as_its_last_user_and_no_longer(self):
        gc.collect()
        before = pa.total_allocated_bytes()
        batch = pa.record_batch({"x": pa.array([[i] * 10 for i in range(5000)], pa.list_(pa.int64()))})
        again = _slice(_slice(batch, 100, 4000), 50, 10)
        del batch
        gc.collect()
        self.assertGreater(pa.total_allocated_bytes(), before + 400_000)
        self.assertEqual(again["x"][0].as_py(), [150] * 10)
        values = again["x"].values
        del again
        gc.collect()
        self.assertGreater(pa.total_allocated_bytes(), before + 400_000)
        self.assertEqual(values[len(values) - 1].as_py(), 4099)
        del values
        gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)

    def test_types_that_are_not_carried_are_named_with_their_column(self):
        for kind in UNSUPPORTED:
            with self.subTest(str(kind)):
                schema = pa.schema([("good", pa.int8()), ("odd", kind)])
                for function in (_slice, _encode):
                    with self.assertRaisesRegex(BridgeError, 'INVALID_ARGUMENT: column "odd": '):
                        function(_empty(schema), 0, 0)

    def test_errors_release_what_was_given(self):
        gc.collect()
        before = pa.total_allocated_bytes()
        batch = pa.record_batch({"d": pa.array(["a", "b"] * 1000).dictionary_encode()})
        self.assertRaises(BridgeError, _slice, batch, 0, 1)
        del batch
        gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)

    def test_extension_types_are_their_storage(self):
        schema = pa.schema([pa.field("u", pa.list_(pa.int8()), metadata={"ARROW:extension:name": "my.type"})])
        batch = pa.record_batch([pa.array([[1], None], pa.list_(pa.int8()))], schema=schema)
        self.assertEqual(_slice(batch, 0, 2).to_pydict(), {"u": [[1], None]})


if __name__ == "__main__":
    unittest.main()
