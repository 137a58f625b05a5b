"""Drivers in Python, on real clusters of nodes in Python and in C++."""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from eventually import wait_for
from testing_cluster import Heard, restarts, run

import millrace
from millrace.local_cluster import _Listener, _Stop

_PROGRAM = os.path.abspath("millrace/python/cluster_test_program.py")
_CPP_NODE = os.path.abspath("core/cluster/cluster_test_node")
_IDS = list(range(101))
_EXPECTED = [{"doubled": 2 * i} for i in _IDS]


def answer_with_texts(node):
    """A node program by itself: see test_a_function_is_a_program."""
    feed = node.feed(mode="inference")
    for batch in feed:
        feed.results({"text": [f"{node.name} has {text}" for text in batch["text"].to_pylist()]})


class _EndlessRows:
    """A Source of rows without end in two partitions, each a batch with a blob that is large enough to be counted.
    If it fails, the first has five, and the second one, after `go`, rows with the id -1."""

    _BLOB = bytes(1 << 20)

    def __init__(self, fails=False):
        self.pulled = 0  # of both
        self.go = threading.Event()
        self._lock = threading.Lock()
        self._fails = fails

    def _batches(self, partition):
        if self._fails and partition == 1:
            self.go.wait()
        for i in range(5) if self._fails and partition == 0 else itertools.count():
            with self._lock:
                self.pulled += 1
            yield pa.record_batch({"id": [-1 if self._fails and partition == 1 else i], "blob": [self._BLOB]})

    def source(self):
        schema = pa.schema({"id": pa.int64(), "blob": pa.binary()})
        return millrace.Source(lambda p, _: pa.RecordBatchReader.from_batches(schema, self._batches(p)), 2)

    def wait_until_nobody_pulls(self, most):
        """Which takes no more than `most` rows."""
        before = -1
        while before != self.pulled:
            before = self.pulled
            assert before <= most, before
            time.sleep(0.5)


def _interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def _endless(read_before_interrupt):
    """Rows without end; Ctrl-C after some."""

    def batches(partition):
        batch = pa.record_batch({"id": list(range(1000))})
        count = 0
        while True:
            count += 1
            if partition == 0 and count == read_before_interrupt:
                _interrupt()
            yield batch

    schema = pa.schema({"id": pa.int64()})
    return millrace.Source(lambda partition, _: pa.RecordBatchReader.from_batches(schema, batches(partition)), 2)


@contextlib.contextmanager
def _interrupted_read(number):
    """Ctrl-C comes during that read of results, which goes on when it was asked to stop: between two reads it would be
    the program's that reads."""
    reads, asked = itertools.count(1), threading.Event()
    read_next, request = millrace.InferenceResult._next, _Stop.request

    def interrupt(*args):
        if next(reads) == number:
            _interrupt()
            asked.wait()
        return read_next(*args)

    def ask(*args):
        request(*args)
        asked.set()

    patch = unittest.mock.patch.object
    with patch(millrace.InferenceResult, "_next", interrupt), patch(_Stop, "request", ask):
        yield


