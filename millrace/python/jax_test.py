"""Columns as arrays of JAX."""

import gc
import os
import unittest

import millrace

_ROOT = os.getcwd()
# Rows of 12 bytes, which lie at any multiple of 4: of sixteen batches, 204 bytes apart, one begins at a multiple of
# _ALIGNED.
_WIDTH = 3
_BATCH = 17
_ROWS = 16 * _BATCH
_ALIGNED = 64  # bytes


def reads(node):
    """As README.md says. JAX copies the memory that was received, unless it is aligned as its own is; what it does not
    copy outlives batch and feed."""
    import jax

    feed = node.feed(batch=_BATCH)
    arrays, shared = [], 0
    for batch in feed:
        ids, x = (jax.dlpack.from_dlpack(batch[name]) for name in ("id", "x"))
        assert x.shape == (_BATCH, _WIDTH), x.shape
        assert x.dtype == "float32" and ids.dtype == "int32", (x.dtype, ids.dtype)
        received = batch["x"].numpy().ctypes.data
        is_same = x.unsafe_buffer_pointer() == received
        assert is_same == (received % _ALIGNED == 0), (is_same, received % _ALIGNED)
        shared += is_same
        arrays.append((ids, x))
        for name, part in (("name", "of type utf8 is no tensor"), ("maybe", f"{_BATCH} nulls")):
            try:
                jax.dlpack.from_dlpack(batch[name])
            except millrace.InvalidArgumentError as error:
                assert part in str(error), error
            else:
                raise AssertionError(f"{name} is an array")
    assert shared == 1, shared
    node.metric("rows", sum(len(ids) for ids, _ in arrays), 0)
    feed.close()
    del feed, batch
    gc.collect()
    junk = [bytearray(1 << 16) for _ in range(64)]  # takes the place of what was freed
    for ids, x in arrays:
        assert (x.sum(axis=1) == _WIDTH * ids).all(), x
    del junk
    print("outlived", flush=True)


class JaxTest(unittest.TestCase):
    def test_a_column_is_an_array_of_jax(self):
        import numpy as np

        metrics, lines = {}, []
        observer = millrace.ClusterObserver(
            lambda _, line: lines.append(line), lambda _, name, step, value: metrics.update({name: step})
        )
        columns = {
            "id": np.arange(_ROWS, dtype=np.int32),
            "x": np.repeat(np.arange(_ROWS, dtype=np.float32), _WIDTH).reshape(_ROWS, _WIDTH),
            "name": [f"row {i}" for i in range(_ROWS)],
            "maybe": [None] * _ROWS,
        }
        options = {"input_mode": millrace.InputMode.FEED, "progress": False, "cluster_file": False}
        with millrace.Cluster.run(reads, observer=observer, **options) as cluster:
            cluster.train(columns, num_partitions=1, end_of_feed=True)
        self.assertEqual(metrics, {"rows": _ROWS})
        self.assertIn("outlived", lines)


if __name__ == "__main__":
    os.environ["MILLRACE_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace.so")
    os.environ["MILLRACE_CLUSTER_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace_cluster.so")
    os.environ["MILLRACE_AGENT"] = os.path.join(_ROOT, "core/agent/millrace-agent")
    unittest.main()
