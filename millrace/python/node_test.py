"""Python nodes, fed by real clusters."""

import datetime
import importlib.util
import os
import pickle
import subprocess
import sys
import unittest

import pyarrow as pa
from testing_cluster import Cluster

import millrace

_UTC = datetime.timezone.utc
_NEEDS_TORCH = unittest.skipUnless(
    importlib.util.find_spec("torch"), "PyTorch is not installed for this Python (Debian package python3-torch)"
)


def _rows(first, count):
    ids = list(range(first, first + count))
    image = pa.FixedSizeListArray.from_arrays(pa.array([float(i) for i in ids for _ in range(4)], pa.float32()), 4)
    return pa.table({"id": pa.array(ids), "image": image, "name": [f"row {i}" for i in ids]})


def _typed_rows():
    return pa.table({
        "int": pa.array([1, 2, 3], pa.int16()),
        "half": pa.array([0.5, 1.5, -2], pa.float32()),
        "text": ["one", "", "drei \u00fc"],
        "large": pa.array(["a", None, "c"], pa.large_utf8()),
        "flag": [True, False, True],
        "maybe": [1.5, None, 2.5],
        "cube": pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]], [[9, 0], [1, 2]]], pa.list_(pa.list_(pa.int32(), 2), 2)),
        "equal": pa.array([[1, 2], [3, 4], [5, 6]]),
        "ragged": pa.array([["a"], None, ["b", None]]),
        "struct": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": None}, {"a": 3, "b": "z"}]),
        "day": pa.array([datetime.date(2024, 2, 29), datetime.date(1969, 12, 31), datetime.date(1970, 1, 1)]),
        "moment": pa.array([datetime.datetime(2024, 2, 29, 1, 2, 3, 4)] * 3, pa.timestamp("us")),
        "zoned": pa.array([datetime.datetime(2024, 2, 29, tzinfo=_UTC)] * 3, pa.timestamp("ms", "UTC")),
    })  # fmt: skip


