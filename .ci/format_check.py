#!/usr/bin/env python3
"""Fails if C or C++ is not as clang-format 14 has it, or lines are too long.

    .ci/format_check.py

Looks at every file that Git knows: C and C++ (100 columns, .clang-format), and lines of other sources, which are
within 120 columns.
"""

import fnmatch
import shutil
import subprocess
import sys

COLUMNS = 120
PATTERNS = ("*.bzl", "*.java", "*.proto", "*.py", "*.sh", "*BUILD")


def long_lines(path, text):
    """The places of lines that are too long; none in files of other kinds."""
    if not any(fnmatch.fnmatch(path, pattern) for pattern in PATTERNS):
        return []
    return [
        f"{path}:{number}: {len(line)} columns, of {COLUMNS}"
        for number, line in enumerate(text.split("\n"), 1)
        if len(line) > COLUMNS
    ]


def unformatted(files, program):
    """What clang-format says of files that it would change."""
    ran = subprocess.run(
        [program, "--dry-run", "--Werror", "--ferror-limit=3", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stderr if ran.returncode else ""


def _files(*patterns):
    ran = subprocess.run(["git", "ls-files", "-z", *patterns], stdout=subprocess.PIPE, text=True, check=True)
    return ran.stdout.split("\0")[:-1]


def _unformatted():
    program = shutil.which("clang-format-14")
    if not program:
        print("SKIPPED: clang-format 14 is not installed (Debian package clang-format-14)")
        return ""
    return unformatted(_files("*.c", "*.cc", "*.h"), program)


def main():
    found = []
    for path in _files(*PATTERNS):
        with open(path, encoding="utf-8") as file:
            found += long_lines(path, file.read())
    if wrong := _unformatted():
        found += [wrong, "git ls-files '*.c' '*.cc' '*.h' | xargs clang-format-14 -i formats them"]
    for text in found:
        print(text)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
