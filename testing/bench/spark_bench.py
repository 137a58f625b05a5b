"""What the benchmarks on Spark have in common: the package for PySpark, and the machine."""

import os
import pathlib
import platform

from bench_figures import ROOT
from spark_cluster import spark_home, zip_package


def package(folder):
    """The package `millrace` for PySpark, as an archive in `folder`."""
    return zip_package(ROOT / "millrace/python/millrace", pathlib.Path(folder, "millrace.zip"))


def print_machine():
    load = os.getloadavg()[0]
    versions = f"{spark_home().name}, Python {platform.python_version()}"
    print(f"{platform.node()}: {os.cpu_count()} CPUs, load {load:.1f}, {versions}")
