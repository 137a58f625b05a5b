"""What calls TensorFlow. Not among `//...`: its packages are 310 MB, and 1.4 GB once they are installed.

    ./bazelw test //millrace/tensorflowonspark:tensorflow_test
"""

import os
import sys
import tempfile
import unittest

from spark_cluster import spark_home

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
sys.path += map(str, (spark_home("3_5") / "python/lib").glob("*.zip"))  # PySpark, which pipeline imports

import tensorflow as tf  # noqa: E402
from tensorflowonspark import compat, pipeline  # noqa: E402


class _Scorer(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 2, 1], tf.float32, "x"), tf.TensorSpec([None], tf.int64, "k")])
    def serve(self, x, k):
        return {"doubled": tf.reduce_sum(x, axis=[1, 2]) * 2.0, "after": k + 1}


class TensorFlowTest(unittest.TestCase):
    def _args(self, folder, **params):
        return pipeline.Namespace({
            "export_dir": folder, "tag_set": "serve", "signature_def_key": None, "batch_size": 2,
            "input_mapping": {"b": "k", "c": "x"}, "output_mapping": {"doubled": "y", "after": "z"}, **params,
        })  # fmt: skip

    def test_rows_are_scored_by_a_saved_model(self):
        scorer = _Scorer()
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(scorer, folder, signatures={"serving_default": scorer.serve, "other": scorer.serve})
            rows = [(1, [1.0, 1.0]), (2, [0.0, 0.0]), (3, [2.0, 0.5])]  # columns b and c
            answers = [(2, 4.0), (3, 0.0), (4, 5.0)]  # of tensors "after" and "doubled"
            self.assertEqual(list(pipeline._apply(iter(rows), self._args(folder))), answers)
            other = self._args(folder, signature_def_key="other", tag_set=None)
            self.assertEqual(list(pipeline._apply(iter(rows), other)), answers)
            self.assertEqual(list(pipeline._apply(iter([]), other)), [])
        with self.assertRaisesRegex(AssertionError, "Inferencing requires --export_dir argument"):
            list(pipeline._apply(iter(rows), self._args("")))

    def test_compat(self):
        options = tf.data.Options()
        compat.disable_auto_shard(options)
        policy = options.experimental_distribute.auto_shard_policy
        self.assertEqual(policy, tf.data.experimental.AutoShardPolicy.OFF)
        self.assertEqual(compat.is_gpu_available(), bool(tf.config.list_physical_devices("GPU")))


if __name__ == "__main__":
    unittest.main()
