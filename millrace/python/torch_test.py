"""Nodes that use PyTorch, fed by real clusters."""

import importlib.util
import unittest

import pyarrow as pa
from testing_cluster import Cluster, ids_of, rows, run_in_three_parts, typed_rows

import millrace


@unittest.skipUnless(
    importlib.util.find_spec("torch"), "PyTorch is not installed for this Python (Debian package python3-torch)"
)
class TorchTest(unittest.TestCase):
    maxDiff = None

    def test_tensors_are_the_memory_that_was_received(self):
        with Cluster("tensors") as cluster:
            results = cluster.inference(typed_rows())
            cluster.shutdown()
        given = typed_rows().to_pydict()
        returned = results.to_pydict()
        for name in ("int", "half", "flag", "cube", "equal"):
            self.assertEqual(returned[name], given[name], name)

    def _check_loader(self, *arguments):
        parts = [rows(0, 20), rows(20, 10), rows(30, 70)]
        with Cluster("loads", nodes=2, arguments=arguments) as cluster:
            cluster.train(*parts)
            cluster.shutdown()
        totals = cluster.metrics["total"]
        self.assertEqual(sum(step for _, step, _ in totals), 100)
        self.assertEqual(sum(value for _, _, value in totals), sum(range(100)))

    def test_a_data_loader_without_workers_has_every_row_once(self):
        self._check_loader("0")

    def test_a_data_loader_with_forks_as_workers_has_every_row_once(self):
        self._check_loader("2", "fork")

    def test_a_data_loader_with_new_processes_as_workers_has_every_row_once(self):
        self._check_loader("2", "spawn")

    def test_a_run_that_is_stopped_goes_on_through_a_data_loader_with_the_rows_that_are_left(self):
        lines, result = run_in_three_parts("loads_and_goes_on", rows(0, 20), rows(20, 10), rows(30, 70))
        self.assertEqual(ids_of(lines), list(range(100)))
        self.assertEqual(result.rows, 100)

    def test_a_tensor_outlives_batch_feed_and_node(self):
        # Large enough to be overwritten by what is allocated after it is freed.
        image = pa.FixedSizeListArray.from_arrays(pa.array([float(i) for i in range(4 << 15)], pa.float32()), 1 << 15)
        with Cluster("tensors_outlive") as cluster:
            cluster.train(*[pa.table({"image": image}) for _ in range(3)])
            cluster.shutdown()
        self.assertIn("outlived", cluster.lines)

    def test_what_a_worker_of_a_data_loader_raised_is_the_error_of_the_cluster(self):
        with Cluster("fails_in_a_loader") as cluster:
            with self.assertRaises(millrace.MillraceError) as raised:
                cluster.shutdown()
        self.assertRegex(str(raised.exception).split("\n")[0], r"worker:0.*ValueError: no shard 2")

    def test_errors_of_the_feed_reach_a_data_loader(self):
        with Cluster("load_fails") as cluster:
            cluster.train(rows(0, 10))
            cluster.shutdown()


if __name__ == "__main__":
    unittest.main()
