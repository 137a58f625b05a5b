"""Builds Debian packages of the archive: build_debs.py OUT.deb... --archive FILE --debian FILE... --changelog FILE

What is in which package, PACKAGES says; what a package depends on, dpkg-shlibdeps says of its programs and libraries.
--debian are the files of the folder debian/. Equal inputs make equal bytes: all files are of the day of the version in
the changelog, and dpkg-deb sorts them.
"""

import argparse
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import build_archive

_REVISION = 1
_MAINTAINER = "Millrace maintainers <maintainers@millrace.example>"
_ARCHITECTURE = "amd64"

# Of each package: which files of the archive it has (the longest beginning decides), and its control file's fields.
_PLACES = {
    "bin/": "millrace",
    "bin/millrace-dashboard": "millrace-dashboard",
    "include/": "libmillrace-dev",
    "lib/": "libmillrace-dev",
    "lib/millrace/": "millrace",
    "share/": "millrace",
    "share/man/man1/millrace-dashboard.1": "millrace-dashboard",
    # pip's, and a text that Debian has.
    "share/millrace/LICENSE": None,
    "share/millrace/millrace-": None,
    "share/millrace/millrace-spark.jar": "millrace",
    "share/doc/millrace/licenses/LICENSE": None,
    "share/doc/millrace/CHANGELOG.md": None,
}
_CONTROLS = {
    "millrace": {
        "Section": "science",
        "Depends": "adduser",
        "Recommends": "ca-certificates",
        "Suggests": "millrace-dashboard",
        "Description": """clusters of programs that are fed: command line and agent
 Millrace runs clusters of native programs (chief, workers, parameter servers,
 evaluator), feeds them partitions of data over ZeroMQ in Arrow batches,
 returns inference results row for row, and reports in one line what went
 wrong first.
 .
 This package has the command line, the agent that runs a node on its host,
 which can listen as a service, and the jar for Apache Spark.""",
    },
    "millrace-dashboard": {
        "Section": "science",
        "Depends": "libgl1",
        "Suggests": "millrace",
        "Description": """clusters of Millrace in a window
 Millrace runs clusters of native programs and feeds them.
 .
 This package has the dashboard, which shows why a cluster has not started,
 why its GPUs are idle and what broke first.""",
    },
    "libmillrace-dev": {
        "Section": "libdevel",
        "Depends": "libabsl-dev, libsodium-dev",
        "Recommends": "millrace",
        "Suggests": "cmake, pkg-config",
        "Description": """clusters of programs that are fed: headers and libraries
 Millrace runs clusters of native programs and feeds them.
 .
 This package has what node programs and drivers in C++ and C are built with:
 headers, archives and shared libraries, and their files for CMake and
 pkg-config.""",
    },
}
# Beside those of the archive, by their names in debian/: where they go, or which control file they are.
_FILES = {
    "millrace-agent.service": ("millrace", "lib/systemd/system/millrace-agent.service"),
    "millrace-agent.default": ("millrace", "etc/default/millrace-agent"),
    "millrace.lintian-overrides": ("millrace", "usr/share/lintian/overrides/millrace"),
    "millrace-dashboard.lintian-overrides": (
        "millrace-dashboard", "usr/share/lintian/overrides/millrace-dashboard"),
    "libmillrace-dev.lintian-overrides": ("libmillrace-dev", "usr/share/lintian/overrides/libmillrace-dev"),
    "millrace.postinst": ("millrace", "DEBIAN/postinst"),
    "millrace.prerm": ("millrace", "DEBIAN/prerm"),
    "millrace.postrm": ("millrace", "DEBIAN/postrm"),
}


def _package_of(path):
    places = [place for place in _PLACES if path.startswith(place)]
    return _PLACES[max(places, key=len)]


