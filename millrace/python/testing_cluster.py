"""Clusters of node_test_program.py on this machine, and rows for them, for tests."""

import collections
import datetime
import json
import os
import sys
import tempfile
import threading

import pyarrow as pa

_ROOT = os.getcwd()
PROGRAM = os.path.join(_ROOT, "millrace/python/node_test_program.py")
PATIENCE_S = 120
_UTC = datetime.timezone.utc

os.environ["MILLRACE_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace.so")
os.environ["MILLRACE_CLUSTER_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace_cluster.so")
os.environ["MILLRACE_AGENT"] = os.path.join(_ROOT, "core/agent/millrace-agent")

import millrace  # noqa: E402: it reads the above


class Heard:
    """What is heard from a cluster's nodes: `lines`, `metrics` by name, `restarts`, and `slots`, as they changed."""

    def __init__(self):
        self._changed = threading.Condition()
        self.lines = []
        self.metrics = collections.defaultdict(list)
        self.restarts = []
        self.slots = []

    def on_output(self, _, line):
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def on_metric(self, node, name, step, value):
        with self._changed:
            self.metrics[name].append((node, step, value))
            self._changed.notify_all()

    def wait_for(self, heard):
        """Until `heard()` is true of lines and metrics."""
        with self._changed:
            if not self._changed.wait_for(heard, PATIENCE_S):
                raise TimeoutError(f"after {PATIENCE_S} s: {self.lines}, {dict(self.metrics)}")


def run(heard, program, nodes=1, **options):
    """A fed cluster that leaves nothing in the user's home."""
    options = {"input_mode": millrace.InputMode.FEED, "progress": False, "cluster_file": False, **options}
    options["observer"] = millrace.ClusterObserver(
        heard.on_output, heard.on_metric, heard.restarts.append, heard.slots.append
    )
    return millrace.Cluster.run(program, nodes, **options)


def restarts(policy):
    """What `run` takes."""
    return millrace.FailureOptions(restart=policy)


class Cluster(Heard):
    """with Cluster("train", nodes=2) as cluster: ..."""

    def __init__(self, what, nodes=1, arguments=(), **options):
        super().__init__()
        program = millrace.NodeProgram.path(sys.executable, "-s", "-P", "-B", PROGRAM, what, *arguments)
        self._cluster = run(self, program, nodes, **options)
        self.end_feed = self._cluster.end_feed
        self.shutdown = self._cluster.shutdown

    def train(self, *partitions):
        return self._cluster.train(list(partitions))

    def inference(self, *partitions):
        return self._cluster.inference(list(partitions)).table()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._cluster.close()


def ids_of(lines):
    """Those that programs say they read, sorted."""
    return sorted(i for line in lines if line.startswith("ids ") for i in json.loads(line[len("ids ") :]))


def run_in_three_parts(program, *parts):
    """The lines of two nodes of `program` that are stopped after three and after two batches and go on in new
    processes, and what came of the last call."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for batches in ("3", "2", "-1"):
            with Cluster(program, nodes=2, arguments=[batches, folder]) as cluster:
                result = cluster.train(*parts)
                cluster.shutdown()
            lines += cluster.lines
    return lines, result


def rows(first, count):
    ids = list(range(first, first + count))
    image = pa.FixedSizeListArray.from_arrays(pa.array([float(i) for i in ids for _ in range(4)], pa.float32()), 4)
    return pa.table({"id": pa.array(ids), "image": image, "name": [f"row {i}" for i in ids]})


def typed_rows():
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
