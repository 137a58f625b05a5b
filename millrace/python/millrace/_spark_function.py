"""What a node on Spark runs whose program is a function: `python -m millrace._spark_function`.

MILLRACE_PYTHON_FUNCTION names the file in which Spark's task has left it.
"""

import os
import pickle
import sys
from typing import Any, Callable, Tuple

from millrace.error import FailedPreconditionError
from millrace.node import Node, run_node

_FILE = "MILLRACE_PYTHON_FUNCTION"  # io.millrace.spark.internal.cluster.PythonFunction


def _unpacked(file: str) -> Callable[[Node], object]:
    with open(file, "rb") as stream:  # as spark_cluster.py makes it
        made: Tuple[Tuple[int, int], bytes] = pickle.load(stream)
    if made[0] != sys.version_info[:2]:
        raise FailedPreconditionError(
            "FAILED_PRECONDITION",
            f"{sys.executable} is Python {'.'.join(map(str, sys.version_info[:2]))}, and the driver, which has pickled "
            f"the function, {'.'.join(map(str, made[0]))}: set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to the same",
        )
    function: Callable[[Node], object] = pickle.loads(made[1])
    return function


def _main(node: Node) -> Any:
    return _unpacked(os.environ[_FILE])(node)


if __name__ == "__main__":
    run_node(_main)
