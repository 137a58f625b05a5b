"""A call of train on Spark into two nodes, one of which is slower.

A standalone cluster of this machine with two executors of one core, a node at each. The programs sleep for each batch;
ideal is all rows by the sum of both paces.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import zipfile

from spark_cluster import SparkCluster, java_home, spark_home

_ROOT = pathlib.Path(__file__).parent.parent.parent
_GOAL = 1.3


def _run(arguments):
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        package = pathlib.Path(root, "millrace.zip")
        with zipfile.ZipFile(package, "w") as archive:
            for path in sorted((_ROOT / "millrace/python/millrace").glob("*.py")):
                archive.write(path, f"millrace/{path.name}")
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in vars(arguments).items()]
        with SparkCluster(pathlib.Path(root, "spark"), cores=2, memory_mb=2048) as cluster:
            code, output = cluster.run(
                None,
                [_ROOT / "testing/bench/spark_skew_app.py", (_ROOT / "spark_connector/millrace-spark.jar").resolve()],
                [(_ROOT / "testing/bench/spark_skew_node").resolve(), *flags],
                conf={"spark.executor.memory": "900m", "spark.ui.showConsoleProgress": "false"},
                executors=2,
                py_files=[package],
            )
        if code:
            raise RuntimeError(f"the application ended with {code}:\n{output}")
        return output


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ratios", default="2,10,100", help="how many times as long the slow node computes")
    parser.add_argument("--partitions", default="8,16,640", help="of the DataFrame")
    parser.add_argument("--step-us", type=int, default=2000, help="that the fast program sleeps for 64 rows")
    parser.add_argument("--seconds", type=float, default=4.0, help="that the ideal takes")
    parser.add_argument("--reps", type=int, default=3)
    arguments = parser.parse_args()
    java_home()
    load = os.getloadavg()[0]
    versions = f"{spark_home().name}, Python {platform.python_version()}"
    print(f"{platform.node()}: {os.cpu_count()} CPUs, load {load:.1f}, {versions}")
    found = {}
    for line in _run(arguments).splitlines():
        if line.startswith("FIGURE "):
            figure = json.loads(line[len("FIGURE ") :])
            found.setdefault((figure["ratio"], figure["partitions"]), []).append(figure)
    for (ratio, partitions), figures in found.items():
        seconds = statistics.median(figure["seconds"] for figure in figures)
        ideal = figures[0]["ideal"]
        verdict = "ok" if seconds <= _GOAL * ideal else "short"
        print(
            f"BENCH spark_skew_{ratio}_of_{partitions} ours={seconds:.4g}s ref={ideal:.4g}s (all rows by the sum of "
            f"both paces) ratio={seconds / ideal:.2f} goal={_GOAL} {verdict}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
