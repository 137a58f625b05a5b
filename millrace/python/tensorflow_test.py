"""A feed as a data set of TensorFlow. Not among `//...`: its packages are 310 MB, and 1.4 GB once they are installed.

    ./bazelw test //millrace/python:tensorflow_test
"""

import os
import unittest

import millrace

_ROOT = os.getcwd()
_ROWS = 1000
_BATCH = 64
_ALIGNED = 64  # bytes


def reads(node):
    """As README.md says. TensorFlow copies the memory that was received, unless it is aligned as its own is."""
    import numpy as np
    import tensorflow as tf

    feed = node.feed(batch=_BATCH)
    received = []

    def batches():
        for batch in feed:
            arrays = {name: batch[name].numpy() for name in ("id", "x")}
            received.append(arrays["x"].ctypes.data)
            yield arrays

    signature = {"id": tf.TensorSpec((None,), tf.int64), "x": tf.TensorSpec((None, 4), tf.float32)}
    rows = total = 0
    for step, batch in enumerate(tf.data.Dataset.from_generator(batches, output_signature=signature)):
        rows += len(batch["id"])
        total += int(tf.reduce_sum(batch["id"]))
        tf.debugging.assert_equal(tf.reduce_sum(batch["x"], axis=1), 4 * tf.cast(batch["id"], tf.float32))
        is_same = np.asarray(memoryview(batch["x"])).ctypes.data == received[step]
        assert is_same == (received[step] % _ALIGNED == 0), (is_same, received[step] % _ALIGNED)
    node.metric("rows", rows, total)


class TensorFlowTest(unittest.TestCase):
    def test_a_feed_is_a_data_set_of_tensorflow(self):
        import numpy as np

        metrics = {}
        observer = millrace.ClusterObserver(None, lambda _, name, step, value: metrics.update({name: (step, value)}))
        x = np.repeat(np.arange(_ROWS, dtype=np.float32), 4).reshape(_ROWS, 4)
        options = {"input_mode": millrace.InputMode.FEED, "progress": False, "cluster_file": False}
        with millrace.Cluster.run(reads, observer=observer, **options) as cluster:
            cluster.train({"id": np.arange(_ROWS), "x": x}, num_partitions=1, end_of_feed=True)
        self.assertEqual(metrics["rows"], (_ROWS, sum(range(_ROWS))))


if __name__ == "__main__":
    os.environ["MILLRACE_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace.so")
    os.environ["MILLRACE_CLUSTER_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace_cluster.so")
    os.environ["MILLRACE_AGENT"] = os.path.join(_ROOT, "core/agent/millrace-agent")
    unittest.main()
