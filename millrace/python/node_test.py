"""Python nodes, fed by real clusters."""

import os
import pickle
import secrets
import subprocess
import sys
import unittest
import unittest.mock

import pyarrow as pa
from testing_cluster import Cluster, ids_of, restarts, rows, run_in_three_parts, typed_rows

import millrace


class NodeTest(unittest.TestCase):
    maxDiff = None

    def test_two_nodes_train_and_answer_every_row_in_order(self):
        parts = [rows(0, 11), rows(11, 9), rows(20, 10)]
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
            results = cluster.inference(typed_rows())
            cluster.shutdown()
        given = typed_rows().to_pydict()
        returned = results.to_pydict()
        for name in ("int", "half", "text", "flag", "maybe", "cube", "moment", "day"):
            self.assertEqual(returned[name], given[name], name)
        self.assertEqual(results.schema.field("int").type, pa.int16())
        self.assertEqual(results.schema.field("half").type, pa.float32())
        self.assertEqual(returned["nested"], [[1.5, 2], [3, 4], [5, 6]])
        self.assertEqual(returned["bytes"], [b"a", None, b"\x00"])

    def test_a_batch_of_many_columns_has_each_in_its_place(self):
        columns = {"id": pa.array(range(8))}
        for number in range(60):
            values = [number + i for i in range(8)]
            columns[f"f{number}"] = [str(each) for each in values] if number % 3 == 0 else pa.array(values)
        several = {
            "pair": pa.FixedSizeListArray.from_arrays(pa.array([i / 2 for i in range(16)], pa.float32()), 2),
            "cube": pa.array([[[[i], [i]]] for i in range(8)], pa.list_(pa.list_(pa.list_(pa.int16(), 1), 2), 1)),
            "maybe": pa.array([1.5, 2.5, 3.5, 4.5, 5.5, None, 7.5, 8.5]),
            "day": pa.array(range(8), pa.date32()),
            "moment": pa.array(range(8), pa.timestamp("ns")),
        }
        with Cluster("wide") as cluster:
            cluster.train(pa.table({**columns, **several, "point": [{"x": i} for i in range(8)]}))
            cluster.shutdown()
        self.assertEqual([(step, rows) for _, step, rows in cluster.metrics["rows"]], [(0, 4), (4, 4)])

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
                cluster.inference(rows(0, 4))
            cluster.shutdown()
        self.assertIn("refused", cluster.lines)

    def test_a_feed_is_an_arrow_stream(self):
        with Cluster("streams") as cluster:
            cluster.train(rows(0, 10))
            cluster.end_feed()
            cluster.shutdown()
        self.assertEqual([(step, value) for _, step, value in cluster.metrics["total"]], [(10, 45)])

    def test_a_fork_of_a_node_does_not_disturb_it(self):
        with Cluster("forks") as cluster:
            cluster.train(rows(0, 10))
            cluster.shutdown()
        self.assertEqual([value for _, _, value in cluster.metrics["rows"]], [10])

    def test_a_node_hears_that_members_change(self):
        with Cluster("members", nodes=2, failure=restarts(millrace.RestartPolicy(1, initial_backoff=0.01))) as cluster:
            cluster.shutdown()

    def test_a_run_that_is_stopped_goes_on_in_other_processes_with_the_rows_that_are_left(self):
        lines, result = run_in_three_parts("goes_on", rows(0, 20), rows(20, 10), rows(30, 70))
        self.assertEqual(ids_of(lines), list(range(100)))
        self.assertEqual(result.rows, 100)  # those that were left out are among them

    def test_a_program_that_is_started_again_goes_on_with_the_rows_after_its_checkpoint(self):
        with Cluster("dies", failure=restarts(millrace.RestartPolicy(1, initial_backoff=0.01))) as cluster:
            cluster.train(rows(0, 15), rows(15, 40))
            cluster.shutdown()
        self.assertEqual(ids_of(cluster.lines), list(range(55)))

    def test_other_threads_run_while_a_feed_waits_for_rows(self):
        with Cluster("gil") as cluster:
            cluster.wait_for(lambda: len(cluster.metrics["tick"]) > 20)
            cluster.train(rows(0, 10))
            cluster.shutdown()
        self.assertEqual([value for _, _, value in cluster.metrics["rows"]], [10])

    def test_a_thread_that_waits_for_rows_gets_them(self):
        with Cluster("closes") as cluster:
            cluster.wait_for(lambda: cluster.metrics["waits"])
            cluster.train(rows(0, 4))
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

    def _cause_of_the_end(self, program, *arguments):
        with Cluster(program, arguments=arguments) as cluster:
            with self.assertRaises(millrace.MillraceError) as raised:
                cluster.shutdown()
        self.assertEqual(raised.exception.node, "worker:0")
        return raised.exception

    def test_a_program_that_ends_at_once_is_named_with_its_exit_code(self):
        self.assertRegex(str(self._cause_of_the_end("exits_at_once")), r"worker:0.*exited with code 4")

    def test_a_program_that_is_killed_is_named_with_its_signal(self):
        self.assertRegex(str(self._cause_of_the_end("is_killed")), r"worker:0.*killed by SIGKILL")

    def test_a_program_that_crashes_is_named_with_where_it_was(self):
        cause = self._cause_of_the_end("crashes")
        self.assertRegex(str(cause), r"worker:0.*killed by SIGSEGV")
        self.assertRegex("\n".join(cause.stderr_lines), r"node_test_program.py\", line \d+ in crashes")

    def test_what_a_thread_raised_is_the_error_where_main_meets_it(self):
        cause = self._cause_of_the_end("fails_in_a_thread")
        self.assertRegex(str(cause), r"worker:0.*ValueError: no shard 2 \(node_test_program.py:\d+\)")

    def test_what_a_process_of_the_program_raised_is_the_error_where_main_meets_it(self):
        for how in ("spawn", "fork", "forkserver"):
            cause = self._cause_of_the_end("fails_in_a_process", how)
            self.assertRegex(str(cause), r"worker:0.*ValueError: no shard 2", how)
            self.assertIn("in shard", "\n".join(cause.stderr_lines), how)

    def test_an_exception_of_many_lines_is_told_in_one(self):
        cause = self._cause_of_the_end("fails_at_length")
        self.assertRegex(
            str(cause).split("\n")[0],
            r"worker:0.*ValueError: cannot read the file: \.\.\. no such number: x \(node_test_program.py:\d+\)",
        )

    def test_a_fork_that_fails_does_not_end_the_node(self):
        with Cluster("forks_fail") as cluster:
            cluster.train(rows(0, 10))
            cluster.shutdown()
        codes = {how: cluster.metrics[how][0][1] for how in ("raises", "exits", "returns")}
        self.assertEqual(codes, {"raises": 1, "exits": 5, "returns": 0})
        self.assertEqual([value for _, _, value in cluster.metrics["rows"]], [10])
        self.assertIn("ValueError: only a fork", cluster.lines)

    def test_inference_rows_without_results_are_an_error(self):
        with Cluster("leaves") as cluster:
            with self.assertRaises(millrace.MillraceError):
                cluster.inference(rows(0, 4))
            with self.assertRaisesRegex(millrace.MillraceError, "worker:0"):
                cluster.shutdown()

    def test_gpus_are_claimed_and_given_back(self):
        # Of a host of this test's own: claims are known to everybody on this one.
        uuids = [f"GPU-{i}-{secrets.token_hex(8)}" for i in range(2)]
        script = os.path.join(os.environ["TEST_TMPDIR"], "gpus")
        with open(script, "w") as file:
            file.write("driver 550\nnvml 12\n")
            file.writelines(f"gpu {i} uuid={uuid} total=1000 mig_mode=0\n" for i, uuid in enumerate(uuids))
        nvml = {
            "FAKE_NVML_SCRIPT": script,
            "MILLRACE_GPU_HELPER": os.path.abspath("core/gpu/millrace-gpu"),
            "MILLRACE_NVML_LIBRARY": os.path.abspath("testing/fake_nvml/libfake_nvml.so"),
        }
        with unittest.mock.patch.dict(os.environ, nvml):
            with Cluster("claims", arguments=uuids, node=millrace.NodeOptions(gpus_per_node=1)) as cluster:
                cluster.shutdown()
        self.assertIn("claimed", cluster.lines)

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
        code = (
            "import sys; before = set(sys.modules); import millrace, millrace.examples.digits\n"
            "found = {name.split('.')[0] for name in set(sys.modules) - before}\n"
            "print(sorted(found - set(sys.stdlib_module_names)))"
        )
        self.assertEqual(self._run(code).stdout, "['millrace']\n")


if __name__ == "__main__":
    unittest.main()
