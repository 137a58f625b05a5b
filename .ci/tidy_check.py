#!/usr/bin/env python3
"""Runs clang-tidy 14 with the checks of .clang-tidy on the C++ sources that differ from a commit.

    .ci/tidy_check.py [--base COMMIT] [--seconds SECONDS]

By default the base is the commit where this branch left origin's main or, on main itself, the commit before. A header
that differs is looked at through the source of its name; other headers are not. Sources that are not begun within
SECONDS are named and left out. Exits with 1 if a check finds something.
"""

import argparse
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import time

# No check of the source needs these options of a compiler's command line. What -include names is the compiler's own
# precompiled header, and sources include all that they need by themselves.
_WITH_VALUE = ("-o", "-MF", "-c", "-include")
_UNWANTED = re.compile(r"-(W.*|M[DMP]*|f(random-seed|no-canonical|no-working-directory).*|-param=.*|g\d?)$")


def sources_of(changed, ignored=(), exists=os.path.exists):
    """The sources to look at when the files of the list differ; those in an ignored folder are another workspace's."""
    found = set()
    for path in changed:
        stem, extension = os.path.splitext(path)
        if path.startswith(tuple(folder + "/" for folder in ignored)):
            continue
        if extension in (".cc", ".h") and exists(stem + ".cc"):
            found.add(stem + ".cc")
    return sorted(found)


def ignored_folders():
    with open(".bazelignore", encoding="utf-8") as file:
        return file.read().split()


def package_of(path, exists=os.path.exists):
    """The folder with a BUILD file that the file belongs to."""
    folder = os.path.dirname(path)
    while folder and not exists(os.path.join(folder, "BUILD")):
        folder = os.path.dirname(folder)
    return folder


def header_filter(changed):
    """A regular expression of the headers among the files of the list."""
    headers = [re.escape(path) for path in changed if path.endswith(".h")]
    return f"(^|/)({'|'.join(headers)})$" if headers else "^$"


def clang_options(command):
    """What of a compiler's command line, its program first, clang-tidy is told."""
    options = []
    arguments = iter(command[1:])
    for argument in arguments:
        if argument in _WITH_VALUE:
            next(arguments, None)
        elif not _UNWANTED.match(argument):
            options.append(argument)
    return options


def commands_of(actions):
    """Each source's command line in what `aquery --output=jsonproto` prints."""
    found = {}
    for action in json.loads(actions).get("actions", []):
        command = action.get("arguments", [])
        if "-c" in command:
            found.setdefault(command[command.index("-c") + 1], command)
    return found


def _git(*arguments):
    """The output; empty if the command fails."""
    ran = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def base_commit():
    """Where this branch left origin's main; on main itself, the commit before. Empty: there is none."""
    base = _git("merge-base", "HEAD", "refs/remotes/origin/main")
    if base == _git("rev-parse", "HEAD"):
        base = ""
    return base or _git("rev-parse", "--verify", "HEAD~1")


def _bazel(*arguments):
    ran = subprocess.run(["./bazelw", *arguments], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        sys.exit(f"bazelw {' '.join(arguments)} failed: {ran.stderr}")
    return ran.stdout.strip()


def _look(program, root, source, command, deadline):
    """What clang-tidy finds in one source; None: there was no time left."""
    if time.monotonic() > deadline:
        return None
    ran = subprocess.run(
        [*program, source, "--", *clang_options(command)],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout + ran.stderr if ran.returncode else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base")
    parser.add_argument("--seconds", type=float, default=240)
    arguments = parser.parse_args()
    program = shutil.which("clang-tidy-14")
    base = arguments.base or base_commit()
    if not program or not base:
        print("SKIPPED: " + ("no commit to compare with" if program else "Debian's clang-tidy-14 is not installed"))
        return 0
    changed = subprocess.run(
        ["git", "diff", "--name-only", "--diff-filter=d", base, "--"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout.split("\n")
    sources = sources_of(changed, ignored_folders())
    if not sources:
        print("no C++ source differs from", base)
        return 0
    packages = sorted({package_of(source) for source in sources})
    targets = [f"//{package}:all" for package in packages]
    # Headers that are generated.
    _bazel("build", "--keep_going", "--output_groups=compilation_prerequisites_INTERNAL_", *targets)
    wanted = f'mnemonic("CppCompile", {" + ".join(targets)})'
    actions = _bazel("aquery", "--output=jsonproto", "--include_artifacts=false", wanted)
    commands = commands_of(actions)
    root = _bazel("info", "execution_root")
    program = [
        program,
        "--quiet",
        f"--config-file={os.path.abspath('.clang-tidy')}",
        f"--header-filter={header_filter(changed)}",
    ]
    deadline = time.monotonic() + arguments.seconds
    found = looked_at = 0
    left_out = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [
            (source, pool.submit(_look, program, root, source, commands[source], deadline))
            for source in sources
            if source in commands
        ]
        for source, future in running:
            said = future.result()
            if said is None:
                left_out.append(source)
                continue
            looked_at += 1
            if said:
                found += 1
                print(said)
    if left_out:
        print(f"not looked at, since {arguments.seconds:g} s have passed:", *left_out)
    print(f"{looked_at} sources looked at, {found} with findings, {len(left_out)} left out")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
