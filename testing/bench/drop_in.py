"""A program for TensorFlowOnSpark on TensorFlowOnSpark 2.2.5 and on this repository's package, in one run.

Each on a standalone cluster of its own on this machine, with two executors of one core: start, train over RDDs of
Python objects and over a DataFrame, inference, shutdown, and the error after a node was killed.
"""

import argparse
import os
import pathlib
import statistics
import sys
import tempfile

from bench_figures import ROOT, figures, report
from spark_bench import flags, print_machine, run_application
from spark_cluster import SparkCluster, java_home

# Figure to its unit and its goal, as a multiple of the original's; None has none.
_RATES = {
    "train ints": 20, "train 64 floats": 20, "train 3 KB bytes": 20, "train DataFrame": 100, "inference ints": 20
}  # fmt: skip
_TIMES = {"first start": 5, "start": None, "shutdown": 20, "error after SIGKILL": 50}


def _run(original, arguments):
    modules = os.environ["PYTHONPATH"].split(":")
    ours = [path for path in modules if path.endswith("/millrace/tensorflowonspark")]
    theirs = [path for path in modules if "tensorflowonspark_packages" in path]
    # Whichever is not wanted must not be found.
    wanted = [path for path in modules if path not in (ours if original else theirs)]
    environment = {"PYTHONPATH": ":".join(wanted), "TF_CPP_MIN_LOG_LEVEL": "3"}
    if not original:
        environment["MILLRACE_LIBRARY"] = str((ROOT / "millrace/c/libmillrace.so").resolve())
        environment["MILLRACE_SPARK_JAR"] = str((ROOT / "spark_connector/millrace-spark.jar").resolve())
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        with SparkCluster(pathlib.Path(root, "spark"), cores=1, memory_mb=3072, hosts=("127.0.0.1",) * 2) as cluster:
            output = run_application(
                cluster,
                [ROOT / "testing/bench/drop_in_app.py"],
                [pathlib.Path(root), *flags(arguments)],
                {"spark.executor.memory": "1500m"},
                environment=environment,
            )
    found = {}
    for figure in figures(output):
        found.setdefault(figure["name"], []).append(figure["value"])
    return {name: statistics.median(values) for name, values in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="multiplies the rows")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--feed-timeout", type=int, default=10, help="of the train in which a node is killed")
    arguments = parser.parse_args()
    java_home()
    print_machine()
    ours, theirs = _run(False, arguments), _run(True, arguments)
    for name, goal in _RATES.items():
        ratio = ours[name] / theirs[name]
        report(f"drop_in {name}".replace(" ", "_"), ours[name], theirs[name], " rows/s", "the original", ratio, goal)
    for name, goal in _TIMES.items():
        ratio = theirs[name] / ours[name]
        report(f"drop_in {name}".replace(" ", "_"), ours[name], theirs[name], "s", "the original", ratio, goal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
