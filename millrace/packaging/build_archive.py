"""Builds the archive for any Linux on x86-64: build_archive.py OUT --roots FOLDER... --changelog FILE ...

It holds what install.py lays out from the files below the roots, the digits example, the wheel, the licences and this
project's pages.
Programs and shared libraries are stripped. Equal inputs make equal bytes: entries are sorted, belong to root, and are
of the day of the version in the changelog.
"""

import argparse
import calendar
import datetime
import gzip
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import install
import licenses

_EXAMPLE = ("examples/digits/installed/digits", "examples/digits/installed/digits_node", "examples/digits/digits.csv")


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def day_of(changelog):
    """(version, seconds since 1970) of the newest version in the changelog."""
    version, day = re.search(r"(?m)^## \[([0-9.]+)\] - (\S+)$", changelog.read_text(encoding="utf-8")).groups()
    return version, calendar.timegm(datetime.date.fromisoformat(day).timetuple())


def _add_example(folder):
    folder.mkdir(parents=True)
    for path in _EXAMPLE:
        target = folder / pathlib.Path(path).name
        shutil.copyfile(install.source(path), target)
        target.chmod(0o755)
    (folder / "millrace-agent").symlink_to("../../../bin/millrace-agent")  # where digits looks for it


def _strip(folder):
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and is_elf(path):
            subprocess.run(["strip", "--strip-unneeded", str(path)], check=True)


def add_folder(archive, folder, name, time):
    """All of a folder, as `name`, with the modes that a package's files have."""
    for path in [folder, *sorted(folder.rglob("*"))]:
        entry = archive.gettarinfo(path, (pathlib.Path(name) / path.relative_to(folder)).as_posix())
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        entry.mtime = time
        if not entry.issym():
            entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        if entry.isreg():
            with open(path, "rb") as file:
                archive.addfile(entry, file)
        else:
            archive.addfile(entry)


def _pack(folder, name, time, level, out):
    with open(out, "wb") as file, gzip.GzipFile("", "wb", level, file, mtime=time) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
            add_folder(archive, folder, name, time)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--roots", nargs="+", required=True, help="where the files of this repository are")
    parser.add_argument("--changelog", required=True, type=pathlib.Path)
    parser.add_argument("--wheel", required=True, type=pathlib.Path)
    parser.add_argument("--notice", required=True, type=pathlib.Path)
    parser.add_argument("--texts", nargs="+", required=True, metavar="SOURCE=PLACE", help="licences")
    parser.add_argument("--linked", nargs="+", required=True, metavar="PACKAGE", help="of Debian, in the programs")
    parser.add_argument("--level", type=int, default=9, help="how hard to compress: 1 is quick")
    parser.add_argument("--pages", nargs="+", required=True, type=pathlib.Path, help="of the documentation")
    arguments = parser.parse_args()
    version, time = day_of(arguments.changelog)
    name = arguments.out.name.removesuffix(".tar.gz")
    install.ROOTS[:] = arguments.roots
    if version != install.version() or f"-{version}-" not in name:
        sys.exit(f"build_archive: {name}, the changelog ({version}) and version.bzl ({install.version()}) differ")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary) / name
        install.install(str(folder))
        _add_example(folder / "lib/millrace/examples")
        _strip(folder)
        shutil.copy(arguments.wheel, folder / "share/millrace")
        documentation = folder / "share/doc/millrace"
        texts = {place.removeprefix("licenses/"): source for source, _, place in
                 (pair.partition("=") for pair in arguments.texts)}  # fmt: skip
        licenses.write(documentation / "licenses", arguments.notice, texts,
                       {"In the programs themselves": arguments.linked})
        for page in arguments.pages:
            place = documentation / page
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(page, place)
        for path in folder.rglob("*"):
            if path.is_file() and not path.is_symlink() and not is_elf(path):
                path.chmod(0o644)
        _pack(folder, name, time, arguments.level, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
