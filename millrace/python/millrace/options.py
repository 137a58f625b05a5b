"""What a cluster is made of."""

from __future__ import annotations

import enum
import os
import sys
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

from millrace.error import InvalidArgumentError, NotFoundError

__all__ = ["InputMode", "NodeProgram", "Program"]


class InputMode(enum.Enum):
    """Where nodes get their rows from."""

    DIRECT = "DIRECT"  # they read their own data
    FEED = "FEED"  # the driver, or Spark, feeds chief, master and workers


class NodeProgram:
    """The program that every node runs: any executable, built on the SDK or not."""

    def __init__(self, program: str, shipped: bool, args: Sequence[str], env: Optional[Mapping[str, str]] = None):
        self.program = program
        self.shipped = shipped
        self.args = tuple(str(arg) for arg in args)
        self.env: Dict[str, str] = dict(env or {})

    def __repr__(self) -> str:
        return f"<millrace.NodeProgram {' '.join([self.program, *self.args])}>"

    @classmethod
    def file(cls, path: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A file of the driver's host, which is sent to every executor and checked there."""
        return cls(path, True, args, env)

    @classmethod
    def path(cls, path: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A program that is on every host at that path."""
        return cls(path, False, args, env)

    @classmethod
    def python(cls, script: str, *args: str, env: Optional[Mapping[str, str]] = None) -> "NodeProgram":
        """A Python script, at that path on every host, for the interpreter that runs this one."""
        return cls(sys.executable, False, ["-u", script, *args], env)


# NodeProgram; or, on this machine: a script ("train.py"), an executable, or a function of one node, that a
# file has at its top level.
Program = Union[NodeProgram, str, "os.PathLike[str]", Callable[[Any], object]]


def local_program(program: Program, args: Sequence[str]) -> NodeProgram:
    """What `program` means on this machine."""
    if isinstance(program, NodeProgram):
        if args:
            raise InvalidArgumentError("INVALID_ARGUMENT", "args= is for scripts; a NodeProgram has arguments")
        return program
    if callable(program):
        return _function_program(program, args)
    path = os.fspath(program)
    if not path.endswith(".py"):
        return NodeProgram.path(path, *args)
    if not os.path.exists(path):
        raise NotFoundError("NOT_FOUND", f"there is no {os.path.abspath(path)}; Cluster.run needs a node's program")
    return NodeProgram.python(os.path.abspath(path), *args)


def _function_program(function: Callable[..., object], args: Sequence[str]) -> NodeProgram:
    name = getattr(function, "__qualname__", "")
    module = getattr(function, "__module__", "")
    main = sys.modules.get("__main__")
    where = getattr(main, "__file__", "") if module == "__main__" else module
    if not where or not name or "<" in name:
        raise InvalidArgumentError(
            "INVALID_ARGUMENT",
            f"{name or function!r} is in no file that a node could import: write it at the top level of a file, and "
            'give its function, or the file: Cluster.run("train.py")',
        )
    if args:
        raise InvalidArgumentError("INVALID_ARGUMENT", "args= is for scripts; a function takes its node alone")
    if module == "__main__":
        where = os.path.abspath(where)
    folders = os.pathsep.join(os.path.abspath(folder) for folder in sys.path)
    return NodeProgram.path(
        sys.executable, "-u", "-m", "millrace._function", where, name, env={"PYTHONPATH": folders}
    )
