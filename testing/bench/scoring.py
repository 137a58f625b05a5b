"""Scoring a table of Spark by a model of ONNX: millrace.ml beside PySpark's predict_batch_udf, in one run.

A standalone cluster of this machine with two executors of one core. The model is an MLP of 784, 128 and 10 numbers; the
table is cached and has a column of images. Both score with ONNX Runtime, on one core for each executor, in batches of
as many rows, and both answers go nowhere (Spark's sink noop): with all columns of the table, or with one of them.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

from bench_figures import ROOT, figures, report
from spark_bench import flags, package, print_machine, run_application
from spark_cluster import SparkCluster, java_home

_GOAL = 1.5


def _run(arguments, version):
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        with SparkCluster(pathlib.Path(root, "spark"), cores=2, memory_mb=4096, version=version) as cluster:
            return run_application(
                cluster,
                [ROOT / "testing/bench/scoring_app.py", (ROOT / "spark_connector/millrace-spark.jar").resolve()],
                [pathlib.Path(root, "mlp.onnx"), *flags(arguments)],
                {"spark.executor.memory": "1500m"},
                environment={"PYTHONPATH": os.environ["PYTHONPATH"]},
                py_files=[package(root)],
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1024, help="rows that are scored at once")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--spark", choices=("3_5", "4"), default="3_5")
    arguments = parser.parse_args()
    version = arguments.spark
    del arguments.spark
    java_home()
    print_machine(version)
    found = {}
    for figure in figures(_run(arguments, version)):
        found.setdefault(figure["way"], []).append(figure["rows_per_second"])
    rates = {way: statistics.median(rates) for way, rates in found.items()}
    for way, rate in sorted(rates.items()):
        print(f"{way:30} {rate:12,.0f} rows/s  ({min(found[way]):,.0f} to {max(found[way]):,.0f})")
    for columns, name in (("", "scoring"), (", id only", "scoring_id_only")):
        ours, reference = rates["transform" + columns], rates["predict_batch_udf" + columns]
        report(name, ours, reference, " rows/s", "predict_batch_udf" + columns, ours / reference, _GOAL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
