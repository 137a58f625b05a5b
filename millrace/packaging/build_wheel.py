"""Builds the wheel: build_wheel.py OUT --package FILE... --files SOURCE=PLACE...

The package's files keep their places; each SOURCE goes to PLACE in the wheel. Programs and libraries are stripped.
auditwheel then adds the libraries that
these need and not every Linux has, under names of their own, and refuses if something needs a newer system than the
file name of OUT says.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import auditwheel

_EPOCH = "315532800"  # 1980, where ZIP's time begins: equal inputs make equal wheels
_TIME = (1980, 1, 1, 0, 0, 0)

# Of glibc and GCC.
_EVERYWHERE = re.compile(r"(ld-linux.*|lib(c|dl|gcc_s|m|pthread|resolv|rt|stdc\+\+|util))\.so\b")

_METADATA = """\
Metadata-Version: 2.1
Name: millrace
Version: {version}
Summary: Clusters of programs that are fed: nodes and drivers in Python, on this machine and on Spark
Requires-Python: >=3.9
License: Apache-2.0
Provides-Extra: examples
Requires-Dist: numpy; extra == "examples"
Description-Content-Type: text/markdown

{readme}"""

_WHEEL = """\
Wheel-Version: 1.0
Generator: millrace
Root-Is-Purelib: false
Tag: py3-none-linux_x86_64
"""

_ENTRY_POINTS = """\
[console_scripts]
millrace = millrace._command:main
"""


def _is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _stage(pairs, folder):
    for source, place in pairs:
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if _is_elf(target):
            subprocess.run(["strip", "--strip-unneeded", str(target)], check=True)
            target.chmod(0o755)


def _libraries(folder):
    """What the programs and libraries below `folder` load that not every system has."""
    found = set()
    for path in folder.rglob("*"):
        if path.is_file() and _is_elf(path):
            told = subprocess.run(["ldd", str(path)], capture_output=True, text=True, check=False).stdout
            found.update(re.findall(r"=> (/\S+)", told))
    return {path for path in found if not _EVERYWHERE.match(os.path.basename(path))}


def _package_of(library):
    """Debian's package; its database knows a file by the one or the other of its names."""
    real = os.path.realpath(library)
    for path in (real, real.removeprefix("/usr"), library):
        told = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False).stdout
        if told:
            return told.split(":")[0]
    sys.exit(f"build_wheel: {library} is of no package, so that its licence is not known")


def _write_licenses(folder, info, own):
    """This project's, and those of the libraries that auditwheel will add."""
    licenses = info / "licenses"
    licenses.mkdir()
    shutil.copyfile(own, licenses / "LICENSE")
    for package in sorted({_package_of(library) for library in _libraries(folder)}):
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", licenses / package)


def _write_info(folder, version, readme):
    info = folder / f"millrace-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_METADATA.format(version=version, readme=readme), encoding="utf-8")
    (info / "WHEEL").write_text(_WHEEL, encoding="utf-8")
    (info / "entry_points.txt").write_text(_ENTRY_POINTS, encoding="utf-8")
    return info


def _pack(folder, info, wheel):
    record = info / "RECORD"
    lines = []
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [*paths, record]:
            name = path.relative_to(folder).as_posix()
            if path == record:
                lines.append(f"{name},,")
                data = ("\n".join(lines) + "\n").encode()
            else:
                data = path.read_bytes()
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                lines.append(f"{name},sha256={digest},{len(data)}")
            entry = zipfile.ZipInfo(name, _TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            mode = 0o755 if path != record and _is_elf(path) else 0o644
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)


def _repair(wheel, platform, folder):
    """The wheel with the libraries that it needs, which says that it runs on `platform`."""
    site = pathlib.Path(auditwheel.__file__).resolve().parent.parent
    environment = {
        **os.environ,
        "PATH": f"{site / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(site),
        "SOURCE_DATE_EPOCH": _EPOCH,
    }
    # Spark's jar has programs of its own, which are static.
    command = [sys.executable, "-s", "-P", "-B", "-m", "auditwheel", "repair", "--plat", platform, "--only-plat"]
    ran = subprocess.run(
        [*command, "--wheel-dir", str(folder), str(wheel)], env=environment, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        sys.exit(f"build_wheel: auditwheel says:\n{ran.stdout}{ran.stderr}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--package", nargs="+", required=True, metavar="FILE")
    parser.add_argument("--files", nargs="+", required=True, metavar="SOURCE=PLACE")
    arguments = parser.parse_args()
    pairs = [(file, file.removeprefix("millrace/python/")) for file in arguments.package]
    pairs += [pair.partition("=")[::2] for pair in arguments.files]
    places = {place: source for source, place in pairs}
    package = pathlib.Path(places["millrace/__init__.py"]).read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.*)"$', package, re.MULTILINE)[1]
    name = re.fullmatch(r"millrace-(.+)-py3-none-(.+)\.whl", arguments.out.name)
    if name is None or name[1] != version:
        sys.exit(f"build_wheel: {arguments.out.name} is no name for version {version}")
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        folder = root / "wheel"
        _stage([pair for pair in pairs if "/" in pair[1]], folder)
        info = _write_info(folder, version, pathlib.Path(places["README.md"]).read_text(encoding="utf-8"))
        _write_licenses(folder, info, places["LICENSE"])
        raw = root / f"millrace-{version}-py3-none-linux_x86_64.whl"
        _pack(folder, info, raw)
        repaired = root / "repaired"
        _repair(raw, name[2], repaired)
        found = [path.name for path in repaired.iterdir()]
        if found != [arguments.out.name]:
            sys.exit(f"build_wheel: auditwheel has made {found}, not {arguments.out.name}")
        shutil.copyfile(repaired / found[0], arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
