"""The commands of the wheel: the programs of these names in bin/ of the package."""

from __future__ import annotations

import os
import pathlib
import sys


def _run(name: str) -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / name
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program} cannot be run ({error.strerror}); it comes with the wheel")


def main() -> None:
    """millrace"""
    _run("millrace")


def agent() -> None:
    """millrace-agent"""
    _run("millrace-agent")


def dashboard() -> None:
    """millrace-dashboard"""
    _run("millrace-dashboard")


if __name__ == "__main__":
    main()
