#!/usr/bin/env python3
"""Removes from a cache of Bazel's results what was used longest ago.

    .ci/trim_cache.py --keep-gib GIB [--free-gib GIB] [FOLDER]

Until FOLDER, ~/.cache/millrace/bazel-disk if none is named, holds no more than --keep-gib, and its disk has --free-gib
free. When a file was used is what the file system knows: what a build reads after this has run counts as used then.
What a build misses it makes again.
"""

import argparse
import contextlib
import os
import pathlib
import sys

_GIB = 1 << 30
_DEFAULT = "~/.cache/millrace/bazel-disk"


def files_of(folder):
    """(last use, bytes on the disk, path) of each file."""
    found = []
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            try:
                state = os.lstat(path)
            except FileNotFoundError:  # a build puts files in place by renaming them
                continue
            found.append((max(state.st_atime, state.st_mtime), state.st_blocks * 512, path))
    return found


def watch(folder):
    """Lets the file system write down when each file is read next: most write the time of a reading only if it is the
    first since the file was written, or since a day (relatime)."""
    for used, _, path in files_of(folder):
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (used - 1, used))


def trim(folder, keep, free=0, free_now=lambda folder: os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize):
    """Returns (bytes that stay, bytes that went)."""
    files = files_of(folder)
    total = sum(size for _, size, _ in files)
    to_go = max(total - keep, free - free_now(folder))
    gone = 0
    for _, size, path in sorted(files):
        if gone >= to_go:
            break
        pathlib.Path(path).unlink(missing_ok=True)
        gone += size
    return total - gone, gone


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keep-gib", type=float, required=True, help="that the folder may hold")
    parser.add_argument("--free-gib", type=float, default=0, help="that its disk should have free")
    parser.add_argument("folder", nargs="?", default=_DEFAULT, help=f"{_DEFAULT} if none is named")
    options = parser.parse_args()
    folder = os.path.expanduser(options.folder)
    if not os.path.isdir(folder):
        if options.folder == _DEFAULT:
            print(f"{folder} does not exist yet")
            return
        sys.exit(f"trim_cache: {folder} is no folder")
    kept, gone = trim(folder, options.keep_gib * _GIB, options.free_gib * _GIB)
    watch(folder)
    print(f"{folder}: removed {gone / _GIB:.1f} GiB, kept {kept / _GIB:.1f} GiB")


if __name__ == "__main__":
    main()