class DataTest(unittest.TestCase):
    maxDiff = None

    def test_every_kind_of_table_is_answered_in_its_order(self):
        table = pa.table({"id": _IDS})
        kinds = {
            "table": table,
            "record batch": table.to_batches()[0],
            "reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=9)),
            "pandas": pd.DataFrame({"id": _IDS}),
            "Polars": pl.DataFrame({"id": _IDS}),
            "DuckDB": duckdb.sql("SELECT range AS id FROM range(101)"),
            "dict of lists": {"id": _IDS},
            "dict of arrays": {"id": np.array(_IDS), "image": np.zeros((101, 3), np.float32)},
            "list of dicts": [{"id": i, "name": f"row {i}", "image": np.zeros(3)} for i in _IDS],
            "generator of dicts": ({"id": i} if i else {"id": np.int64(0), "first": True} for i in _IDS),
            "list of tables": [table.slice(0, 1), table.slice(1, 0), table.slice(1)],
            "source": millrace.Source(lambda p, epoch: table.slice(p * 50, 50 if p == 0 else 51), 2),
        }
        with run(Heard(), _PROGRAM, 2, args=["double"]) as cluster:
            cluster.end_feed()
            for kind, data in kinds.items():
                self.assertEqual(cluster.inference(data).to_pylist(), _EXPECTED, kind)
            result = cluster.inference(table, num_partitions=3)
            self.assertEqual(sum(batch.num_rows for batch in result), 101)
            for again in (result.table, result.to_pylist, result.reader, result.__iter__, result.__arrow_c_stream__):
                with self.assertRaisesRegex(millrace.FailedPreconditionError, "read already"):
                    again()
            self.assertIsNone(next(result, None))
            self.assertEqual(pl.DataFrame(cluster.inference(table)).to_dicts(), _EXPECTED)
            self.assertEqual(cluster.inference(table).reader().read_all().to_pylist(), _EXPECTED)
            result = cluster.inference(table, num_partitions=3)
            first = next(result)
            self.assertEqual(first.to_pylist() + result.table().to_pylist(), _EXPECTED)
            kept = cluster.inference(table).table()
        self.assertEqual(kept.to_pylist(), _EXPECTED)  # without the cluster

    def test_the_index_of_a_frame_is_not_fed_with_or_without_arrow(self):
        frame = pd.DataFrame({"id": [3, 4, 5], "text": ["x", None, "y"], "day": pd.to_datetime(["2024-02-29"] * 3)})
        frames = {
            "counts": frame,
            "has gaps": frame[frame.id > 3],
            "has a name": frame.assign(key=["a", "b", "c"]).set_index("key"),
        }
        with run(Heard(), _PROGRAM, args=["name_columns"]) as cluster:
            for kind, data in frames.items():
                expected = [{"columns": "id text day"}] * len(data)
                self.assertEqual(cluster.inference(data).to_pylist(), expected, kind)
                with unittest.mock.patch.dict(sys.modules, {"pyarrow": None}):  # as where it is not installed
                    answers = cluster.inference(data)
                self.assertEqual(answers.to_pylist(), expected, kind)
            with unittest.mock.patch.dict(sys.modules, {"pyarrow": None}):
                fed_again = cluster.inference(cluster.inference({"id": [1, 2]}))
                answers = cluster.inference(millrace.Source(lambda p, _: {"id": [p]}, 2))
                with self.assertRaisesRegex(millrace.FailedPreconditionError, r"pyarrow.*call to_pylist\(\)"):
                    answers.__arrow_c_stream__()
                self.assertEqual(fed_again.to_pylist(), [{"columns": "columns"}] * 2)
                self.assertEqual(answers.to_pylist(), [{"columns": "id"}] * 2)

    def test_nodes_end_together(self):
        sizes = [100, 3, 250, 40, 99]  # rows of the partitions
        source = millrace.Source(lambda p, epoch: pa.table({"id": list(range(sizes[p]))}), len(sizes))
        for equal in ("drop", "pad"):
            heard = Heard()
            with run(heard, _PROGRAM, 2, args=["train_together", equal]) as cluster:
                result = cluster.train(source, end_of_feed=True)
            steps = heard.metrics["steps"]
            self.assertEqual(len(steps), 2, equal)
            self.assertEqual(len({value for _, _, value in steps}), 1, steps)  # equally many
            given = sum(rows for _, rows, _ in steps)
            self.assertEqual(result.rows + result.dropped_rows, sum(sizes), result)
            self.assertEqual(result.rows + result.repeated_rows, given, result)
            self.assertEqual(sorted(result.equal_nodes), ["worker:0", "worker:1"])
            self.assertEqual(sum(dropped for dropped, _ in result.equal_nodes.values()), result.dropped_rows)
            self.assertEqual(result.dropped_rows if equal == "pad" else result.repeated_rows, 0)
            self.assertGreater(given, 0)

    def test_what_is_no_data_says_what_is(self):
        def fails(partition, epoch):
            raise ZeroDivisionError("no such partition")

        cases = [
            ("rows.csv", "read it"),
            (3, "int is no table"),
            ([], "neither a row nor a table"),
            ([{"id": 1}, 2], "row 1 is a int"),
            ({"id": [1], "x": [1, 2]}, '"x"'),
            ([{"x": 1}, {"x": "a"}], 'data, column "x".*one type'),
            ([pa.table({"id": [1]}), pa.table({"x": [1]})], "schema"),
        ]
        with run(Heard(), _PROGRAM, args=["double"]) as cluster:
            for data, part in cases:
                with self.assertRaisesRegex(millrace.InvalidArgumentError, part):
                    cluster.train(data)
            with self.assertRaisesRegex(millrace.InvalidArgumentError, "num_partitions=0"):
                cluster.train({"id": [1]}, num_partitions=0)
            with self.assertRaisesRegex(millrace.InvalidArgumentError, "num_epochs=0"):
                cluster.train({"id": [1]}, num_epochs=0)
            for wrong, part in (
                ({"num_epochs": 1.5}, "num_epochs is 1.5, of type float: it must be int"),
                ({"num_partitions": "2"}, "num_partitions is '2', of type str: it must be int"),
                ({"batch_bytes": "1M"}, "batch_bytes is '1M', of type str: it must be int"),
                ({"feed_timeout": "1"}, "feed_timeout is '1', of type str: it must be float"),
                ({"queue": 1}, "queue is 1, of type int: it must be str"),
            ):
                with self.assertRaisesRegex(TypeError, part):
                    cluster.train({"id": [1]}, **wrong)
            with self.assertRaisesRegex(millrace.MillraceError, "ZeroDivisionError: no such partition"):
                cluster.train(millrace.Source(fails, 1))
            with self.assertRaisesRegex(millrace.NotFoundError, "no queue 'nowhere'"):
                cluster.train({"id": [1]}, queue="nowhere")
            self.assertEqual(cluster.train({"id": [1]}).rows, 1)


