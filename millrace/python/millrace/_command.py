"""The command `millrace` of the wheel: the program of that name in bin/ of the package."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).resolve().parent / "bin" / "millrace"
    try:
        os.execv(program, ["millrace", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"millrace: {program} cannot be run ({error.strerror}); it comes with the wheel")


if __name__ == "__main__":
    main()
