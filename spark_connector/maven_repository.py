"""Makes a Maven repository with one artifact, whose bytes depend on what goes in alone.

    maven_repository.py --out=FOLDER --version=0.2.0 --pom=FILE --jar=FILE --licence=FILE --classpath=A.jar:B.jar \
        --source=FILE.java... --api=FILE.java...

Beside each file stand its MD5, SHA-1, SHA-256 and SHA-512.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile

_POM = "{http://maven.apache.org/POM/4.0.0}"
_EPOCH = (1980, 1, 1, 0, 0, 0)
_METADATA = """\
<?xml version="1.0" encoding="UTF-8"?>
<metadata>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <versioning>
    <latest>{version}</latest>
    <release>{version}</release>
    <versions>
      <version>{version}</version>
    </versions>
    <lastUpdated>19800101000000</lastUpdated>
  </versioning>
</metadata>
"""


def _jar(path, entries):
    """`entries`: name to bytes."""
    entries = {"META-INF/MANIFEST.MF": b"Manifest-Version: 1.0\r\n\r\n"} | dict(sorted(entries.items()))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, content in entries.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            jar.writestr(info, content)


def _javadoc():
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("javadoc", path=f"{home}/bin" if home else None)
    if found is None:
        sys.exit("javadoc is not installed; it is part of the Debian package openjdk-17-jdk-headless")
    return found


def _documentation(arguments, folder):
    """The pages, name to bytes."""
    command = [_javadoc(), "-J-Xmx512m", "-J-XX:+UseSerialGC", "-J-Duser.language=en", "-J-Duser.country=US"]
    command += ["-d", folder, "-quiet", "-notimestamp", "-encoding", "UTF-8", "-docencoding", "UTF-8"]
    command += ["-charset", "UTF-8", "-locale", "en_US", "-Xdoclint:all,-missing", "--release", "8"]
    command += ["-windowtitle", f"Millrace {arguments.version}", "-doctitle", f"Millrace {arguments.version}"]
    command += ["-classpath", arguments.classpath, *arguments.api]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"javadoc failed:\n{done.stdout}")
    root = pathlib.Path(folder)
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def _place(source):
    """Where a source file is in a jar: by its package."""
    text = pathlib.Path(source).read_text(encoding="utf-8")
    package = next(line.split()[1].rstrip(";") for line in text.splitlines() if line.startswith("package "))
    return f"{package.replace('.', '/')}/{os.path.basename(source)}"


def _identity(pom, version):
    """Group and name that the pom has; it must have this version."""
    project = ElementTree.parse(pom).getroot()
    group, name, said = (project.findtext(_POM + tag) for tag in ("groupId", "artifactId", "version"))
    if said != version:
        sys.exit(f"{pom} is of version {said}, and this is {version}")
    return group, name


def _write_sums(path):
    content = path.read_bytes()
    for kind in ("md5", "sha1", "sha256", "sha512"):
        digest = hashlib.new(kind, content).hexdigest()
        path.with_name(f"{path.name}.{kind}").write_text(digest, encoding="ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__, fromfile_prefix_chars="@")
    for name in ("out", "pom", "jar", "licence"):
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--classpath", default="")
    parser.add_argument("--source", action="append", required=True)
    parser.add_argument("--api", action="append", required=True)
    arguments = parser.parse_args()
    group, name = _identity(arguments.pom, arguments.version)
    artifact = arguments.out / group.replace(".", "/") / name
    folder = artifact / arguments.version
    folder.mkdir(parents=True)
    stem = folder / f"{name}-{arguments.version}"
    licence = {"META-INF/LICENSE": arguments.licence.read_bytes()}
    shutil.copyfile(arguments.pom, f"{stem}.pom")
    shutil.copyfile(arguments.jar, f"{stem}.jar")
    sources = {_place(source): pathlib.Path(source).read_bytes() for source in arguments.source}
    _jar(f"{stem}-sources.jar", sources | licence)
    with tempfile.TemporaryDirectory() as pages:
        _jar(f"{stem}-javadoc.jar", _documentation(arguments, pages) | licence)
    metadata = _METADATA.format(group=group, name=name, version=arguments.version)
    (artifact / "maven-metadata.xml").write_text(metadata, encoding="utf-8")
    for path in sorted(artifact.rglob("*")):
        if path.is_file():
            path.chmod(0o644)
            _write_sums(path)


if __name__ == "__main__":
    main()
