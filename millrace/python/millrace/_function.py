"""What a node runs whose program is a function: `python -m millrace._function FILE_OR_MODULE FUNCTION`."""

import functools
import importlib
import runpy
import sys
from typing import Any

from millrace.node import run_node


def _main() -> None:
    where, name = sys.argv[1:]
    if where.endswith(".py"):
        # Not as __main__: what the file does behind `if __name__ == "__main__"` is the driver's.
        found = runpy.run_path(where, run_name="__millrace_main__")
        first, *rest = name.split(".")
        function = functools.reduce(getattr, rest, found[first])
    else:
        module: Any = importlib.import_module(where)
        function = functools.reduce(getattr, name.split("."), module)
    run_node(function)


if __name__ == "__main__":
    _main()
