"""Rows into a node in Python beside the same node in C++, both fed by a driver in Python on this machine.

Both read in turns, in batches of several sizes, what comes in batches of 1 MiB; what a call costs more in Python than
in C++ is its overhead. Beside them the ways that people have of a table's rows into PyTorch: the loader of Spark's
TorchDistributor, a DataLoader over files of Arrow, and Spark's mapInArrow, each in one process.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
import pyarrow as pa
from bench_figures import ROOT, figures, report
from spark_bench import print_machine
from spark_cluster import java_home, spark_home

os.environ["MILLRACE_LIBRARY"] = str(ROOT / "millrace/c/libmillrace.so")
os.environ["MILLRACE_CLUSTER_LIBRARY"] = str(ROOT / "millrace/c/libmillrace_cluster.so")
os.environ["MILLRACE_AGENT"] = str(ROOT / "core/agent/millrace-agent")

import millrace  # noqa: E402: it reads the above

_BATCH_BYTES = 1 << 20
_SIZES = (64, 256, 4096)
# What share of C++'s rows a second Python is to reach with batches of 1 MiB.
_GOAL = 0.9
_TORCH_GOAL = 20
_TRIAL_EPOCHS = 5


def _floats(rows, width):
    values = np.tile(np.arange(256, dtype=np.float32) / 255, rows * width // 256 + 1)[: rows * width]
    return pa.FixedSizeListArray.from_arrays(pa.array(values), width)


def _columns(rows):
    return {f"f{k}": pa.array(np.arange(rows, dtype=np.float32)) for k in range(64)}


# Shape to its name, its rows, what makes its columns, and the bytes of a row.
_SHAPES = {
    "a": ("1 int64", 8_000_000, lambda n: {"x": pa.array(np.arange(n))}, 8),
    "b": ("64 float32 in an array", 400_000, lambda n: {"x": _floats(n, 64)}, 256),
    "c": ("784 float32 in an array", 40_000, lambda n: {"x": _floats(n, 784)}, 3136),
    "d": ("3 KB binary", 40_000, lambda n: {"x": pa.array([bytes([k]) * 3072 for k in range(100)] * (n // 100))}, 3076),
    "s": ("64 float32 columns", 400_000, _columns, 256),
}  # fmt: skip


def _whole(shape):
    """Rows of a batch as it is sent."""
    return _BATCH_BYTES // _SHAPES[shape][3]


def _sizes(shape):
    """Rows of a batch to the goal."""
    whole = _whole(shape)
    return {size: _GOAL if size == whole else None for size in sorted({*_SIZES, whole})}


class _Fed:
    """A cluster of one node, which is fed again and again; `next_us` is there once it is closed."""

    def __init__(self, program, rows):
        self._next_us = None
        self._told = threading.Event()
        observer = millrace.ClusterObserver(on_metric=self._on_metric)
        self._cluster = millrace.Cluster.run(
            program, 1, args=[str(rows)], input_mode=millrace.InputMode.FEED, progress=False, cluster_file=False,
            observer=observer,
        )  # fmt: skip

    def _on_metric(self, _node, _name, _step, value):
        self._next_us = value
        self._told.set()

    def timed(self, partitions, epochs):
        """Feeds the partitions so often, and returns how many seconds that takes."""
        began = time.perf_counter()
        result = self._cluster.train(partitions, num_epochs=epochs, batch_bytes=_BATCH_BYTES)
        expected = epochs * sum(part.num_rows for part in partitions)
        if result.rows != expected:
            raise AssertionError(f"{result.rows} rows came of {expected}")
        return time.perf_counter() - began

    def close(self):
        """Returns the microseconds of a call."""
        self._cluster.shutdown()
        if not self._told.wait(10):
            raise AssertionError("the node told nothing of its calls")
        return self._next_us


def _measure(partitions, size, arguments):
    """Rows a second and microseconds a call, of C++ and of Python."""
    nodes = {
        "C++": _Fed(str(ROOT / "testing/bench/python_feed_node"), size),
        "Python": _Fed(str(ROOT / "testing/bench/python_feed_node.py"), size),
    }
    # Train calls so long that their begin and end, some 5 ms, do not count. The first one of a node is not timed.
    for fed in nodes.values():
        fed.timed(partitions, 1)
    slowest = max(fed.timed(partitions, _TRIAL_EPOCHS) for fed in nodes.values())
    epochs = math.ceil(arguments.seconds / slowest * _TRIAL_EPOCHS)
    seconds = {way: [] for way in nodes}
    for _ in range(arguments.reps):
        for way, fed in nodes.items():
            seconds[way].append(fed.timed(partitions, epochs))
    rows = epochs * sum(part.num_rows for part in partitions)
    return {way: (rows / statistics.median(seconds[way]), fed.close()) for way, fed in nodes.items()}


def _references(folder, shapes, reps):
    """Shape and way to rows a second."""
    home = spark_home("3_5")
    # PySpark as its archives, and what this program has.
    archives = [str(path) for path in sorted((home / "python/lib").glob("*.zip"))]
    environment = {
        **os.environ, "SPARK_HOME": str(home), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": folder, "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(archives + sys.path),
    }  # fmt: skip
    command = [sys.executable, ROOT / "testing/bench/python_feed_references.py", folder, str(reps), *shapes]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    seconds = {}
    for figure in figures(ended.stdout):
        seconds.setdefault((figure["shape"], figure["way"]), []).append(figure["rows"] / figure["seconds"])
    return {key: statistics.median(rates) for key, rates in seconds.items()}


def _run(arguments, folder):
    found = {}
    shapes = arguments.shapes.split(",")
    for shape in shapes:
        _, rows, make, _ = _SHAPES[shape]
        table = pa.table(make(int(rows * arguments.scale) // 100 * 100))
        # Partitions of whole batches: a batch that ends in what comes next is copied together, in either language.
        quarter = max(1, table.num_rows // 4 // _whole(shape)) * _whole(shape)
        table = table.slice(0, 4 * quarter)
        partitions = [table.slice(first, quarter) for first in range(0, 4 * quarter, quarter)]
        for size in _sizes(shape):
            found[shape, size] = _measure(partitions, size, arguments)
        with pa.ipc.new_stream(os.path.join(folder, f"{shape}.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=10_000)
    return found, _references(folder, shapes, arguments.reps) if arguments.references else {}


def _report(found, references):
    print(f"\n{'shape':26} {'rows a batch':>12} {'C++ rows/s':>14} {'Python':>14} {'C++ us/call':>12} {'Python':>8}"
          f" {'overhead':>8}")  # fmt: skip
    reports = []
    for (shape, size), ways in found.items():
        (native, native_us), (ours, ours_us) = ways["C++"], ways["Python"]
        print(f"{_SHAPES[shape][0]:26} {size:12,} {native:14,.0f} {ours:14,.0f} {native_us:12.2f} {ours_us:8.2f}"
              f" {ours_us - native_us:8.2f}")  # fmt: skip
    for (shape, way), rate in references.items():
        print(f"{_SHAPES[shape][0]:26} {way:>27} {rate:14,.0f}")
    print()
    for shape in dict.fromkeys(shape for shape, _ in found):
        for size, goal in _sizes(shape).items():
            (native, _), (ours, _) = found[shape, size]["C++"], found[shape, size]["Python"]
            reports.append(report(
                f"python_feed_{shape}_{size}", ours, native, "rows/s", "the node in C++", ours / native, goal
            ))  # fmt: skip
        (_, native), (ours, ours_us) = found[shape, 256]["C++"], found[shape, 256]["Python"]
        reports.append(report(
            f"python_feed_{shape}_call_256", ours_us, native, "us", "the node in C++", ours_us / native, None
        ))  # fmt: skip
        for way, goal in (("TorchDistributor", _TORCH_GOAL), ("mapInArrow", 1), ("files", None)):
            if (rate := references.get((shape, way))) is not None:
                reports.append(report(f"python_feed_{shape}_{way}", ours, rate, "rows/s", way, ours / rate, goal))
    return reports


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default=",".join(_SHAPES))
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a Train call of the slower node")
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--no-references", dest="references", action="store_false", help="the two nodes alone")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    print_machine()
    with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
        reports = _report(*_run(arguments, folder))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
