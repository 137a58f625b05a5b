"""TFRecord files of Examples into columns, and back, beside TensorFlow.

Every way reads the same file in turns: Millrace (one thread, Arrow batches of 1 MiB); tf.data with parse_example on
batches of 1,024 records, in one thread and in as many as it likes; and Python, an Example at a time, as programs
without TensorFlow's readers do: it compares no checksums. Writing: Millrace from batches in memory, Python with
TensorFlow's writer. Files lie in memory (/dev/shm), so that no disk is measured.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import struct
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402: it reads the above
from bench_figures import ROOT, figures, report  # noqa: E402

_BATCH = 1024
_PARSE_GOAL, _PYTHON_GOAL, _WRITE_GOAL = 3, 10, 5


def _bytes(*values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def _integers(*values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def _of_floats(numbers, row):
    return {"x": _floats(numbers.random(784, dtype=np.float32)), "label": _integers(row % 10)}


def _of_bytes(numbers, row):
    return {"image": _bytes(b"\xff" + numbers.bytes(3071)), "label": _integers(row % 10)}


def _of_columns(numbers, row):
    features = {f"i{k}": _integers(int(numbers.integers(1 << 40))) for k in range(4)}
    features.update({f"f{k}": _floats([row / 7]) for k in range(3)})
    features.update({f"s{k}": _bytes(b"%020d" % row) for k in range(3)})
    return features


def _of_ids(numbers, _):
    return {"ids": _integers(*numbers.integers(1_000_000, size=64).tolist())}


_ONE = {"i": tf.int64, "f": tf.float32, "s": tf.string}
# Name, rows, compression, what makes a row's features, what parse_example is told, lists of one size.
_SHAPES = {
    "a": ("784 float32 in a list, and a label", 20_000, "", _of_floats,
          {"x": tf.io.FixedLenFeature([784], tf.float32), "label": tf.io.FixedLenFeature([], tf.int64)}, ["x:784"]),
    "b": ("3 KB of bytes, and a label", 20_000, "", _of_bytes,
          {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}, []),
    "c": ("4 int64, 3 float32, 3 strings of 20 bytes", 100_000, "", _of_columns,
          {f"{t}{k}": tf.io.FixedLenFeature([], kind) for t, kind in _ONE.items() for k in range(4 if t == "i" else 3)},
          []),
    "d": ("64 int64 below a million in a list", 100_000, "", _of_ids,
          {"ids": tf.io.FixedLenFeature([64], tf.int64)}, ["ids:64"]),
    "e": ("columns as above, in a GZIP file", 100_000, "GZIP", _of_columns,
          {f"{t}{k}": tf.io.FixedLenFeature([], kind) for t, kind in _ONE.items() for k in range(4 if t == "i" else 3)},
          []),
}  # fmt: skip


def _make(path, rows, compression, features):
    numbers = np.random.default_rng(1)
    with tf.io.TFRecordWriter(str(path), options=compression) as writer:
        for row in range(rows):
            example = tf.train.Example(features=tf.train.Features(feature=features(numbers, row)))
            writer.write(example.SerializeToString())


def _millrace(path, *flags):
    command = [ROOT / "testing/bench/tfrecord_end", path, *flags]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    (figure,) = figures(ended.stdout)
    return figure["rows"], figure["seconds"], figure["cpu_seconds"]


def _timed(function):
    began, cpu = time.perf_counter(), time.process_time()
    rows = function()
    return rows, time.perf_counter() - began, time.process_time() - cpu


def _parsed(path, compression, spec, threads):
    options = tf.data.Options()
    if threads is not None:
        options.threading.private_threadpool_size = threads
    parallel = threads or tf.data.AUTOTUNE
    dataset = tf.data.TFRecordDataset(str(path), compression_type=compression).batch(_BATCH)
    dataset = dataset.map(lambda batch: tf.io.parse_example(batch, spec), num_parallel_calls=parallel)
    dataset = dataset.prefetch(parallel).with_options(options)
    name = next(iter(spec))
    return sum(int(batch[name].shape[0]) for batch in dataset)


def _records(path):
    with open(path, "rb") as file:
        while header := file.read(12):
            (length,) = struct.unpack_from("<Q", header)
            yield file.read(length)
            file.read(4)


def _in_python(path, count):
    """The first rows as dicts of lists."""
    rows = []
    for record in _records(path):
        if len(rows) == count:
            break
        example = tf.train.Example.FromString(record)
        rows.append({
            name: list(getattr(feature, feature.WhichOneof("kind")).value)
            for name, feature in example.features.feature.items()
        })  # fmt: skip
    return len(rows)


def _write_in_python(path, compression, rows):
    """Of rows that are dicts of Features already."""
    with tf.io.TFRecordWriter(str(path), options=compression) as writer:
        for row in rows:
            writer.write(tf.train.Example(features=tf.train.Features(feature=row)).SerializeToString())
    return len(rows)


def _measure(folder, shape, arguments):
    """Way to rows a second and CPU seconds a row, and the megabytes of a row."""
    _, rows, compression, features, spec, fixed = _SHAPES[shape]
    rows = int(rows * arguments.scale)
    path, out = pathlib.Path(folder, "in.tfrecord"), pathlib.Path(folder, "out.tfrecord")
    _make(path, rows, compression, features)
    flags = [f"--fixed={name}" for name in fixed]
    few = max(rows // 20, 1)  # Python is slow
    numbers = np.random.default_rng(1)
    features_of_few = [features(numbers, row) for row in range(few)]
    ways = {
        "read": lambda: _millrace(path, *flags),
        "parse_example": lambda: _timed(lambda: _parsed(path, compression, spec, None)),
        "parse_example, 1 thread": lambda: _timed(lambda: _parsed(path, compression, spec, 1)),
        "write": lambda: _millrace(path, *flags, f"--out={out}", f"--compression={compression.lower() or 'none'}"),
        "Python's writer": lambda: _timed(lambda: _write_in_python(out, compression, features_of_few)),
    }
    if not compression:
        ways["Python"] = lambda: _timed(lambda: _in_python(path, few))
    rates = {way: [] for way in ways}
    costs = {way: [] for way in ways}
    for turn in range(arguments.reps + 1):  # the first does not count
        for way, measure in ways.items():
            done, seconds, cpu = measure()
            if done != (few if way.startswith("Python") else rows):
                raise AssertionError(f"{way}: {done} rows")
            if turn:
                rates[way].append(done / seconds)
                costs[way].append(cpu / done)
    medians = {way: (statistics.median(rates[way]), statistics.median(costs[way])) for way in ways}
    return medians, path.stat().st_size / 1e6 / rows


def _report(found):
    print(f"\n{'shape':44} {'way':24} {'rows/s':>12} {'MB/s':>8} {'CPU us/row':>10}")
    for shape, (ways, megabytes) in found.items():
        for way, (rate, cost) in ways.items():
            print(f"{_SHAPES[shape][0]:44} {way:24} {rate:12,.0f} {megabytes * rate:8,.0f} {1e6 * cost:10.2f}")
    print()
    reports = []
    for shape, (ways, _) in found.items():
        for name, ours, reference, goal in (
            ("read", "read", "parse_example", _PARSE_GOAL),
            ("read_1_thread", "read", "parse_example, 1 thread", _PARSE_GOAL),
            ("read_python", "read", "Python", _PYTHON_GOAL),
            ("write", "write", "Python's writer", _WRITE_GOAL),
        ):
            if reference in ways:
                rate, other = ways[ours][0], ways[reference][0]
                reports.append(
                    report(f"tfrecord_{shape}_{name}", rate, other, "rows/s", reference, rate / other, goal)
                )
    return reports


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default=",".join(_SHAPES))
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    versions = f"TensorFlow {tf.__version__}, Python {platform.python_version()}"
    print(f"{platform.node()}: {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, {versions}")
    with tempfile.TemporaryDirectory(prefix="millrace-", dir="/dev/shm") as folder:
        found = {shape: _measure(folder, shape, arguments) for shape in arguments.shapes.split(",")}
    reports = _report(found)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
