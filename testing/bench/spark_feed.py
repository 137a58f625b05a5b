"""Rows of a DataFrame into native nodes on Spark, beside Spark's own ways out of the JVM.

A standalone cluster of this machine with two executors of one core; every way in turns, in one
application, then Millrace alone over CURVE, as from executors of other hosts. The peer runs with --peer
only; otherwise its figures are notes, measured once.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from bench_figures import ROOT, figures, report
from spark_bench import package, print_machine, run_application
from spark_cluster import SparkCluster, java_home

_NAMES = {
    "a": "1 int64",
    "b": "64 float32 in an array",
    "c": "784 float32 in an array",
    "d": "3 KB binary",
    "s": "64 float32 columns",
    "t": "a string of 20 bytes",
    "m": "10 mixed columns",
    "p": "1 int64, 5,000 partitions",
    "q": "5,000 partitions, 3 epochs",
    "e": "1 int64, Parquet",
    "v": "64 float32 in an array, Parquet",
    "f": "784 float32 in an array, Parquet",
    "g": "3 KB binary, Parquet",
    "h": "64 float32 columns, Parquet",
    "u": "a string of 20 bytes, Parquet",
    "w": "10 mixed columns, Parquet",
    "echo of a": "1 int64, and its square back",
}
# Beside mapInArrow; many small partitions beside the way without a sink.
_GOALS = {"a": 1.5, "b": 2.0, "c": 2.0, "d": 1.5, "s": 2.0, "v": 1.8, "w": 1.8, "echo of a": 1.0}
# The same, where rows go through shared memory; and their rate as a share of that of a scan without a sink.
_SHARED_GOALS = {
    "a": 2.8, "b": 3.2, "c": 4.0, "d": 2.2, "s": 3.2, "t": 2.8, "m": 2.2, "v": 1.5, "w": 1.26, "echo of a": 2.4,
}  # fmt: skip
_SCAN_GOALS = {
    "a": 0.7, "b": 0.6, "c": 0.6, "d": 0.6, "s": 0.7, "t": 0.7, "m": 0.7,
    "e": 0.7, "v": 0.6, "f": 0.6, "g": 0.6, "h": 0.7, "u": 0.7, "w": 0.7,
}  # fmt: skip
# The peer's, TensorFlowOnSpark 2.2.5 with InputMode.SPARK, measured once on 2 cores.
_PEER_ROWS_PER_S = {"a": 19_700, "b": 11_600, "c": 4_600, "d": 10_700}


def _settings(java_options=""):
    return {
        "spark.executor.memory": "1500m",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:-UsePerfData",
        "spark.executor.extraJavaOptions": f"-XX:-UsePerfData {java_options}",
    }


def _submit(cluster, packed, arguments, options=(), java_options=""):
    """Runs the application; what it wrote."""
    # For the Python of driver and executors, which has no other packages.
    sites = [entry for entry in sys.path if entry.endswith("/site")]
    return run_application(
        cluster,
        [ROOT / "testing/bench/spark_feed_app.py", (ROOT / "spark_connector/millrace-spark.jar").resolve()],
        [(ROOT / "testing/bench/spark_feed_node").resolve(), f"--shapes={arguments.shapes}"]
        + [f"--reps={arguments.reps}", f"--scale={arguments.scale}", *options],
        _settings(java_options),
        environment={"PYTHONPATH": ":".join(sites)},
        py_files=[packed],
    )


def _submit_peer(cluster, root, arguments):
    """TensorFlowOnSpark and TensorFlow from the registry, into a folder that goes with the run."""
    packages = root / "peer"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for wanted in (["tensorflow-cpu==2.15.*", "setuptools<81"], ["--no-deps", "tensorflowonspark==2.2.5"]):
        subprocess.run([*pip, "--target", str(packages), *wanted], env=environment, check=True)
    return run_application(
        cluster,
        [ROOT / "testing/bench/spark_feed_peer.py"],
        [f"--shapes={arguments.shapes}", f"--reps={arguments.reps}", f"--scale={arguments.scale}"],
        _settings(),
        environment={"PYTHONPATH": str(packages), "TFOS_SERVER_HOST": "127.0.0.1", "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _options(arguments):
    if arguments.memory:
        return [f"--memory={arguments.memory}", f"--pause={arguments.pause}"]
    return ["--only-feeds"] if arguments.only_feeds else []


def _run(arguments):
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        packed = package(root)
        with SparkCluster(pathlib.Path(root, "spark"), cores=2, memory_mb=4096) as cluster:
            output = _submit(cluster, packed, arguments, _options(arguments))
            if arguments.curve and not arguments.memory:
                # Executors that take every node for one of another host.
                output += _submit(cluster, packed, arguments, ["--only-millrace"], "-Dmillrace.feed.curve=true")
            if arguments.peer:
                output += _submit_peer(cluster, pathlib.Path(root), arguments)
            return output


def _figures(output):
    found = {}
    for figure in figures(output):
        key = figure["shape"], figure["way"]
        entry = found.setdefault(key, {"rows": figure["rows"], "seconds": [], "cpu": []})
        entry["seconds"].append(figure["seconds"])
        entry["cpu"].append(figure.get("cpu", {}))
    return found


def _rate(entry, of=statistics.median):
    return entry["rows"] / of(entry["seconds"])


def _print_table(found):
    print(f"\n{'shape':32} {'way':20} {'rows/s, best':>14} {'median':>14}")
    for (shape, way), entry in found.items():
        if shape != "-":
            print(f"{_NAMES[shape]:32} {way:20} {_rate(entry, min):14,.0f} {_rate(entry):14,.0f}")


def _cpu_per_row(entry):
    """Nanoseconds of CPU for a row, by stage, over all repetitions: the kernel counts in hundredths of a second."""
    total = {}
    for cpu in entry["cpu"]:
        for stage, seconds in cpu.items():
            total[stage] = total.get(stage, 0.0) + seconds
    return {stage: 1e9 * seconds / entry["rows"] / len(entry["cpu"]) for stage, seconds in total.items()}


def _print_budget(found):
    """Where the CPU time of a row goes; the scan is what the way without a sink takes in its task."""
    columns = ["wire", "node", "python", "gc", "compiler", "other"]
    print(f"\n{'CPU, ns a row':30} {'way':>19} " + " ".join(f"{name:>8}" for name in ["scan", "copy", *columns, "all"]))
    for (shape, way), entry in found.items():
        if shape == "-" or not all(entry["cpu"]):
            continue
        cpu = _cpu_per_row(entry)
        task = scan = cpu.get("task", 0.0)
        if (shape, "noop scan") in found:
            scan = min(task, _cpu_per_row(found[shape, "noop scan"]).get("task", 0.0))
        parts = [scan, task - scan, *(cpu.get(name, 0.0) for name in columns), sum(cpu.values())]
        print(f"{_NAMES[shape]:30} {way:>19} " + " ".join(f"{part:8.0f}" for part in parts))


def _report_shared(found):
    reports = []
    for goals, other in ((_SHARED_GOALS, "mapInArrow"), (_SCAN_GOALS, "noop scan")):
        for shape, goal in goals.items():
            if (shape, "Millrace, shared") in found:
                ours, theirs = _rate(found[shape, "Millrace, shared"]), _rate(found[shape, other])
                name = f"spark_feed_{shape.replace(' ', '_')}_shared" + ("_scan" if other == "noop scan" else "")
                reports.append(report(name, ours, theirs, "rows/s", other, ours / theirs, goal))
    return reports


def _report_memory(output):
    """What each process held in the last quarter of the time, beside the second one, in which compilers are done."""
    samples = {}
    for figure in figures(output):
        samples.setdefault((figure["way"], figure["pid"]), []).append(figure)
    reports = []
    print(f"\n{'process':20} {'seconds':>8} {'MB':>8} {'threads':>8} {'files':>8}")
    for (way, pid), of_process in samples.items():
        for sample in of_process[:: max(1, len(of_process) // 12)]:
            print(f"{way + ' ' + str(pid):20} {sample['seconds']:8.0f} {sample['mb']:8.0f} {sample['threads']:8}"
                  f" {sample['files']:8}")  # fmt: skip
        quarter = len(of_process) // 4
        then, now = of_process[quarter : 2 * quarter], of_process[3 * quarter :]
        for key, unit in (("mb", "MB"), ("threads", ""), ("files", "")):
            before, after = (statistics.fmean(sample[key] for sample in part) for part in (then, now))
            name, ratio = f"spark_feed_{way}_{pid}_{key}", after / before
            reports.append(report(name, after, before, unit, "the second quarter", ratio, 1.05, at_most=True))
    return reports


def _report(found):
    reports = []
    _print_table(found)
    _print_budget(found)
    print()
    for shape, goal in _GOALS.items():
        if (shape, "Millrace") in found:
            ours, theirs = _rate(found[shape, "Millrace"]), _rate(found[shape, "mapInArrow"])
            name = "spark_feed_" + shape.replace(" ", "_")
            reports.append(report(name, ours, theirs, "rows/s", "mapInArrow", ours / theirs, goal))
        if (shape, "peer") in found:
            ours, theirs = _rate(found[shape, "Millrace"]), _rate(found[shape, "peer"])
            reports.append(report(f"spark_feed_{shape}_peer", ours, theirs, "rows/s", "the peer", ours / theirs, 50.0))
        elif shape in _PEER_ROWS_PER_S:
            rate = f"{_PEER_ROWS_PER_S[shape]:,} rows/s of {_NAMES[shape]}"
            print(f"note: the peer has fed {rate}, measured once elsewhere")
    reports += _report_shared(found)
    for shape, name in (("p", "spark_feed_partitions"), ("q", "spark_feed_partitions_3_epochs")):
        if (shape, "Millrace") in found:
            ours, scan = (statistics.median(found[shape, way]["seconds"]) for way in ("Millrace", "noop scan"))
            reports.append(report(name, ours, scan, "s", "a scan without a sink", scan / ours, 1 / 1.3))
    for way in ("first run", "run", "shutdown", "failure"):
        if ("-", way) in found:
            seconds = statistics.median(found["-", way]["seconds"])
            name = "spark_" + way.replace(" ", "_")
            reports.append(report(name, seconds, 1.0, "s", "a goal", 1.0 / seconds, 1.0))
    return reports


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", default="a,b,c,d,s,t,m,e,v,f,g,h,u,w,p")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--only-feeds", action="store_true", help="no starts, ends and failures of clusters")
    parser.add_argument("--no-curve", dest="curve", action="store_false", help="without feeding over CURVE")
    parser.add_argument("--memory", type=float, default=0, help="what processes hold over so many seconds, no rates")
    parser.add_argument("--pause", type=float, default=0, help="seconds between the calls of --memory")
    parser.add_argument("--peer", action="store_true", help="TensorFlowOnSpark too: installs TensorFlow, takes long")
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    java_home()
    print_machine()
    output = _run(arguments)
    reports = _report_memory(output) if arguments.memory else _report(_figures(output))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
