"""Provides a complete Spark, as the source distribution of PySpark holds it.

    spark_distribution.py --version=3.5.9 --sha256=DIGEST --into=FOLDER [--fetch]

It is kept, unpacked, in ~/.cache/millrace/dist/<sha256>/spark-<version>/ and linked as `home` of --into.
What is not kept is unpacked from an archive in the folder above it or, with --fetch, downloaded with
pip; the digest is compared in either case. Where there is nothing, unavailable.txt of --into says why.

With --fetch, Spark's classes as Java has them once they are loaded are kept too, in spark-<version>.jsa
beside the folder: a JVM that maps them (-XX:SharedArchiveFile) takes half the time of a processor to
start. They are made anew when there is another Java; without Java there are none.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

_CACHE = pathlib.Path(os.environ.get("HOME") or "/nonexistent") / ".cache/millrace/dist"

# pip asks the package's build system for its metadata; this stand-in needs nothing to answer.
_BACKEND = """\
import os, sys
__legacy__ = sys.modules[__name__]
def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name = "pyspark-{version}.dist-info"
    os.makedirs(os.path.join(metadata_directory, name))
    with open(os.path.join(metadata_directory, name, "METADATA"), "w") as out:
        out.write("Metadata-Version: 2.1\\nName: pyspark\\nVersion: {version}\\n")
    return name
