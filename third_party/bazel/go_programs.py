"""Builds main packages of a Go module and keeps the programs.

    go_programs.py --module=FOLDER --into=FOLDER [--ldflags=FLAGS] [--build] PACKAGE...

The programs are kept in ~/.cache/millrace/go/<digest of the module's files and flags>-<Go's version>/ and
linked into bin/ of --into. Without --build, or without a Go that is new enough, what was kept before is
taken; if nothing was, unavailable.txt of --into says why there are no programs. Several builds of the same
programs wait for one another.
"""

import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

_HOME = pathlib.Path(os.environ.get("HOME") or "/nonexistent")
_CACHE = _HOME / ".cache/millrace/go"
# The largest process of a build, the linker included.
_BYTES_PER_JOB = 2 << 30


def _say(text):
    print(f"go_programs: {text}", file=sys.stderr, flush=True)


def _environment():
    return os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def _numbers(version):
    return [int(part) for part in re.findall(r"\d+", version)[:3]]


def _find_go(minimum):
    """The first Go that is new enough, with its version, or None and what there is instead."""
    candidates = [shutil.which("go"), "/usr/local/go/bin/go", "/usr/lib/go/bin/go", _HOME / "go/bin/go"]
    candidates += sorted(_HOME.glob("sdk/go*/bin/go"), reverse=True)
    candidates += sorted(pathlib.Path("/usr/lib").glob("go-*/bin/go"), reverse=True)
    found = []
    for path in dict.fromkeys(str(path) for path in candidates if path):
        if not os.access(path, os.X_OK):
            continue
        result = subprocess.run(
            [path, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=_environment()
        )
        version = result.stdout.strip()
        if result.returncode == 0 and _numbers(version) >= _numbers(minimum):
            return path, version
        found.append(f"{path} is {version or 'broken'}")
    return None, "; ".join(found) or "there is none on PATH, in /usr/local/go or in ~/go"


def _digest(module, packages, ldflags):
    """Of everything that is ours and decides what is built."""
    digest = hashlib.sha256(repr((packages, ldflags)).encode())
    for path in sorted(module.rglob("*")):
        if path.suffix == ".go" or path.name in ("go.mod", "go.sum"):
            digest.update(f"{path.relative_to(module)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:24]


def _jobs():
    available = re.search(r"MemAvailable: *(\d+)", pathlib.Path("/proc/meminfo").read_text(encoding="ascii"))
    by_memory = int(available.group(1)) * 1024 // _BYTES_PER_JOB if available else 1
    return max(1, min(len(os.sched_getaffinity(0)), by_memory))


def _go_build(go, module, packages, ldflags, into):
    """Returns None, or the last words of a build that failed."""
    names = ", ".join(package.rsplit("/", 1)[-1] for package in packages)
    _say(f"building {names} with {go}: some minutes, once")
    begin = reported = time.monotonic()
    count = 0
    last = []
    with subprocess.Popen(
        [go, "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false", f"-p={_jobs()}"]
        + [f"-ldflags={ldflags}", f"-o={into}/", *packages],
        cwd=module,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as build:
        for line in build.stderr:
            count += 1
            last = [*last, line.rstrip()][-6:]
            if time.monotonic() - reported >= 20:
                reported = time.monotonic()
                _say(f"{reported - begin:.0f} s: {count} packages fetched and compiled")
    if build.returncode != 0:
        return f"go build failed (exit code {build.returncode}): " + " / ".join(last)
    _say(f"built {names} in {time.monotonic() - begin:.0f} s")
    return None


def _provide(arguments):
    """Returns the folder with the programs and None, or None and why there is none."""
    module = pathlib.Path(arguments.module)
    text = (module / "go.mod").read_text(encoding="utf-8")
    minimum = re.search(r"^go (\S+)", text, re.MULTILINE).group(1)
    digest = _digest(module, arguments.packages, arguments.ldflags)
    go, version = _find_go(minimum)
    kept = _CACHE / f"{digest}-{version}" if go else None
    if kept is None or not kept.is_dir():
        others = sorted(path for path in _CACHE.glob(f"{digest}-go*") if path.is_dir())
        if go is None or not arguments.build:
            if others:
                return others[-1], None
            if go is None:
                return None, f"they need Go {minimum} or later: {version}"
            return None, "they are not built yet; ./bazelw test and ./bazelw run do it"
        _CACHE.mkdir(parents=True, exist_ok=True)
        with open(_CACHE / f"{digest}.lock", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _say("another build of the same programs is running; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.is_dir():
                with tempfile.TemporaryDirectory(prefix=".part.", dir=_CACHE) as temporary:
                    part = pathlib.Path(temporary) / "bin"
                    part.mkdir()
                    failure = _go_build(go, module, arguments.packages, arguments.ldflags, part)
                    if failure:
                        return None, failure
                    part.replace(kept)
    return kept, None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", required=True)
    parser.add_argument("--into", required=True)
    parser.add_argument("--ldflags", default="")
    parser.add_argument("--build", action="store_true")
    parser.add_argument("packages", nargs="+")
    arguments = parser.parse_args()
    kept, why_not = _provide(arguments)
    into = pathlib.Path(arguments.into)
    shutil.rmtree(into / "bin", ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        (into / "unavailable.txt").unlink()
    if kept is None:
        _say(why_not)
        (into / "unavailable.txt").write_text(why_not + "\n", encoding="utf-8")
        return
    (into / "bin").mkdir()
    for program in sorted(kept.iterdir()):
        try:
            os.link(program, into / "bin" / program.name)
        except OSError:  # another file system
            shutil.copy2(program, into / "bin" / program.name)


if __name__ == "__main__":
    main()
