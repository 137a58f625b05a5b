"""DuckDB queries streams of //feed; see README.md."""

import ctypes
import datetime
import gc
import unittest

import duckdb
import pyarrow as pa

BRIDGE = ctypes.CDLL("testing/arrow_interop/libarrow_bridge.so")
STREAM_BYTES = 40  # of struct ArrowArrayStream

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class FeedStream:
    """An ArrowArrayStream that //feed exports: nothing of pyarrow stands between it and who takes it."""

    def __init__(self, schema, batches):
        given = ctypes.create_string_buffer(STREAM_BYTES)
        pa.RecordBatchReader.from_batches(schema, batches)._export_to_c(ctypes.addressof(given))
        self._stream = ctypes.create_string_buffer(STREAM_BYTES)
        error = ctypes.create_string_buffer(1000)
        if BRIDGE.bridge_restream(given, self._stream, error):
            raise RuntimeError(error.value.decode())

    def __arrow_c_stream__(self, requested_schema=None):
        return _new_capsule(ctypes.addressof(self._stream), b"arrow_array_stream", None)


def _batch(first, rows):
    ids = range(first, first + rows)
    return pa.record_batch(
        {
            "id": pa.array(ids, pa.int64()),
            "label": pa.array([None if i % 7 == 0 else f"label {i}" for i in ids], pa.utf8()),
            "weight": pa.array([i / 2 for i in ids], pa.float32()),
            "good": pa.array([i % 2 == 0 for i in ids], pa.bool_()),
            "when": pa.array(
                [datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=i) for i in ids], pa.timestamp("us")
            ),
            "raw": pa.array([bytes([i % 256]) * 3 for i in ids], pa.binary()),
            "image": pa.array([[i, i + 1, i + 2] for i in ids], pa.list_(pa.float32(), 3)),
            "tags": pa.array(
                [None if i % 5 == 0 else [f"t{j}" for j in range(i % 4)] for i in ids], pa.list_(pa.utf8())
            ),
            "box": pa.array(
                [{"x": i, "y": None if i % 3 == 0 else -i} for i in ids],
                pa.struct([("x", pa.int32()), ("y", pa.int32())]),
            ),
        }
    )


class DuckDbTest(unittest.TestCase):
    def setUp(self):
        # Slices, so that buffers begin in the middle.
        self.batches = [_batch(0, 100).slice(3, 90), _batch(1000, 3000), _batch(0, 5).slice(5)]
        self.connection = duckdb.connect()

    def tearDown(self):
        self.connection.close()

    def test_every_value_arrives(self):
        stream = FeedStream(self.batches[0].schema, self.batches)
        found = self.connection.execute("select * from stream").fetchall()
        wanted = [tuple(row.values()) for batch in self.batches for row in batch.to_pylist()]
        # DuckDB has tuples for arrays of a fixed size.
        normal = [tuple(list(value) if isinstance(value, tuple) else value for value in row) for row in found]
        self.assertEqual(len(normal), 3090)
        self.assertEqual(normal, wanted)

    def test_queries_run_on_it(self):
        stream = FeedStream(self.batches[0].schema, self.batches)
        query = (
            "select count(*), sum(id), count(label), sum(image[2]), max(len(tags)), min(box.y) "
            "from stream where good"
        )
        ids = [i for i in (*range(3, 93), *range(1000, 4000)) if i % 2 == 0]
        labels = sum(i % 7 != 0 for i in ids)
        lowest = -max(i for i in ids if i % 3 != 0)
        wanted = (len(ids), sum(ids), labels, sum(i + 1 for i in ids), 2, lowest)
        self.assertEqual(self.connection.execute(query).fetchone(), wanted)

    def test_memory_is_released_when_the_query_is_over(self):
        gc.collect()
        self.batches.clear()
        gc.collect()
        before = pa.total_allocated_bytes()
        batch = _batch(0, 20_000)
        stream = FeedStream(batch.schema, [batch])
        del batch
        self.assertGreater(pa.total_allocated_bytes(), before + 1_000_000)
        self.assertEqual(self.connection.execute("select sum(id) from stream").fetchone()[0], 199_990_000)
        del stream
        gc.collect()
        self.assertEqual(pa.total_allocated_bytes(), before)


if __name__ == "__main__":
    unittest.main()