class NodeTest(unittest.TestCase):
    maxDiff = None

    def test_two_nodes_train_and_answer_every_row_in_order(self):
        parts = [_rows(0, 11), _rows(11, 9), _rows(20, 10)]
        with Cluster("train", nodes=2) as cluster:
            cluster.train(*parts)
            cluster.train(*parts)
            cluster.end_feed()
            results = cluster.inference(*parts)
            cluster.shutdown()
        totals = cluster.metrics["total"]
        self.assertEqual(sum(step for _, step, _ in totals), 60)
        self.assertEqual(sum(value for _, _, value in totals), 2 * sum(range(30)))
        expected = [
            {"id": i, "doubled": 2 * i, "name": f"ROW {i}", "image": [float(i)] * 4, "even": i % 2 == 0}
            for i in range(30)
        ]
        self.assertEqual(results.to_pylist(), expected)

    def test_every_type_comes_as_python_numpy_and_arrow_and_goes_back(self):
        with Cluster("types") as cluster:
            results = cluster.inference(_typed_rows())
            cluster.shutdown()
        given = _typed_rows().to_pydict()
        returned = results.to_pydict()
        for name in ("int", "half", "text", "flag", "maybe", "cube", "moment", "day"):
            self.assertEqual(returned[name], given[name], name)
        self.assertEqual(results.schema.field("int").type, pa.int16())
        self.assertEqual(results.schema.field("half").type, pa.float32())
        self.assertEqual(returned["nested"], [[1.5, 2], [3, 4], [5, 6]])
        self.assertEqual(returned["bytes"], [b"a", None, b"\x00"])

    @_NEEDS_TORCH
    def test_tensors_are_the_memory_that_was_received(self):
        with Cluster("tensors") as cluster:
            results = cluster.inference(_typed_rows())
            cluster.shutdown()
        given = _typed_rows().to_pydict()
        returned = results.to_pydict()
        for name in ("int", "half", "flag", "cube", "equal"):
            self.assertEqual(returned[name], given[name], name)

    def test_memory_outlives_batch_feed_and_node(self):
        # Large enough to be overwritten by what is allocated after it is freed.
        image = pa.FixedSizeListArray.from_arrays(pa.array([float(i) for i in range(4 << 15)], pa.float32()), 1 << 15)
        with Cluster("lifetimes") as cluster:
            cluster.train(*[pa.table({"image": image}) for _ in range(7)])
            cluster.shutdown()
        self.assertIn("outlived", cluster.lines)

    def test_bad_use_is_a_typed_exception_that_says_what_to_do(self):
        with Cluster("misuse") as cluster:
            # More results than rows: that is the call's error, and not the node's, which has caught it.
            with self.assertRaisesRegex(millrace.FailedPreconditionError, "results"):
                cluster.inference(_rows(0, 4))
            cluster.shutdown()
        self.assertIn("refused", cluster.lines)

    def test_a_feed_is_an_arrow_stream(self):
        with Cluster("streams") as cluster:
            cluster.train(_rows(0, 10))
            cluster.end_feed()
            cluster.shutdown()
        self.assertEqual([(step, value) for _, step, value in cluster.metrics["total"]], [(10, 45)])

    def test_a_fork_of_a_node_does_not_disturb_it(self):
        with Cluster("forks") as cluster:
            cluster.train(_rows(0, 10))
            cluster.shutdown()
        self.assertEqual([value for _, _, value in cluster.metrics["rows"]], [10])

    def test_a_node_hears_that_members_change(self):
        with Cluster("members", nodes=2, restart=millrace.RestartPolicy(1, initial_backoff=0.01)) as cluster:
            cluster.shutdown()

    def test_other_threads_run_while_a_feed_waits_for_rows(self):
        with Cluster("gil") as cluster:
            cluster.wait_for(lambda: len(cluster.metrics["tick"]) > 20)
            cluster.train(_rows(0, 10))
            cluster.shutdown()
        self.assertEqual([value for _, _, value in cluster.metrics["rows"]], [10])

    def test_a_thread_that_waits_for_rows_gets_them(self):
        with Cluster("closes") as cluster:
            cluster.wait_for(lambda: cluster.metrics["waits"])
            cluster.train(_rows(0, 4))
            cluster.shutdown()

    def test_an_exception_is_the_error_of_the_cluster_by_its_last_line(self):
        with Cluster("fails") as cluster:
            with self.assertRaisesRegex(
                millrace.MillraceError, r"worker:0.*ValueError: the loss is not a number \(node_test_program.py:\d+\)"
            ):
                cluster.shutdown()
        self.assertIn("Traceback (most recent call last):", cluster.lines)

    def test_an_exit_code_is_the_error_of_the_cluster(self):
        with Cluster("exits") as cluster:
            with self.assertRaisesRegex(millrace.MillraceError, r"worker:0.*sys.exit\(3\).*exited with code 3"):
                cluster.shutdown()

    def test_inference_rows_without_results_are_an_error(self):
        with Cluster("leaves") as cluster:
            with self.assertRaises(millrace.MillraceError):
                cluster.inference(_rows(0, 4))
            with self.assertRaisesRegex(millrace.MillraceError, "worker:0"):
                cluster.shutdown()

    def test_a_model_appears_at_once_or_not_at_all(self):
        path = os.path.join(os.environ["TEST_TMPDIR"], "model")
        with Cluster("export", arguments=[path]) as cluster:
            cluster.shutdown()
        with open(os.path.join(path, "model")) as file:
            self.assertEqual(file.read(), "weights")


class WithoutClusterTest(unittest.TestCase):
    def test_errors_go_from_process_to_process(self):
        error = millrace.NotFoundError("NOT_FOUND", "no column")
        error.node = "worker:1"
        copied = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copied), str(copied), copied.node), (type(error), "NOT_FOUND: no column", "worker:1"))

    def _run(self, code, **env):
        command = [sys.executable, "-s", "-B", "-c", code]
        return subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)

    def test_without_an_agent_a_node_says_what_starts_it(self):
        ended = self._run("import millrace; millrace.run_node(print)")
        self.assertEqual(ended.returncode, 2)
        self.assertRegex(ended.stderr, "millrace: .*FAILED_PRECONDITION: .*a cluster starts it")

    def test_a_library_that_is_not_there_is_named(self):
        ended = self._run("import millrace; millrace.run_node(print)", MILLRACE_LIBRARY="/nowhere/libmillrace.so")
        self.assertEqual(ended.returncode, 2)
        self.assertRegex(ended.stderr, "NOT_FOUND: .*MILLRACE_LIBRARY.*/nowhere/libmillrace.so")

    def test_importing_brings_nothing_but_the_standard_library(self):
        names = ('numpy', 'torch', 'pyarrow', 'pandas', 'pyspark')
        code = f"import sys, millrace; print([name for name in {names} if name in sys.modules])"
        self.assertEqual(self._run(code).stdout, "[]\n")


if __name__ == "__main__":
    unittest.main()
