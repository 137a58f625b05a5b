"""TensorFlowOnSpark's own tests and examples, unmodified, on this repository's package of that name. See README.md.

    run.sh SOURCE [--examples] [--original] [--tests PATTERN] [--log FILE]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import peer_examples
from spark_cluster import SparkCluster, SparkUnavailable

_HERE = pathlib.Path(__file__).resolve().parent
_ROOT = pathlib.Path(__file__).parents[2]  # of this repository, in the runfiles
_LIMIT_S = 1800


def _reasons():
    """Test to the reason why it is not ours to pass."""
    found = {}
    for line in (_HERE / "reasons.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            test, _, reason = line.partition(": ")
            found[test] = reason
    return found


def _variables(source, original):
    """What driver and executors have besides Spark's: modules, and where the programs of Millrace are."""
    modules = os.environ["PYTHONPATH"].split(":")
    found = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    if original:
        modules = [str(source), *(path for path in modules if not path.endswith("/tensorflowonspark"))]
    else:
        found["MILLRACE_LIBRARY"] = str((_ROOT / "millrace/c/libmillrace.so").resolve())
        found["MILLRACE_SPARK_JAR"] = str((_ROOT / "spark_connector/millrace-spark.jar").resolve())
    return found | {"PYTHONPATH": ":".join(modules)}


def _run_tests(source, pattern, cluster, variables, jar, folder, log):
    """Runs the tests where they may write, in a driver that they make; returns how each one ended."""
    tests, configuration = folder / "tests", folder / "conf"
    shutil.copytree(source / "tests", tests)
    configuration.mkdir()
    settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    settings |= {f"spark.executorEnv.{name}": value for name, value in variables.items()}
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (configuration / "spark-defaults.conf").write_text(text, encoding="utf-8")
    environment = cluster.environment() | variables
    environment |= {
        "MASTER": cluster.url,
        "SPARK_WORKER_INSTANCES": "2",
        "SPARK_CLASSPATH": str(jar),
        "SPARK_CONF_DIR": str(configuration),
    }
    environment["PYTHONPATH"] += "".join(f":{archive}" for archive in cluster.home.glob("python/lib/*.zip"))
    results = folder / "results.json"
    command = [sys.executable, _HERE / "record_tests.py", tests, pattern, results]
    subprocess.run(command, env=environment, cwd=tests, stdout=log, stderr=log, timeout=_LIMIT_S, check=False)
    return json.loads(results.read_text(encoding="utf-8")) if results.exists() else []


def _report(rows, reasons):
    """Returns whether all is as it should be."""
    as_due = bool(rows)
    for row in rows:
        test, passed = row["test"], row["outcome"] == "ok"
        note = ""
        if test in reasons:
            note = "listed in reasons.txt, and passes: take it out" if passed else reasons[test]
        elif not passed:
            note = row["why"].strip().splitlines()[-1]
        as_due &= passed != (test in reasons)
        print(f"{row['outcome']:7} {row['seconds']:6.1f} s  {test}" + (f"\n    {note}" if note else ""))
    passed = sum(row["outcome"] == "ok" for row in rows)
    print(f"{passed} of {len(rows)} passed; {sum(row['test'] in reasons for row in rows)} are listed in reasons.txt")
    return as_due


def main():
    parser = argparse.ArgumentParser(prog="run.sh", description="Runs TensorFlowOnSpark's own tests on Millrace.")
    parser.add_argument("source", metavar="SOURCE", help="a checkout of TensorFlowOnSpark")
    parser.add_argument("--examples", action="store_true", help="run its examples instead")
    parser.add_argument("--original", action="store_true", help="run them on TensorFlowOnSpark itself, to compare")
    parser.add_argument("--tests", metavar="PATTERN", help='of files: "test_TF*.py", or of examples "*mnist_tf.py"')
    parser.add_argument("--log", default="peer_suite.log", metavar="FILE", help="what they and Spark write")
    arguments = parser.parse_args()
    here = pathlib.Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    log_file = (here / arguments.log).resolve()
    source = (here / arguments.source).resolve()
    if not (source / "tests/test_TFCluster.py").is_file():
        parser.error(f"{source} is no checkout of TensorFlowOnSpark: it has no tests/test_TFCluster.py")
    jar = source / "lib/tensorflow-hadoop-1.0-SNAPSHOT.jar"
    variables = _variables(source, arguments.original)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root,
            open(log_file, "wb") as log,
            SparkCluster(
                pathlib.Path(root, "spark"), cores=1, memory_mb=3072, version="3_5", hosts=("127.0.0.1",) * 2
            ) as cluster,
        ):
            folder = pathlib.Path(root)
            if arguments.examples:
                jars = [jar] if arguments.original else []
                rows = peer_examples.run(source, arguments.tests or "*", cluster, variables, jars, folder, log)
            else:
                rows = _run_tests(source, arguments.tests or "test*.py", cluster, variables, jar, folder, log)
    except SparkUnavailable as why:
        sys.exit(f"no Spark: {why}")
    except subprocess.TimeoutExpired:
        sys.exit(f"the tests had not ended after {_LIMIT_S} s: {log_file}")
    as_due = _report(rows, {} if arguments.original else _reasons())
    print(f"what they wrote: {log_file}")
    return 0 if as_due or arguments.original else 1


if __name__ == "__main__":
    sys.exit(main())
