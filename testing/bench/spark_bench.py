"""What the benchmarks on Spark have in common: the package for PySpark, and the machine."""

import os
import pathlib
import platform

from bench_figures import ROOT
from spark_cluster import spark_home, zip_package


def package(folder):
    """The package `millrace` for PySpark, as an archive in `folder`."""
    return zip_package(ROOT / "millrace/python/millrace", pathlib.Path(folder, "millrace.zip"))


def flags(arguments):
    """An application's, which has the same as the benchmark."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in vars(arguments).items()]


def run_application(cluster, files, arguments, settings, **options):
    """What an application wrote, by spark_cluster's `run`, on two executors."""
    settings = {"spark.ui.showConsoleProgress": "false", **settings}
    code, output = cluster.run(None, files, arguments, conf=settings, executors=2, **options)
    if code:
        raise RuntimeError(f"the application ended with {code}:\n{output}")
    return output


def print_machine(version=None):
    load = os.getloadavg()[0]
    versions = f"{spark_home(version).name}, Python {platform.python_version()}"
    print(f"{platform.node()}: {os.cpu_count()} CPUs, load {load:.1f}, {versions}")
