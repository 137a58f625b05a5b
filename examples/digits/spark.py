"""Runs digits_spark.py with spark-submit, on SPARK_MASTER or a standalone cluster of its own.

Arguments are digits_spark.py's. As a test (spark_test) it is the same.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from spark_cluster import SparkCluster, SparkUnavailable, java_home, spark_home, zip_package

_EXAMPLE = pathlib.Path(__file__).parent
_ROOT = _EXAMPLE.parent.parent
_JAR = (_ROOT / "spark_connector/millrace-spark.jar").resolve()


def _submit(master, package):
    """To somebody's cluster, with the spark-submit of SPARK_HOME where that is set."""
    home = pathlib.Path(os.environ.get("SPARK_HOME") or spark_home())
    command = [home / "bin/spark-submit", "--master", master, "--jars", _JAR, "--py-files", package]
    command += ["--conf", "spark.cores.max=4", "--conf", "spark.executor.cores=1"]
    command += [_EXAMPLE / "digits_spark.py", _EXAMPLE / "digits_node", _EXAMPLE / "digits.csv", *sys.argv[1:]]
    return subprocess.run([str(part) for part in command], check=False).returncode


def main():
    try:
        spark_home()
        java_home()
    except SparkUnavailable as why:
        print(f"skipped: {why}")
        return 1 if os.environ.get("MILLRACE_REQUIRE_SPARK") == "1" else 0
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        package = zip_package(_ROOT / "millrace/python/millrace", pathlib.Path(root, "millrace.zip"))
        if master := os.environ.get("SPARK_MASTER"):
            return _submit(master, package)
        data = pathlib.Path(root, "digits.csv")
        data.write_bytes((_EXAMPLE / "digits.csv").read_bytes())
        with SparkCluster(pathlib.Path(root, "spark"), cores=4) as cluster:
            code, output = cluster.run(
                None,
                [_EXAMPLE / "digits_spark.py", _JAR],
                [(_EXAMPLE / "digits_node").resolve(), data, *sys.argv[1:]],
                executors=4,
                py_files=[package],
            )
    told = [line for line in output.splitlines() if re.match(r"(running|trained|accuracy)\b", line)]
    print(output if code else "\n".join(told))
    return code


if __name__ == "__main__":
    sys.exit(main())
