"""The Python package on a real Spark of each line, with python_checks.py as the application."""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

from spark_cluster import SparkCluster, SparkUnavailable, java_home, spark_home, zip_package


CHECKS = 7  # of python_checks.py


def _run(version, arguments, root):
    folder = pathlib.Path(root, version)
    folder.mkdir()
    node = folder / "node"
    shutil.copy(arguments.node, node)
    package = zip_package(pathlib.Path(arguments.package).resolve().parent, folder / "millrace.zip")
    with SparkCluster(folder / "spark", version=version) as cluster:
        return cluster.run(
            None,
            [pathlib.Path(arguments.application).resolve(), pathlib.Path(arguments.connector).resolve()],
            [node],
            py_files=[package],
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--connector", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--application", required=True)
    parser.add_argument("--package", required=True, help="its __init__.py")
    parser.add_argument("--spark", action="append", required=True)
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        for version in arguments.spark:
            try:
                spark_home(version)
                java_home()
            except SparkUnavailable as why:
                print(f"skipped, Spark {version}: {why}")
                failed |= os.environ.get("MILLRACE_REQUIRE_SPARK") == "1"
                continue
            code, output = _run(version, arguments, root)
            told = [line for line in output.splitlines() if line.startswith("CHECK")]
            print(f"Spark {version}\n" + (output if code or len(told) != CHECKS else "\n".join(told)))
            failed |= code != 0 or len(told) != CHECKS
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
