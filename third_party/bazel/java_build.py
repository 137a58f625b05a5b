"""What the rules of java_rules.bzl run: javac, and jars whose bytes depend on their content alone.

    java_build.py compile --output=OUT.jar --release=8 [--classpath=A.jar:B.jar] [--no-lint] SOURCE.java...
    java_build.py merge --output=OUT.jar [--jar=A.jar]... [--file=NAME_IN_JAR=FILE]... [--main=CLASS]

merge keeps the first of entries with one name, except META-INF/services, which are joined, and leaves
out signatures, manifests and module descriptors of the jars, which would not be true of the whole.
"""

import argparse
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_OUT = re.compile(
    r"META-INF/(MANIFEST\.MF|INDEX\.LIST|[^/]*\.(SF|RSA|DSA|EC)|maven/.*|versions/.*/module-info\.class)$"
    r"|module-info\.class$|.*/$"
)


def _tool(name):
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin" if home else None)
    if found is None:
        sys.exit(f"{name} is not installed; it is part of the Debian package openjdk-17-jdk-headless")
    return found


def _write(output, entries):
    """`entries`: name to bytes. The manifest comes first, as java.util.jar expects."""
    names = sorted(entries, key=lambda name: (name != "META-INF/MANIFEST.MF", name))
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as jar:
        for name in names:
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            jar.writestr(info, entries[name])


def _manifest(main=None):
    text = "Manifest-Version: 1.0\r\n"
    if main:
        text += f"Main-Class: {main}\r\n"
    return (text + "\r\n").encode("ascii")


def compile_sources(args):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(args.output) or ".") as folder:
        # It is over before code that is compiled twice pays.
        command = [_tool("javac"), "-J-Xmx256m", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1"]
        command += ["-d", folder, "--release", args.release, "-encoding", "UTF-8"]
        # "options": a JDK that will drop this release one day says so. "processing": no processors.
        # "classfile": jars of others have annotations whose classes are nowhere.
        command += ["-g", "-proc:none", "-implicit:none"]
        if args.no_lint:
            command += ["-nowarn", "-Xlint:none"]
        else:
            command += ["-Xlint:all,-options,-processing,-serial,-path,-classfile", "-Werror"]
        command += ["-classpath", args.classpath or folder]
        result = subprocess.run(command + args.sources, check=False)
        if result.returncode != 0:
            sys.exit(result.returncode)
        root = pathlib.Path(folder)
        entries = {
            path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
        }
    entries["META-INF/MANIFEST.MF"] = _manifest()
    _write(args.output, entries)


def merge(args):
    entries = {}
    for jar in args.jar:
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if _LEFT_OUT.match(name):
                    continue
                content = archive.read(name)
                if name.startswith("META-INF/services/") and name in entries:
                    entries[name] = entries[name].rstrip(b"\n") + b"\n" + content
                else:
                    entries.setdefault(name, content)
    for item in args.file:
        name, _, path = item.partition("=")
        entries[name] = pathlib.Path(path).read_bytes()
        entries[name + ".sha256"] = hashlib.sha256(entries[name]).hexdigest().encode("ascii")
    entries["META-INF/MANIFEST.MF"] = _manifest(args.main)
    _write(args.output, entries)


def main():
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("compile")
    command.add_argument("--output", required=True)
    command.add_argument("--release", required=True)
    command.add_argument("--classpath", default="")
    command.add_argument("--no-lint", action="store_true")
    command.add_argument("sources", nargs="+")
    command.set_defaults(run=compile_sources)
    command = commands.add_parser("merge")
    command.add_argument("--output", required=True)
    command.add_argument("--jar", action="append", default=[])
    command.add_argument("--file", action="append", default=[])
    command.add_argument("--main")
    command.set_defaults(run=merge)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
