"""Prints the table of docs/install.md: size and seconds of each way, the least of three times.

    ./bazelw run --config=release //testing/install:measure
"""

import os
import sys

import page
import root_folder

_TIMES = 3


def _megabytes(files):
    return f"{sum(os.path.getsize(file) for file in files) / 1e6:.0f} MB"


def main():
    roots = dict(argument.split("=") for argument in sys.argv[1:] if "=" in argument)
    products = page.products_of([argument for argument in sys.argv[1:] if "=" not in argument])
    try:
        root_folder.check()
        for way in page.WAYS:
            if way.row is None:
                continue
            took = min(way.run(roots, products)[1] for _ in range(_TIMES))
            first, _, _, works = page.rows()[way.row]
            print(f"| {first} | {_megabytes(way.files(products))} | {took:.1f} | {works} |", flush=True)
    except root_folder.Unavailable as why:
        sys.exit(f"measure: {why}")


if __name__ == "__main__":
    main()
