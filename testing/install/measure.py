"""Prints the table of docs/install.md: size and seconds of each way, the least of three times.

    ./bazelw run --config=release //testing/install:measure
"""

import os
import re
import subprocess
import sys
import tempfile

import page
import root_folder

_TIMES = 3


def _megabytes(files):
    return f"{sum(os.path.getsize(file) for file in files) / 1e6:.0f} MB"


def _row(name, files, seconds):
    first, _, _, works = page.rows()[name]
    print(f"| {first} | {_megabytes(files)} | {seconds:.1f} | {works} |", flush=True)


def _told_by(test, arguments, pattern):
    """The seconds that a test tells."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TEST_SRCDIR": os.path.dirname(os.getcwd()), "TEST_TMPDIR": folder}
        command = [test, *arguments, "-k", "what_the_page_says"]
        ended = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    told = re.search(pattern, ended.stdout)
    if ended.returncode or not told:
        raise root_folder.Unavailable(f"{test} ended with {ended.returncode}:\n{ended.stdout}")
    return float(told[1])


def main():
    tests = dict(argument.split("=")[1:] for argument in sys.argv[1:] if argument.startswith("--test="))
    roots = dict(argument.split("=") for argument in sys.argv[1:] if "=" in argument and argument[0] != "-")
    products = page.products_of([argument for argument in sys.argv[1:] if "=" not in argument])
    try:
        root_folder.check()
        for way in page.WAYS:
            if way.row is None:
                continue
            took = min(way.run(roots, products)[1] for _ in range(_TIMES))
            _row(way.row, way.files(products), took)
        for section, (row, names, pattern) in page.ELSEWHERE.items():
            if row is not None:
                files = [products[name] for name in names]
                took = min(_told_by(tests[section], files, pattern) for _ in range(_TIMES))
                _row(row, files, took)
    except root_folder.Unavailable as why:
        sys.exit(f"measure: {why}")


if __name__ == "__main__":
    main()
