"""Provides a Python of some release of Debian, with all that it needs and nothing else, for tests.

    debian_python.py --version=3.14 --suites=sid --into=FOLDER [--fetch] [--parts PACKAGE/SUITE...]

It is kept as ~/.cache/millrace/pythons/python<version>-<digest>.tar, a root folder in an archive, and linked as
root.tar of --into. With --fetch, what is not kept is made of packages that apt downloads, from the server that this
machine has its own packages from; neither apt's lists nor what is installed here change. Where there is nothing,
unavailable.txt of --into says why. Of several suites each package is taken from the one that has the newest.
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
import tempfile

_CACHE = pathlib.Path(os.environ.get("HOME") or "/nonexistent") / ".cache/millrace/pythons"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# What Debian's base-files has, and older packages do not expect.
_MERGED = ("bin", "lib", "lib64", "sbin")


class Unavailable(Exception):
    pass


def _run(command, **options):
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or [f"exit code {ended.returncode}"]
        raise Unavailable(f"{command[0]}: {last[0]}")
    return ended.stdout


def server():
    """The address of this machine's own Debian."""
    if not shutil.which("apt-get") or not os.path.exists(KEYRING):
        raise Unavailable("this is no Debian")
    filters = ["Created-By: Packages", "Origin: Debian", "Label: Debian", "Component: main"]
    sites = _run(["apt-get", "indextargets", "--format", "$(SITE)", *filters]).split()
    if not sites:
        raise Unavailable("apt has no list of Debian's packages; apt-get update")
    return sites[0]


def _sources(suites):
    """A line of apt's for each suite."""
    return [f"deb [signed-by={KEYRING}] {server()} {suite} main\n" for suite in suites]


def _download(version, suites, parts, folder):
    """The packages, in a folder."""
    for path in ("lists/partial", "cache/archives/partial"):
        (folder / path).mkdir(parents=True)
    (folder / "status").touch()
    (folder / "sources.list").write_text("".join(_sources(suites)), encoding="ascii")
    options = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::Etc::Preferences": "/dev/null",
        "Dir::Etc::PreferencesParts": "/dev/null",
        "Dir::State": folder,
        "Dir::State::Lists": folder / "lists",
        "Dir::State::Status": folder / "status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    apt = ["apt-get", "-q", *[f"--option={name}={value}" for name, value in options.items()]]
    _run([*apt, "update"])
    packages = [f"python{version}", "libstdc++6"]
    _run([*apt, "install", "--yes", "--download-only", "--no-install-recommends", *packages])
    if parts:
        _run([*apt, "download", *parts], cwd=folder / "cache/archives")
    return sorted((folder / "cache/archives").glob("*.deb"))


def _unpack(package, root):
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as unpacked:
        _run(["tar", "-x", "--keep-directory-symlink", "--no-same-owner", "-C", str(root), "-f", "/dev/fd/%d" % (
            unpacked.stdout.fileno())], pass_fds=[unpacked.stdout.fileno()])  # fmt: skip
    if unpacked.returncode:
        raise Unavailable(f"dpkg-deb cannot unpack {package.name}")


def _make(version, suites, parts, folder):
    root = folder / "root"
    for name in _MERGED:
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")
    for package in _download(version, suites, parts, folder):
        _unpack(package, root)
    shutil.rmtree(root / "usr/share/doc")
    archive = folder / "root.tar"
    _run(["tar", "-c", "--owner=0", "--group=0", "-C", str(root), "-f", str(archive), "."])
    return archive


def _provide(version, suites, parts, fetch):
    made_of = hashlib.sha256(" ".join([*suites, *parts]).encode()).hexdigest()[:8]
    kept = _CACHE / f"python{version}-{made_of}.tar"
    if kept.is_file():
        return kept
    if not fetch:
        raise Unavailable("it is not downloaded yet; ./bazelw test does it")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with open(_CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():  # otherwise another has been at it
            print(f"debian_python: downloading Python {version} with apt: 20 MB, once", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix=".part.", dir=_CACHE) as temporary:
                _make(version, suites, parts, pathlib.Path(temporary)).replace(kept)
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True)
    parser.add_argument("--suites", required=True)
    parser.add_argument("--into", required=True, type=pathlib.Path)
    parser.add_argument("--parts", nargs="*", default=[], help="packages besides, without what they need")
    parser.add_argument("--fetch", action="store_true")
    arguments = parser.parse_args()
    for name in ("root.tar", "unavailable.txt"):
        with contextlib.suppress(FileNotFoundError):
            (arguments.into / name).unlink()
    try:
        kept = _provide(arguments.version, arguments.suites.split(","), arguments.parts, arguments.fetch)
        (arguments.into / "root.tar").symlink_to(kept)
    except (OSError, Unavailable) as why:
        text = f"no Python {arguments.version} of Debian's {arguments.suites}: {why}"
        print(f"debian_python: {text}", file=sys.stderr, flush=True)
        (arguments.into / "unavailable.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
