#!/usr/bin/env python3
"""Fails if C or C++ is not as clang-format 14 has it, or lines that a change adds are too long.

    .ci/format_check.py [BASE]

Every C and C++ file is looked at (100 columns, .clang-format). Lines of other sources are within 120 columns if
they differ from commit BASE: by default the one where this branch left origin's main or, on main itself, the
commit before.
"""

import argparse
import fnmatch
import re
import shutil
import subprocess
import sys

COLUMNS = (
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


def unformatted(files, program):
    """What clang-format says of files that it would change."""
    ran = subprocess.run(
        [program, "--dry-run", "--Werror", "--ferror-limit=3", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stderr if ran.returncode else ""


def _unformatted():
    program = shutil.which("clang-format-14")
    if not program:
        print("SKIPPED: clang-format 14 is not installed (Debian package clang-format-14)")
        return ""
    return unformatted(_git("ls-files", "*.c", "*.cc", "*.h").split("\n"), program)


def base_commit():
    """Where this branch left origin's main; on main itself, the commit before. Empty: there is none."""
    base = _git("merge-base", "HEAD", "refs/remotes/origin/main")
    if base == _git("rev-parse", "HEAD"):
        base = ""
    return base or _git("rev-parse", "--verify", "HEAD~1")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", nargs="?")
    base = parser.parse_args().base or base_commit()
    if not base:
        print("SKIPPED: this clone has no commit to compare with")
        return 0
    print("lines added since", _git("log", "-1", "--format=%h %s", base))
    diff = _git("diff", "--unified=0", "--no-prefix", "--no-color", "--no-ext-diff", base)
    found = long_lines(diff)
    if wrong := _unformatted():
        found += [wrong, "git ls-files '*.c' '*.cc' '*.h' | xargs clang-format-14 -i formats them"]
    for text in found:
        print(text)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
