"""Builds the wheel: build_wheel.py OUT --package FILE... --files SOURCE=PLACE... --linked PACKAGE...

The package's files keep their places; each SOURCE goes to PLACE in the wheel: below millrace/, below licenses/, or
NOTICE and README.md. Programs and libraries are stripped. auditwheel then adds the libraries that these need and not
every Linux has, under names of their own, and refuses if something needs a newer system than the file name of OUT says.
--linked are packages of Debian of which something is in the programs themselves.
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
import licenses

_EPOCH = "315532800"  # 1980, where ZIP's time begins: equal inputs make equal wheels
_TIME = (1980, 1, 1, 0, 0, 0)

# Of glibc, GCC, zlib and X11: what auditwheel leaves to the system, with what it loads itself.
_EVERYWHERE = re.compile(r"(ld-linux.*|lib(c|dl|gcc_s|m|pthread|resolv|rt|stdc\+\+|util|z|X11))\.so\b")

_METADATA = """\
Metadata-Version: 2.1
Name: millrace
Version: {version}
Summary: Clusters of programs that are fed: nodes and drivers in Python, on this machine and on Spark
Requires-Python: >=3.9
License: Apache-2.0
License-File: LICENSE
License-File: NOTICE
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
millrace-agent = millrace._command:agent
millrace-dashboard = millrace._command:dashboard
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
    waiting = [path for path in folder.rglob("*") if path.is_file() and _is_elf(path)]
    while waiting:
        program = str(waiting.pop())
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        paths = dict(re.findall(r"(\S+) => (/\S+)", told))
        dynamic = subprocess.run(["readelf", "-dW", program], capture_output=True, text=True, check=True).stdout
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        new = {paths[name] for name in needed & set(paths) if not _EVERYWHERE.match(name)} - found
        found |= new
        waiting += new
    return found


def _package_of(library):
    """Debian's package; its database knows a file by the one or the other of its names."""
    real = os.path.realpath(library)
    for path in (real, real.removeprefix("/usr"), library):
        told = subprocess.run(["dpkg-query", "--search", path], capture_output=True, text=True, check=False).stdout
        if told:
            return told.split(":")[0]
    sys.exit(f"build_wheel: {library} is of no package, so that its licence is not known")


def _write_licenses(info, places, libraries, linked):
    shipped = {_package_of(library) for library in libraries}
    texts = {
        place.removeprefix("licenses/"): source for place, source in places.items() if place.startswith("licenses/")
    }
    packages = {"In millrace.libs/": shipped, "In the programs themselves": linked}
    licenses.write(info / "licenses", places["NOTICE"], texts, packages)


def _description(readme):
    """README.md where its neighbours are not: of a link to one of them its text remains."""
    return re.sub(r"\[([^]]*)\]\((?!#|https?:)[^)]*\)", r"\1", readme)


def _write_info(folder, version, readme):
    info = folder / f"millrace-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(_METADATA.format(version=version, readme=_description(readme)), encoding="utf-8")
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


def _check_licenses(wheel, libraries):
    """Refuses a wheel with other libraries than those whose licences are in it."""
    with zipfile.ZipFile(wheel) as archive:
        names = [os.path.basename(name) for name in archive.namelist() if name.startswith("millrace.libs/lib")]
    brought = {re.sub(r"-[0-9a-f]{8}(?=\.)", "", name) for name in names}
    known = {os.path.basename(os.path.realpath(library)) for library in libraries}
    known |= {os.path.basename(library) for library in libraries}
    if not brought <= known or len(brought) != len(libraries):
        sys.exit(f"build_wheel: the licences are those of {sorted(known)}, but the wheel has {sorted(brought)}")


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
    parser.add_argument("--linked", nargs="+", required=True, metavar="PACKAGE")
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
        _stage([pair for pair in pairs if pair[1].startswith("millrace/")], folder)
        info = _write_info(folder, version, pathlib.Path(places["README.md"]).read_text(encoding="utf-8"))
        libraries = _libraries(folder)
        _write_licenses(info, places, libraries, arguments.linked)
        raw = root / f"millrace-{version}-py3-none-linux_x86_64.whl"
        _pack(folder, info, raw)
        repaired = root / "repaired"
        _repair(raw, name[2], repaired)
        found = [path.name for path in repaired.iterdir()]
        if found != [arguments.out.name]:
            sys.exit(f"build_wheel: auditwheel has made {found}, not {arguments.out.name}")
        _check_licenses(repaired / found[0], libraries)
        shutil.copyfile(repaired / found[0], arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
