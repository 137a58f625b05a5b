#!/usr/bin/env python3
"""Fails if lines that a change adds are not formatted.

    .ci/format_check.py [BASE]

C and C++ are as clang-format 14 does it, within 100 columns; other sources are within 120. Compared are the
working tree and commit BASE: by default the one where this branch left origin's main or, on main itself, the
commit before.
"""

import argparse
import fnmatch
import re
import shutil
import subprocess
import sys

COLUMNS = (
    (("*.c", "*.cc", "*.h"), 100),
    (("*.bzl", "*.java", "*.proto", "*.py", "*.sh", "*BUILD"), 120),
)


def _columns_of(path):
    for patterns, columns in COLUMNS:
        if any(fnmatch.fnmatch(path, pattern) for pattern in patterns):
            return columns
    return None


def long_lines(diff):
    """The places of lines that a `git diff --unified=0 --no-prefix` adds and that are too long."""
    found = []
    path, line, removed, added = "", 0, 0, 0
    for text in diff.split("\n"):
        if removed or added:  # what stands in a hunk may look like anything
            if text.startswith("-"):
                removed -= 1
            elif text.startswith("+"):
                added -= 1
                columns = _columns_of(path)
                if columns and len(text) - 1 > columns:
                    found.append(f"{path}:{line}: {len(text) - 1} columns, of {columns}")
                line += 1
        elif text.startswith("+++ "):
            path = text[4:]
        elif hunk := re.match(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", text):
            removed, line, added = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
    return found


def _git(*arguments):
    """The output; empty if the command fails."""
    ran = subprocess.run(["git", *arguments], capture_output=True, check=False)
    return ran.stdout.decode("utf-8", "replace").rstrip("\n") if ran.returncode == 0 else ""


def _unformatted(base):
    program = shutil.which("clang-format-14")
    if not program or not shutil.which("git-clang-format-14"):
        print("SKIPPED: clang-format 14 is not installed (Debian package clang-format-14)")
        return ""
    ran = subprocess.run(
        ["git-clang-format-14", "--binary", program, "--extensions", "c,cc,h", "--diff", base],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return ran.stdout if ran.stdout.startswith("diff ") else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?")
    base = parser.parse_args().base or _git("merge-base", "HEAD", "refs/remotes/origin/main")
    if base == _git("rev-parse", "HEAD"):
        base = ""
    base = base or _git("rev-parse", "--verify", "HEAD~1")
    if not base:
        print("SKIPPED: this clone has no commit to compare with")
        return 0
    print("lines added since", _git("log", "-1", "--format=%h %s", base))
    diff = _git("diff", "--unified=0", "--no-prefix", "--no-color", "--no-ext-diff", base)
    found = long_lines(diff)
    if wrong := _unformatted(base):
        found += [wrong, f"clang-format 14 formats these lines as shown: git clang-format-14 {base}"]
    for text in found:
        print(text)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
