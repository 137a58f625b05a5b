"""A call of train on Spark into two nodes, one of which is slower.

A standalone cluster of this machine with two executors of one core, a node at each. The programs sleep for each batch;
ideal is all rows by the sum of both paces.
"""

import argparse
import pathlib
import statistics
import sys
import tempfile

from bench_figures import ROOT, figures, report
from spark_bench import flags, package, print_machine, run_application
from spark_cluster import SparkCluster, java_home

_GOAL = 1.3


def _run(arguments):
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        with SparkCluster(pathlib.Path(root, "spark"), cores=2, memory_mb=2048) as cluster:
            return run_application(
                cluster,
                [ROOT / "testing/bench/spark_skew_app.py", (ROOT / "spark_connector/millrace-spark.jar").resolve()],
                [(ROOT / "testing/bench/spark_skew_node").resolve(), *flags(arguments)],
                {"spark.executor.memory": "900m"},
                py_files=[package(root)],
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ratios", default="2,10,100", help="how many times as long the slow node computes")
    parser.add_argument("--partitions", default="8,16,640", help="of the DataFrame")
    parser.add_argument("--step-us", type=int, default=2000, help="that the fast program sleeps for 64 rows")
    parser.add_argument("--seconds", type=float, default=4.0, help="that the ideal takes")
    parser.add_argument("--reps", type=int, default=3)
    arguments = parser.parse_args()
    java_home()
    print_machine()
    found = {}
    for figure in figures(_run(arguments)):
        found.setdefault((figure["ratio"], figure["partitions"]), []).append(figure)
    for (ratio, partitions), of_case in found.items():
        seconds = statistics.median(figure["seconds"] for figure in of_case)
        ideal = of_case[0]["ideal"]
        name = f"spark_skew_{ratio}_of_{partitions}"
        reference = "all rows by the sum of both paces"
        report(name, seconds, ideal, "s", reference, seconds / ideal, _GOAL, at_most=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
