#!/usr/bin/env python3
"""Compares two folders of files that people install: same_bytes.py ONE ANOTHER.

Names what differs, of an archive the entries too, and fails if anything does or if there is nothing.
"""

import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import zipfile


def entries(name, data):
    """The digests of what an archive holds, and of all that is told about each entry; none for another file."""
    if name.endswith(".deb"):
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", "/dev/stdin"], input=data, stdout=subprocess.PIPE,
                              check=True).stdout  # fmt: skip
        name = "data.tar"
    if name.endswith((".tar", ".tar.gz")):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return {
                member.name: (member.mode, member.uid, member.mtime, member.linkname, hashlib.sha256(
                    archive.extractfile(member).read()).hexdigest() if member.isreg() else "")
                for member in archive
            }  # fmt: skip
    if name.endswith((".whl", ".jar")):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {
                member.filename: (member.date_time, member.external_attr, member.CRC) for member in archive.infolist()
            }
    return {}


def differences(one, another):
    """Lines that name what differs between two folders."""
    names = {path.name for path in one.iterdir()} | {path.name for path in another.iterdir()}
    if not names:
        return ["there is nothing to compare"]
    lines = []
    for name in sorted(names):
        if not (one / name).exists() or not (another / name).exists():
            lines.append(f"{name} is made once")
            continue
        first, second = (one / name).read_bytes(), (another / name).read_bytes()
        if first != second:
            lines.append(f"{name} differs")
            held, held_too = entries(name, first), entries(name, second)
            lines += [f"  {entry}" for entry in sorted(set(held) | set(held_too))
                      if held.get(entry) != held_too.get(entry)]  # fmt: skip
    return lines


def main():
    one, another = map(pathlib.Path, sys.argv[1:])
    lines = differences(one, another)
    if lines:
        sys.exit("\n".join(lines))
    for path in sorted(one.iterdir()):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
    print(f"the same bytes in both: {len(list(one.iterdir()))} files")


if __name__ == "__main__":
    main()