class ResultsTest(unittest.TestCase):
    """Results come while rows are fed."""

    def _run(self, nodes=2):
        return run(Heard(), _PROGRAM, nodes, args=["echo"], feed=millrace.FeedOptions(budget_bytes=4 << 20))

    def test_they_are_read_in_bounded_memory_and_may_be_left(self):
        with self._run() as cluster:
            endless = _EndlessRows()
            with cluster.inference(endless.source()) as result:
                # 64 MiB of results, what two nodes may hold, and what is on its way.
                endless.wait_until_nobody_pulls(most=200)
                self.assertGreater(endless.pulled, 32)
                read = [next(result)["id"].to_pylist() for _ in range(100)]
                self.assertEqual(read, [[i] for i in range(100)])
            pulled = endless.pulled
            with self.assertRaisesRegex(millrace.FailedPreconditionError, "the inference is closed"):
                next(result)
            self.assertRegex(repr(result), ", closed>$")
            self.assertEqual(cluster.inference({"id": _IDS}).to_pylist(), [{"id": i} for i in _IDS])
            self.assertEqual(endless.pulled, pulled)
            for batch in cluster.inference(_EndlessRows().source()):  # nobody has it after the loop
                self.assertEqual(batch["id"].to_pylist(), [0])
                break
            self.assertEqual(cluster.inference({"id": _IDS}).to_pylist(), [{"id": i} for i in _IDS])

    def test_whoever_reads_arrow_may_leave_them_too(self):
        with self._run() as cluster:
            reader = pa.RecordBatchReader.from_stream(cluster.inference(_EndlessRows().source()))
            self.assertEqual([reader.read_next_batch()["id"].to_pylist() for _ in range(10)], [[i] for i in range(10)])
            del reader
            # Polars holds the GIL while it waits for rows, which Python makes.
            rows = millrace.Source(lambda p, _: {"id": list(range(50))}, 2)
            self.assertEqual(pl.DataFrame(cluster.inference(rows))["id"].to_list(), 2 * list(range(50)))

    def test_an_error_half_way_is_that_of_the_read(self):
        reads = {
            "next": lambda result: [next(result) for _ in range(6)],
            "table": lambda result: result.table(),
            "to_pylist": lambda result: result.to_pylist(),
            "reader": lambda result: result.reader().read_all(),
        }
        for what, read in reads.items():
            endless = _EndlessRows(fails=True)
            with self.assertRaises(millrace.MillraceError) as raised, self._run() as cluster:
                result = cluster.inference(endless.source())
                endless.go.set()
                try:
                    read(result)
                finally:
                    with self.assertRaises(millrace.MillraceError):
                        next(result)  # errors stay
            error = raised.exception
            self.assertRegex(error.node, "^worker:[01]$", what)
            self.assertEqual(error.exit_status, "exit code 1", what)
            self.assertRegex(str(error).splitlines()[0], f"{error.node}.*RuntimeError: a negative row", what)

    def test_ctrl_c_ends_a_read_and_leaves_the_cluster(self):
        reads = {
            "next": lambda result: sum(batch.num_rows for batch in result),
            "table": lambda result: result.table(),
            "to_pylist": lambda result: result.to_pylist(),
            "reader": lambda result: result.reader().read_all(),
        }
        with self._run() as cluster:
            for what, read in reads.items():
                with self.subTest(what), _interrupted_read(100):
                    result = cluster.inference(_EndlessRows().source())
                    with self.assertRaises(KeyboardInterrupt):
                        read(result)
                    with self.assertRaisesRegex(millrace.CancelledError, "interrupted"):
                        next(result)
            self.assertEqual(cluster.inference({"id": _IDS}).to_pylist(), [{"id": i} for i in _IDS])

    def test_they_end_with_the_cluster(self):
        for ends in ("shutdown", "close"):
            cluster = self._run()
            self.addCleanup(cluster.close)
            result = cluster.inference(_EndlessRows().source())
            next(result)
            getattr(cluster, ends)()
            with self.assertRaisesRegex(millrace.CancelledError, "the results were not all read"):
                next(result)

    def test_another_thread_may_close_them_while_they_are_read(self):
        closing = threading.Event()

        def batches(partition):
            if partition == 1:
                closing.wait()
            yield pa.record_batch({"id": [partition]})

        schema = pa.schema({"id": pa.int64()})
        source = millrace.Source(lambda p, _: pa.RecordBatchReader.from_batches(schema, batches(p)), 2)
        with self._run() as cluster:
            result = cluster.inference(source)
            self.assertEqual(next(result).to_pylist(), [{"id": 0}])

            def close():
                closing.set()
                result.close()

            closer = threading.Thread(target=close)
            closer.start()
            try:
                for _ in result:
                    pass
            except millrace.MillraceError as error:  # unless the end of the rows was faster
                self.assertIsInstance(error, (millrace.CancelledError, millrace.FailedPreconditionError))
            closer.join()
            self.assertEqual(cluster.inference({"id": [1]}).to_pylist(), [{"id": 1}])


