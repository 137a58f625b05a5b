"""Python packages on a real Spark of each line: an application that checks them.

    python_test.py FLAGS [FILE]...

The application is given the node program, the packages as archives, and the files.
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
    sources = [pathlib.Path(package).resolve().parent for package in arguments.package]
    packages = [zip_package(source, folder / f"{source.name}.zip") for source in sources]
    jar = pathlib.Path(arguments.connector).resolve()
    environment = {}
    if arguments.adds_jar:
        environment["MILLRACE_SPARK_JAR"] = str(jar)
    if arguments.shares_packages:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    with SparkCluster(folder / "spark", version=version) as cluster:
        return cluster.run(
            None,
            [pathlib.Path(arguments.application).resolve(), *([] if arguments.adds_jar else [jar])],
            [node, *packages, *[pathlib.Path(file).resolve() for file in arguments.files]],
            executors=arguments.executors,
            environment=environment,
            py_files=[*packages, pathlib.Path(eventually.__file__).resolve()],
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--connector", required=True)
    parser.add_argument("--adds_jar", action="store_true", help="it has none until it starts a cluster")
    parser.add_argument("--shares_packages", action="store_true", help="it has those of this test")
    parser.add_argument("--node", required=True)
    parser.add_argument("--application", required=True)
    parser.add_argument("--checks", type=int, required=True, help="how many it has")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--module", help="of the system's Python, that the nodes need")
    parser.add_argument("--package", action="append", required=True, help="its __init__.py")
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
