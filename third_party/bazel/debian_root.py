"""Provides a root folder of some release of Debian, as debootstrap makes it, for tests.

    debian_root.py --suite=bookworm --into=FOLDER [--fetch] [--packages PACKAGE...]

It is kept as ~/.cache/millrace/roots/<suite>-<digest>.tar, and linked as root.tar of --into. With --fetch, what is not
kept is made of packages from the server that this machine has its own packages from: the smallest system that has apt,
and the packages named with what they need. That takes root. Where there is nothing, unavailable.txt of --into says
why.
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

import debian_python

_CACHE = pathlib.Path(os.environ.get("HOME") or "/nonexistent") / ".cache/millrace/roots"


def _make(suite, packages, folder):
    if os.geteuid() != 0:
        raise debian_python.Unavailable("debootstrap needs root")
    debootstrap = shutil.which("debootstrap", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if debootstrap is None:
        raise debian_python.Unavailable("debootstrap is not installed (Debian package debootstrap)")
    root = folder / "root"
    command = [debootstrap, "--variant=minbase", f"--keyring={debian_python.KEYRING}"]
    command += [f"--include={','.join(packages)}"] if packages else []
    # A program that packages start in the root must end with it, and see no home.
    environment = {name: value for name, value in os.environ.items() if name.endswith("_proxy")}
    environment |= {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                    "DEBIAN_FRONTEND": "noninteractive"}  # fmt: skip
    with open(folder / "log", "w", encoding="utf-8") as log:
        ended = subprocess.run([*command, suite, str(root), debian_python.server()], stdin=subprocess.DEVNULL,
                               stdout=log, stderr=subprocess.STDOUT, env=environment, check=False)  # fmt: skip
    if ended.returncode:
        last = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
        raise debian_python.Unavailable(f"debootstrap: {last[0] if last else ended.returncode}")
    for path in (root / "var/cache/apt/archives").glob("*.deb"):
        path.unlink()
    shutil.rmtree(root / "var/lib/apt/lists", ignore_errors=True)
    archive = folder / "root.tar"
    subprocess.run(["tar", "-c", "--numeric-owner", "--exclude=./dev/*", "--exclude=./proc/*", "--exclude=./sys/*",
                    "-C", str(root), "-f", str(archive), "."], check=True)  # fmt: skip
    return archive


def _provide(suite, packages, fetch):
    made_of = hashlib.sha256(" ".join(packages).encode()).hexdigest()[:8]
    kept = _CACHE / f"{suite}-{made_of}.tar"
    if kept.is_file():
        return kept
    if not fetch:
        raise debian_python.Unavailable("it is not downloaded yet; ./bazelw test does it")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with open(_CACHE / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.is_file():  # otherwise another has been at it
            print(f"debian_root: making a root of Debian's {suite}, once", file=sys.stderr, flush=True)
            with tempfile.TemporaryDirectory(prefix=".part.", dir=_CACHE) as temporary:
                _make(suite, packages, pathlib.Path(temporary)).replace(kept)
    return kept


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--into", required=True, type=pathlib.Path)
    parser.add_argument("--packages", nargs="*", default=[], help="besides the smallest system")
    parser.add_argument("--fetch", action="store_true")
    arguments = parser.parse_args()
    for name in ("root.tar", "unavailable.txt"):
        with contextlib.suppress(FileNotFoundError):
            (arguments.into / name).unlink()
    try:
        kept = _provide(arguments.suite, arguments.packages, arguments.fetch)
        (arguments.into / "root.tar").symlink_to(kept)
    except (OSError, subprocess.CalledProcessError, debian_python.Unavailable) as why:
        text = f"no root of Debian's {arguments.suite}: {why}"
        print(f"debian_root: {text}", file=sys.stderr, flush=True)
        (arguments.into / "unavailable.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
