"""The Python package on a real Spark of each line: an application that checks it.

    python_test.py FLAGS [FILE]...

The application is given the node program, the package as an archive, and the files.
"""

import argparse
import importlib.util
import os
import pathlib
import shutil
import sys
import tempfile

import eventually
from spark_cluster import SparkCluster, SparkUnavailable, java_home, spark_home, zip_package


def _run(version, arguments, root):
    folder = pathlib.Path(root, version)
    folder.mkdir()
    node = folder / pathlib.Path(arguments.node).name
    shutil.copy(arguments.node, node)
    package = zip_package(pathlib.Path(arguments.package).resolve().parent, folder / "millrace.zip")
    with SparkCluster(folder / "spark", version=version) as cluster:
        return cluster.run(
            None,
            [pathlib.Path(arguments.application).resolve(), pathlib.Path(arguments.connector).resolve()],
            [node, package, *[pathlib.Path(file).resolve() for file in arguments.files]],
            executors=arguments.executors,
            py_files=[package, pathlib.Path(eventually.__file__).resolve()],
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--connector", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--application", required=True)
    parser.add_argument("--checks", type=int, required=True, help="how many it has")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--module", help="of the system's Python, that the nodes need")
    parser.add_argument("--package", required=True, help="its __init__.py")
    parser.add_argument("--spark", action="append", required=True)
    parser.add_argument("files", nargs="*", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.module and not importlib.util.find_spec(arguments.module):
        print(f"skipped: {arguments.module} is not installed (Debian package python3-{arguments.module})")
        return 1 if os.environ.get(f"MILLRACE_REQUIRE_{arguments.module.upper()}") == "1" else 0
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
            told = [line for line in output.splitlines() if line.startswith(("CHECK ", "INFO "))]
            bad = code != 0 or sum(line.startswith("CHECK ") for line in told) != arguments.checks
            print(f"Spark {version}\n" + (output if bad else "\n".join(told)))
            failed |= bad
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
