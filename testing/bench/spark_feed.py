"""Rows of a DataFrame into native nodes on Spark, beside Spark's own ways out of the JVM.

A standalone cluster of this machine with two executors of one core; every way in turns, in one
application. The peer's figures are notes, measured once; it is not run.
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
_NAMES = {
    "a": "1 int64",
    "b": "64 float32 in an array",
    "c": "784 float32 in an array",
    "d": "3 KB binary",
    "s": "64 float32 columns",
    "echo of a": "1 int64, and its square back",
}
_GOALS = {"a": 1.5, "b": 2.0, "c": 2.0, "d": 1.5, "s": 2.0, "echo of a": 1.0}
# The peer's, TensorFlowOnSpark 2.2.5 with InputMode.SPARK, measured once on 2 cores.
_PEER_ROWS_PER_S = {"a": 19_700, "b": 11_600, "c": 4_600, "d": 10_700}


def _run(arguments):
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        package = pathlib.Path(root, "millrace.zip")
        with zipfile.ZipFile(package, "w") as archive:
            for path in sorted((_ROOT / "spark_connector/python/millrace").glob("*.py")):
                archive.write(path, f"millrace/{path.name}")
        # For the Python of driver and executors, which has no other packages.
        sites = [entry for entry in sys.path if entry.endswith("/site")]
        with SparkCluster(pathlib.Path(root, "spark"), cores=2, memory_mb=4096) as cluster:
            return cluster.run(
                None,
                [_ROOT / "testing/bench/spark_feed_app.py", (_ROOT / "spark_connector/millrace-spark.jar").resolve()],
                [(_ROOT / "testing/bench/spark_feed_node").resolve(), f"--shapes={arguments.shapes}"]
                + [f"--reps={arguments.reps}", f"--scale={arguments.scale}"],
                conf={
                    "spark.executor.memory": "1500m",
                    "spark.driver.memory": "1g",
                    "spark.driver.extraJavaOptions": "-XX:-UsePerfData",
                    "spark.executor.extraJavaOptions": "-XX:-UsePerfData",
                    "spark.ui.showConsoleProgress": "false",
                },
                executors=2,
                environment={"PYTHONPATH": ":".join(sites)},
                py_files=[package],
            )


def _figures(output):
    found = {}
    for line in output.splitlines():
        if line.startswith("FIGURE "):
            figure = json.loads(line[len("FIGURE ") :])
            found.setdefault((figure["shape"], figure["way"]), (figure["rows"], []))[1].append(figure["seconds"])
    return found


def _bench(name, ours, ref, unit, what, ratio, goal):
    verdict = "ok" if ratio >= goal else "short"
    return {
        "name": name, "ours": ours, "ref": ref, "unit": unit, "reference": what, "ratio": ratio, "goal": goal,
        "verdict": verdict,
    }


def _report(found):
    reports = []
    print(f"\n{'shape':32} {'way':12} {'rows/s, best':>14} {'median':>14}")
    for (shape, way), (rows, seconds) in found.items():
        if shape != "-":
            best, median = rows / min(seconds), rows / statistics.median(seconds)
            print(f"{_NAMES[shape]:32} {way:12} {best:14,.0f} {median:14,.0f}")
    for shape, goal in _GOALS.items():
        if (shape, "Millrace") in found:
            rows, ours = found[shape, "Millrace"]
            _, theirs = found[shape, "mapInArrow"]
            ours, theirs = rows / statistics.median(ours), rows / statistics.median(theirs)
            name = "spark_feed_" + shape.replace(" ", "_")
            reports.append(_bench(name, ours, theirs, "rows/s", "mapInArrow", ours / theirs, goal))
        if shape in _PEER_ROWS_PER_S:
            print(f"note: the peer has fed {_PEER_ROWS_PER_S[shape]:,} rows/s of {_NAMES[shape]}, measured once elsewhere")
    for way in ("first run", "run", "shutdown"):
        if ("-", way) in found:
            seconds = statistics.median(found["-", way][1])
            name = "spark_" + way.replace(" ", "_")
            reports.append(_bench(name, seconds, 1.0, "s", "a goal", 1.0 / seconds, 1.0))
    for report in reports:
        print(
            "BENCH {name} ours={ours:.4g}{unit} ref={ref:.4g}{unit} ({reference}) ratio={ratio:.2f} goal={goal} "
            "{verdict}".format(**report)
        )
    return reports


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="a,b,c,d,s")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    java_home()
    load = os.getloadavg()[0]
    print(f"{platform.node()}: {os.cpu_count()} CPUs, load {load:.1f}, {spark_home().name}, Python {platform.python_version()}")
    code, output = _run(arguments)
    if code:
        print(output)
        return code
    reports = _report(_figures(output))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