def _compress(path):
    """As gzip -9n does, in its place."""
    data = path.read_bytes()
    with open(f"{path}.gz", "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as packed:
        packed.write(data)
    path.unlink()


def _unpack(archive, folder):
    """Each file of the archive to its package's folder."""
    (folder / "archive").mkdir()
    subprocess.run(["tar", "xzf", str(archive), "-C", str(folder / "archive")], check=True)
    (top,) = (folder / "archive").iterdir()
    for path in sorted(top.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            continue
        name = path.relative_to(top).as_posix()
        package = _package_of(name)
        if package is not None:
            target = folder / package / "usr" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    shutil.rmtree(folder / "archive")


def _debian_changelog(text):
    """The changelog of the packaging, in Debian's form."""
    entries = []
    for number, day, body in re.findall(r"(?ms)^## \[([0-9.]+)\] - (\S+)\n(.*?)(?=^## |^\[|\Z)", text):
        stamp = time.strptime(day, "%Y-%m-%d")
        date = time.strftime("%a, %d %b %Y 00:00:00 +0000", stamp)
        lines = [f"  * Version {number}: changelog.gz beside this file says what changed."]
        entries.append(f"millrace ({number}-{_REVISION}) unstable; urgency=medium\n\n" + "\n".join(lines)
                       + f"\n\n -- {_MAINTAINER}  {date}\n")  # fmt: skip
    return "\n".join(entries)


def _document(folder, package, files, changelog):
    documentation = folder / "usr/share/doc" / package
    documentation.mkdir(parents=True, exist_ok=True)
    copyright = files["copyright.in"].read_text(encoding="utf-8").replace("@PACKAGE@", package)
    (documentation / "copyright").write_text(copyright, encoding="utf-8")
    text = changelog.read_text(encoding="utf-8")
    (documentation / "changelog").write_text(text, encoding="utf-8")
    (documentation / "changelog.Debian").write_text(_debian_changelog(text), encoding="utf-8")
    for path in (documentation / "changelog", documentation / "changelog.Debian",
                 *sorted((folder / "usr/share/man").rglob("*.1"))):  # fmt: skip
        _compress(path)


def _needed(folder, package):
    """What its programs and libraries need, as dpkg-shlibdeps says: "libc6 (>= 2.34), ..."."""
    programs = [path for path in sorted(folder.rglob("*"))
                if path.is_file() and not path.is_symlink() and build_archive.is_elf(path)]  # fmt: skip
    dynamic = [str(path) for path in programs if b"(NEEDED)" in subprocess.run(
        ["readelf", "-dW", str(path)], capture_output=True, check=True).stdout]  # fmt: skip
    if not dynamic:
        return []
    with tempfile.TemporaryDirectory() as place:
        os.mkdir(f"{place}/debian")
        with open(f"{place}/debian/control", "w", encoding="ascii") as file:
            file.write(f"Source: millrace\n\nPackage: {package}\nArchitecture: {_ARCHITECTURE}\n")
        told = subprocess.run(
            ["dpkg-shlibdeps", "-O", "--warnings=0", "--ignore-missing-info", f"-l{folder}/usr/lib", f"-x{package}",
             *dynamic],
            cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)  # fmt: skip
    if told.returncode:
        sys.exit(f"build_debs: dpkg-shlibdeps says of {package}: {told.stderr}")
    return told.stdout.strip().removeprefix("shlibs:Depends=").split(", ")


def _control(folder, package, version):
    fields = dict(_CONTROLS[package])
    depends = _needed(folder, package) + [name for name in fields.pop("Depends", "").split(", ") if name]
    size = sum(-(-path.lstat().st_size // 1024) if path.is_file() or path.is_symlink() else 1
               for path in folder.rglob("*") if "DEBIAN" not in path.parts)  # fmt: skip
    description = fields.pop("Description")
    control = {
        "Package": package, "Source": "millrace", "Version": f"{version}-{_REVISION}",
        "Architecture": _ARCHITECTURE, "Maintainer": _MAINTAINER, "Installed-Size": str(size),
        "Depends": ", ".join(sorted(depends)), "Priority": "optional", **fields, "Description": description,
    }  # fmt: skip
    if package == "millrace":
        del control["Source"]
    return "".join(f"{name}: {value}\n" for name, value in control.items())


def _finish(folder, time_s):
    """Modes and times, and what dpkg checks files with."""
    control = folder / "DEBIAN"
    conffiles = sorted(path.relative_to(folder).as_posix() for path in (folder / "etc").rglob("*") if path.is_file())
    if conffiles:
        (control / "conffiles").write_text("".join(f"/{path}\n" for path in conffiles), encoding="ascii")
    sums = subprocess.run(
        "find . -path ./DEBIAN -prune -o -type f -printf '%P\\0' | LC_ALL=C sort -z | xargs -0 md5sum",
        cwd=folder, shell=True, stdout=subprocess.PIPE, check=True)  # fmt: skip
    (control / "md5sums").write_bytes(sums.stdout)
    if any(path.name.startswith("lib") and ".so" in path.name for path in (folder / "usr/lib").glob("*")):
        (control / "triggers").write_text("activate-noawait ldconfig\n", encoding="ascii")
    scripts = {"postinst", "postrm", "prerm"}
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or (path.stat().st_mode & 0o100 and ".so" not in path.suffixes)
            path.chmod(0o755 if runs or (path.parent == control and path.name in scripts) else 0o644)
        os.utime(path, (time_s, time_s), follow_symlinks=False)


def _shlibs(libraries, package, version):
    """What a package depends on that is linked with a library here: "libmillrace-node.so.0.2.0" is 0.2 to it."""
    names = [path.name.split(".so.") for path in libraries]
    return "".join(f"{name} {number.rpartition('.')[0]} {package} (>= {version})\n" for name, number in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="+", type=pathlib.Path)
    parser.add_argument("--archive", required=True, type=pathlib.Path)
    parser.add_argument("--debian", nargs="+", required=True, type=pathlib.Path)
    parser.add_argument("--level", type=int, default=6, help="how hard to compress: 0 is quick")
    parser.add_argument("--changelog", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    version, time_s = build_archive.day_of(arguments.changelog)
    files = {path.name: path for path in arguments.debian}
    packages = {f"{package}_{version}-{_REVISION}_{_ARCHITECTURE}.deb": package for package in _CONTROLS}
    if {path.name for path in arguments.out} != set(packages):
        sys.exit(f"build_debs: the packages are {sorted(packages)}")
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(temporary)
        _unpack(arguments.archive, root)
        for package in _CONTROLS:
            (root / package / "DEBIAN").mkdir()
        licenses = root / "millrace/usr/share/doc/millrace/licenses"
        for package in set(_CONTROLS) - {"millrace"}:
            shutil.copytree(licenses, root / package / "usr/share/doc" / package / "licenses")
        for name, (package, place) in _FILES.items():
            target = root / package / place
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(files[name], target)
        for out in arguments.out:
            package = packages[out.name]
            folder = root / package
            _document(folder, package, files, arguments.changelog)
            (folder / "DEBIAN/control").write_text(_control(folder, package, version), encoding="utf-8")
            if libraries := sorted(folder.glob("usr/lib/lib*.so.*.*.*")):
                (folder / "DEBIAN/shlibs").write_text(_shlibs(libraries, package, version), encoding="utf-8")
            _finish(folder, time_s)
            subprocess.run(
                ["dpkg-deb", "--root-owner-group", "-Zxz", f"-z{arguments.level}", "--threads-max=1", "--build",
                 str(folder), str(out)],
                env=dict(os.environ, SOURCE_DATE_EPOCH=str(time_s)), stdout=subprocess.DEVNULL, check=True)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