"""

# Where a folder of the archive is in a Spark home; all else is left out (examples, data, R).
_FOLDERS = {"deps/bin": "bin", "deps/sbin": "sbin", "deps/jars": "jars", "lib": "python/lib"}


def _say(text):
    print(f"spark_distribution: {text}", file=sys.stderr, flush=True)


def _sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _download(version, folder):
    """Returns the archive, or None."""
    backend = folder / "backend/setuptools"
    backend.mkdir(parents=True)
    (backend / "__init__.py").touch()
    (backend / "build_meta.py").write_text(_BACKEND.format(version=version), encoding="ascii")
    _say(f"downloading pyspark {version} with pip: hundreds of MB, once")
    result = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        + ["--no-build-isolation", "--no-binary=pyspark", "--no-cache-dir"]
        + [f"--dest={folder}", f"pyspark=={version}"],
        env=os.environ | {"PYTHONPATH": str(backend.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    archives = sorted(folder.glob("*.tar.gz"))
    if result.returncode == 0 and archives:
        return archives[0], None
    last = result.stderr.strip().splitlines()[-1:] or [f"exit code {result.returncode}"]
    return None, f"pip cannot download pyspark {version}: {last[0]}"


def _unpack(archive, home):
    with tarfile.open(archive) as tar:
        for member in tar:
            name = member.name.partition("/")[2]
            for folder, place in _FOLDERS.items():
                if member.isfile() and name.startswith(folder + "/"):
                    path = home / place / name[len(folder) + 1 :]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with tar.extractfile(member) as source, open(path, "wb") as target:
                        shutil.copyfileobj(source, target)
                    path.chmod(0o755 if member.mode & 0o100 else 0o644)


def _provide(version, sha256, fetch):
    """Returns the Spark home and None, or None and why there is none."""
    kept = _CACHE / sha256 / f"spark-{version}"
    if kept.is_dir():
        return kept, None
    archives = [path for path in (_CACHE / sha256).glob("*.tar.gz") if _sha256(path) == sha256]
    if not archives and not fetch:
        return None, f"Spark {version} is not downloaded yet; ./bazelw test does it"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with open(kept.parent / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if kept.is_dir():  # another has been at it
            return kept, None
        with tempfile.TemporaryDirectory(prefix=".part.", dir=kept.parent) as temporary:
            folder = pathlib.Path(temporary)
            archive, why_not = (archives[0], None) if archives else _download(version, folder)
            if archive is None:
                return None, why_not
            if _sha256(archive) != sha256:
                return None, f"{archive.name} has sha256 {_sha256(archive)}, expected {sha256}"
            _unpack(archive, folder / "home")
            (folder / "home").replace(kept)
    return kept, None


# What the classes are taken from: a driver with Master and Worker inside of it, which has run a little of everything.
_PROGRAM = """\
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.range(1000).selectExpr("id", "id % 7 AS k", "array(id) AS a", "cast(id AS string) AS s")
rows.groupBy("k").count().collect()
rows.repartition(3).cache().count()
rows.rdd.map(lambda row: row.id).sum()
spark.stop()
"""
# Of every JVM: few threads, little memory, no /tmp/hsperfdata. Classes that are kept are of use to JVMs with these
# options.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"


def _libjvm():
    homes = [pathlib.Path(home) for home in [os.environ.get("JAVA_HOME")] if home]
    for home in homes or sorted(pathlib.Path("/usr/lib/jvm").glob("java-17-openjdk*")):
        library = home / "lib/server/libjvm.so"
        if library.is_file():
            return library
    return None


def _archive_classes(home):
    """Makes `<home>.jsa`, unless it is there and of this Java."""
    library = _libjvm()
    if library is None:
        return
    java = f"{library} {library.stat().st_size} {library.stat().st_mtime_ns}\n"
    archive = home.with_name(home.name + ".jsa")
    made_with = home.with_name(home.name + ".jsa.java")
    with open(home.parent / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if archive.is_file() and made_with.is_file() and made_with.read_text(encoding="utf-8") == java:
            return
        _say(f"keeping the classes of {home.name} as Java loads them: half a minute, once")
        with tempfile.TemporaryDirectory(prefix=".part.", dir=home.parent) as temporary:
            folder = pathlib.Path(temporary)
            (folder / "program.py").write_text(_PROGRAM, encoding="ascii")
            settings = {
                "spark.ui.port": "0",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.driver.memory": "512m",
                "spark.executor.memory": "512m",
                "spark.sql.warehouse.dir": str(folder / "warehouse"),
                "spark.driver.extraJavaOptions": f"{JVM_OPTIONS} -Xlog:disable -Xlog:all=error:stderr "
                f"-XX:ArchiveClassesAtExit={folder}/classes.jsa -Djava.io.tmpdir={folder}",
                "spark.executor.extraJavaOptions": JVM_OPTIONS,
            }
            command = [str(home / "bin/spark-submit"), "--master", "local-cluster[1,1,1024]"]
            for name, value in settings.items():
                command += ["--conf", f"{name}={value}"]
            with open(folder / "log", "w", encoding="utf-8") as log:
                code = subprocess.run(
                    [*command, str(folder / "program.py")],
                    env={
                        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                        "HOME": str(folder),
                        "JAVA_HOME": str(library.parents[2]),
                        "SPARK_HOME": str(home),
                        "SPARK_LOCAL_DIRS": str(folder),
                        "SPARK_LOCAL_IP": "127.0.0.1",
                        "PYSPARK_PYTHON": sys.executable,
                    },
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    check=False,
                ).returncode
            shutil.rmtree(home / "work", ignore_errors=True)  # of the Worker
            if code != 0 or not (folder / "classes.jsa").is_file():
                text = (folder / "log").read_text(encoding="utf-8", errors="replace")
                _say(f"the classes of {home.name} cannot be kept, exit code {code}: {text[:3000]}")
                return
            (folder / "classes.jsa").replace(archive)
            made_with.write_text(java, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", required=True)
    parser.add_argument("--sha256", required=True)
    parser.add_argument("--into", required=True)
    parser.add_argument("--fetch", action="store_true")
    arguments = parser.parse_args()
    try:
        home, why_not = _provide(arguments.version, arguments.sha256, arguments.fetch)
    except OSError as error:
        home, why_not = None, f"Spark {arguments.version} cannot be kept: {error}"
    into = pathlib.Path(arguments.into)
    for name in ("home", "unavailable.txt"):
        with contextlib.suppress(FileNotFoundError):
            (into / name).unlink()
    if home is None:
        _say(why_not)
        (into / "unavailable.txt").write_text(why_not + "\n", encoding="utf-8")
    else:
        if arguments.fetch:
            _archive_classes(home)
        (into / "home").symlink_to(home)


if __name__ == "__main__":
    main()