class ClusterTest(unittest.TestCase):
    def test_nodes_in_cpp_train_and_answer(self):
        heard = Heard()
        options = {"args": ["sum"], "num_ps": 1, "master_node": "chief"}
        with run(heard, _CPP_NODE, 3, **options) as cluster:
            result = cluster.train({"x": np.arange(100)}, num_epochs=2, end_of_feed=True)
            self.assertEqual(result, millrace.TrainResult(200, 0, True, False, result.elapsed))
            self.assertGreater(result.elapsed, 0.0)
            doubled = cluster.inference({"x": np.arange(20)}).table()
            self.assertEqual(doubled.to_pydict(), {"doubled": [2 * i for i in range(20)]})
            with self.assertRaisesRegex(millrace.FailedPreconditionError, "has ended"):
                cluster.train({"x": [1]})
            self.assertEqual([node.name for node in cluster.cluster_info], ["ps:0", "chief:0", "worker:0"])
            self.assertEqual({node.state for node in cluster.cluster_info}, {"running"})
            self.assertEqual(sorted(cluster.cluster_spec), ["chief", "ps", "worker"])
            self.assertEqual((cluster.num_executors, cluster.input_mode.value), (3, "FEED"))
            self.assertRegex(repr(cluster), f"<millrace.LocalCluster {cluster.cluster_id}: .*_test_node, 3 running>")
            self.assertIn("<td>worker:0</td><td>running</td>", cluster._repr_html_())
        self.assertEqual(sum(value for _, _, value in heard.metrics["sum"]), 2 * sum(range(100)))
        self.assertRegex(repr(cluster), ", closed>$")
        self.assertRegex(cluster._repr_html_(), ": closed$")
        cluster.close()
        with self.assertRaisesRegex(millrace.FailedPreconditionError, "the cluster is closed"):
            cluster.train({"x": [1]})

    def test_a_function_is_a_program(self):
        with run(Heard(), answer_with_texts) as cluster:
            answers = cluster.inference([{"text": "one"}, {"text": "two"}]).to_pylist()
        self.assertEqual(answers, [{"text": "worker:0 has one"}, {"text": "worker:0 has two"}])

    def test_a_program_that_cannot_be_started_says_why(self):
        def local(node):
            pass

        cases = [
            ("no_such_script.py", millrace.NotFoundError, "no_such_script.py"),
            ("no-such-program", millrace.NotFoundError, "no-such-program"),
            (local, millrace.InvalidArgumentError, "top level of a file"),
            (lambda node: None, millrace.InvalidArgumentError, "top level of a file"),
        ]
        for program, kind, part in cases:
            with self.assertRaisesRegex(kind, part):
                run(Heard(), program)
        with self.assertRaisesRegex(millrace.InvalidArgumentError, "num_ps"):
            run(Heard(), _PROGRAM, 1, num_ps=2)

    def test_policies_gpus_and_sidecars_are_the_options_of_cpp(self):
        with tempfile.TemporaryDirectory() as folder:
            fifo = os.path.join(folder, "fifo")
            os.mkfifo(fifo)
            script = f'echo "$WORD" {{port}} > {fifo}'
            sidecar = millrace.Sidecar("beside", "/bin/sh", ["-c", script], env={"WORD": "here"})
            options = {
                "failure": millrace.FailureOptions(
                    restart=millrace.RestartPolicy(),
                    restart_by_job={"worker": millrace.RestartPolicy(1, window=600, initial_backoff=0.01)},
                    quarantine=millrace.QuarantinePolicy(failures=2, window=60, duration=1),
                    stop_grace=4.5,
                ),
                "node": millrace.NodeOptions(gpus_by_job={"worker": 0}, sidecars=[sidecar], log_bytes_per_second=1000),
                "feed": millrace.FeedOptions(
                    queues=["input", "output"], budget_bytes=1 << 20, curve_only=True, shared_memory=False
                ),
            }
            heard = Heard()
            with run(heard, _PROGRAM, args=["fail_once"], **options) as cluster:
                self.assertEqual(cluster.inference({"id": [7]}).to_pylist(), [{"attempt": 1, "gpus": ""}])
                self.assertEqual([node.attempt for node in cluster.cluster_info], [1])
                self.assertEqual(cluster.queues, ["input", "output"])
                with open(fifo, encoding="utf-8") as told:
                    self.assertRegex(told.read(), "^here [0-9]+\n$")
        states = [(slot.attempt, slot.state) for slot in heard.slots]
        wanted = iter(states)
        for state in ((0, "started"), (0, "running"), (0, "failed"), (1, "running"), (1, "finished")):
            self.assertIn(state, wanted, states)  # in this order
        self.assertEqual({slot.name for slot in heard.slots}, {"worker:0"})
        self.assertTrue(all(slot.pid and slot.address for slot in heard.slots if slot.state == "running"), heard.slots)
        (restart,) = heard.restarts
        self.assertEqual((restart.node, restart.attempt, restart.used, restart.max), ("worker:0", 0, 1, 1))
        self.assertEqual(restart.exit_status, "exit code 1")
        self.assertGreater(restart.after, 0)
        self.assertIn("RuntimeError: the first attempt", restart.stderr_lines)
        with self.assertRaisesRegex(millrace.InvalidArgumentError, "max_restarts"):
            run(Heard(), _PROGRAM, failure=restarts(millrace.RestartPolicy(-1)))

    def test_the_address_of_tensorboard_is_known(self):
        board = millrace.Sidecar("tensorboard", "python3", ["-m", "http.server", "--bind", "{host}", "{port}"])
        with run(Heard(), _PROGRAM, args=["double"], node=millrace.NodeOptions(sidecars=[board])) as cluster:
            url = wait_for(lambda: cluster.tensorboard_url, "the address of TensorBoard")
            self.assertRegex(url, r"^http://127\.0\.0\.1:\d+")
        with run(Heard(), _PROGRAM, args=["double"]) as cluster:
            self.assertEqual(cluster.tensorboard_url, "")

    def test_a_plain_mistake_is_a_type_error_that_says_what_there_is(self):
        cases = [
            ({"nodes_per_executor": 1}, "on this machine has no option 'nodes_per_executor'; it has agents, args"),
            ({"restart": 3}, r"no option 'restart'; it is in a group: failure=millrace.FailureOptions\(restart=...\)"),
            ({"failure": 3}, "failure is 3, of type int: it must be millrace.FailureOptions"),
            ({"feed": millrace.NodeOptions()}, "of type NodeOptions: it must be millrace.FeedOptions"),
            ({"num_ps": "1"}, "num_ps is '1', of type str: it must be int"),
            ({"node": millrace.NodeOptions(port_range="1-2")}, "on this machine has no option node.port_range"),
        ]
        for options, part in cases:
            with self.assertRaisesRegex(TypeError, part):
                run(Heard(), _PROGRAM, **options)
        with self.assertRaisesRegex(TypeError, "num_executors is '4', of type str: it must be int"):
            run(Heard(), _PROGRAM, "4")
        with self.assertRaisesRegex(millrace.InvalidArgumentError, "num_executors=0; the least is 1"):
            run(Heard(), _PROGRAM, 0)
        made = [
            (millrace.FailureOptions, {"restarts": 1}, "no member 'restarts'; it has restart, restart_by_job, quar"),
            (millrace.FailureOptions, {"restart": 1}, "FailureOptions's restart is 1, .* be millrace.RestartPolicy"),
            (millrace.FailureOptions, {"restart_by_job": {"ps": 1}}, r"Mapping\[str, millrace.options.RestartPolicy\]"),
            (millrace.FeedOptions, {"queues": "input"}, r"queues is 'input', .* it must be Sequence\[str\]"),
            (millrace.NodeOptions, {"sidecars": ["tensorboard"]}, r"must be Sequence\[millrace.options.Sidecar\]"),
            (millrace.Sidecar, {"name": "a", "argv": []}, "Sidecar has no member 'argv'; it has name, program, args"),
            (millrace.RestartPolicy, {"window": "1h"}, "window is '1h', of type str: it must be float"),
        ]
        for kind, members, part in made:
            with self.assertRaisesRegex(TypeError, part):
                kind(**members)

    def test_the_error_is_the_node_that_caused_it(self):
        with self.assertRaises(millrace.MillraceError) as raised:
            with run(Heard(), _PROGRAM, 2, args=["fail"]) as cluster:
                cluster.train({"id": list(range(1000))}, num_partitions=2)
        error = raised.exception
        self.assertRegex(error.node, "^worker:[01]$")
        self.assertEqual(error.exit_status, "exit code 1")
        self.assertIn("about to divide", error.stderr_lines)
        self.assertRegex(str(error).splitlines()[0], f"{error.node}.*ZeroDivisionError: division by zero")

    def test_an_error_of_another_node_of_a_longer_name_is_not_that_of_the_node_that_failed(self):
        listener = _Listener(millrace.ClusterObserver())
        listener.failure = {"node": "worker:1", "exit_status": "exit code 3", "stderr_lines": ()}
        for message, node in (
            ("worker:1 exited with code 3", "worker:1"),
            ("barrier: worker:1: it has ended", "worker:1"),
            ("the node worker:1, attempt 0", "worker:1"),
            ("worker:10: it does not answer", ""),
            ("coworker:1: it does not answer", ""),
        ):
            error = millrace.MillraceError("ABORTED", message)
            listener.explain(error)
            self.assertEqual(error.node, node, message)

    def test_who_outlasts_the_grace_or_the_timeout_of_shutdown_is_named(self):
        cases = [
            (millrace.InputMode.FEED, {"grace": 0.05}, "its grace of 50ms was over: .*worker:0"),
            (millrace.InputMode.DIRECT, {"grace": 0.0, "timeout": 0.5}, "its timeout of 500ms was over: .*worker:0"),
        ]
        for input_mode, limits, part in cases:
            cluster = run(Heard(), "sleep", args=["1000"], input_mode=input_mode)
            with self.assertRaisesRegex(millrace.DeadlineExceededError, part):
                cluster.shutdown(**limits)
            self.assertEqual([node.state for node in cluster.cluster_info], ["finished"])

    def _start_driver(self, code, stderr, **env):
        """A process of its own, that ends by itself."""
        code = "import sys; sys.path[:0] = sys.argv[1:]; from testing_cluster import Heard, run\n" + code
        command = [sys.executable, "-s", "-B", "-c", code, os.path.dirname(_PROGRAM)]
        return subprocess.Popen(
            command, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=stderr, text=True
        )

    def _run_driver(self, code):
        """What it writes to stdout and stderr."""
        driver = self._start_driver(code, subprocess.PIPE)
        out, err = driver.communicate()
        self.assertEqual(driver.returncode, 0, err)
        return out, err

    def _run_driver_on_terminal(self, code):
        """What it shows there."""
        mine, terminal = os.openpty()
        driver = self._start_driver(code, terminal, TERM="xterm")
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(mine, 1 << 16):
                shown += part
        except OSError:
            pass  # nobody has it open any more
        os.close(mine)
        driver.communicate()
        self.assertEqual(driver.returncode, 0, shown)
        return shown.decode()

    def test_progress_is_shown_on_stderr_if_that_is_a_terminal_or_it_is_asked_for(self):
        def code(progress):
            return (
                f"with run(Heard(), {_PROGRAM!r}, args=['double'], progress={progress}) as cluster:\n"
                "    cluster.train({'id': list(range(101))}, end_of_feed=True)\n"
            )

        shown = r"1 node: 1 running(.|\n)*101 rows, .* rows/s, 4 of 4 partitions"
        self.assertRegex(self._run_driver(code(True))[1], shown)
        self.assertEqual(self._run_driver(code(None))[1], "")
        self.assertRegex(self._run_driver_on_terminal(code(None)), shown)
        self.assertEqual(self._run_driver_on_terminal(code(False)), "")

    def test_a_driver_that_just_ends_leaves_no_node(self):
        out, err = self._run_driver(
            f"cluster = run(Heard(), {_PROGRAM!r}, 2, args=['stay'])\n"
            "print(*[node.pid for node in cluster.cluster_info])"
        )
        self.assertEqual(err, "")
        pids = [int(pid) for pid in out.split()]
        self.assertEqual(len(pids), 2)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), f"the end of {pids}")


class AgentsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.secret = os.path.join(folder.name, "agents.json")
        self.env = {**os.environ, "HOME": folder.name}
        command = ["core/cli/millrace", "agent-secret", "--file", self.secret]
        subprocess.run(command, env=self.env, stdout=subprocess.DEVNULL, check=True)

    def _start_agent(self):
        """Its address."""
        command = [os.environ["MILLRACE_AGENT"], "agent", "--listen", "127.0.0.1:0", "--secret-file", self.secret]
        agent = subprocess.Popen(command, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(agent.stdout.close)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        for line in agent.stdout:
            if found := re.search(r"listening on ([^,]*),", line):
                return found[1]
        return self.fail("the agent does not listen")

    def test_agents_that_a_resolver_names_run_the_nodes(self):
        members = {"ps": [self._start_agent()], "worker": [self._start_agent(), self._start_agent()]}
        agents = millrace.Agents(
            {"type": "static", "cluster_spec": members}, secret_file=self.secret, bind_address="127.0.0.1"
        )
        heard = Heard()
        program = millrace.NodeProgram.file(_CPP_NODE, "sum")  # which is sent to them
        with run(heard, program, None, agents=agents) as cluster:
            self.assertEqual([node.name for node in cluster.cluster_info], ["ps:0", "worker:0", "worker:1"])
            self.assertEqual(cluster.num_executors, 3)
            self.assertEqual(cluster.train({"x": np.arange(100)}, end_of_feed=True).rows, 100)
            doubled = cluster.inference({"x": np.arange(20)}).table()
        self.assertEqual(doubled.to_pydict(), {"doubled": [2 * i for i in range(20)]})
        self.assertEqual(sum(value for _, _, value in heard.metrics["sum"]), sum(range(100)))

    def test_agents_that_cannot_be_are_refused(self):
        for agents, part in (
            (millrace.Agents({"type": "static", "cluster_spec": {"worker": ["h:1"]}}), "one of secret_file and"),
            (millrace.Agents("{}", secret_file=self.secret), "type"),
            (millrace.Agents({"type": "static", "cluster_spec": {"worker": []}}, secret_file=self.secret), "worker"),
        ):
            with self.assertRaisesRegex(millrace.InvalidArgumentError, part):
                run(Heard(), _PROGRAM, None, agents=agents)


class InterruptTest(unittest.TestCase):
    def test_ctrl_c_ends_the_call_and_leaves_the_cluster(self):
        heard = Heard()
        with run(heard, _PROGRAM, 2, args=["double"]) as cluster:
            for _ in range(2):
                with self.assertRaises(KeyboardInterrupt):
                    cluster.train(_endless(100))
            self.assertEqual(cluster.train({"id": _IDS}, end_of_feed=True).rows, 101)
            with self.assertRaises(KeyboardInterrupt):
                cluster.inference(_endless(100)).table()
            self.assertEqual(cluster.inference({"id": _IDS}).to_pylist(), _EXPECTED)

    def test_ctrl_c_while_the_cluster_starts_ends_it(self):
        with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as agent:
            agent.write("#!/bin/sh\nkill -INT $PPID\nexec sleep 1000\n")
        self.addCleanup(os.unlink, agent.name)
        os.chmod(agent.name, 0o755)
        before = os.environ["MILLRACE_AGENT"]
        os.environ["MILLRACE_AGENT"] = agent.name
        try:
            with self.assertRaises(KeyboardInterrupt):
                run(Heard(), _PROGRAM, args=["double"])
        finally:
            os.environ["MILLRACE_AGENT"] = before

    def test_ctrl_c_in_shutdown_stops_the_nodes(self):
        heard = Heard()
        on_output = heard.on_output

        def interrupt(node, line):
            on_output(node, line)
            if line == "the feed has ended":
                _interrupt()

        heard.on_output = interrupt
        cluster = run(heard, _PROGRAM, args=["stay"])
        with self.assertRaises(KeyboardInterrupt):
            cluster.shutdown()
        self.assertEqual([node.state for node in cluster.cluster_info], ["finished"])
        with self.assertRaisesRegex(millrace.CancelledError, "interrupted"):
            cluster.shutdown()
        cluster.close()


if __name__ == "__main__":
    unittest.main()
