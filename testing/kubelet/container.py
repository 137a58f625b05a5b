"""Starts a program as a container's: in a root folder of its own, as its own user, with its own processes.

    container.py CONTAINER.json

    {"host": name, "root": folder, "mounts": [{"source": ..., "at": "/etc/x", "writable": false}], "read_only": true,
     "user": 65532, "group": 65532, "groups": [65532], "folder": "/", "argv": [...], "environment": {...}}

Mounts are made in this order. The program is process 1 of a PID namespace: when it ends, all that it started ends.
SIGTERM to this process is passed on, and its death is the program's. Exit codes are the program's, 128 + N after a
signal. The network is the machine's. Needs root.
"""

import ctypes
import json
import os
import signal
import socket
import sys

_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWPID = 0x20000, 0x4000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 2, 32, 4096, 16384, 1 << 18
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38


def _check(result, what):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source, at, flags, kind=None):
    _check(_LIBC.mount(os.fsencode(source), os.fsencode(at), kind, flags, None), f"mount {source} at {at}")


def _prctl(option, value):
    _check(_LIBC.prctl(option, value, 0, 0, 0), f"prctl {option}")


def _bind(source, at, writable):
    """At a place that is made where there is none."""
    if os.path.isdir(source):
        os.makedirs(at, exist_ok=True)
    elif not os.path.lexists(at):
        os.makedirs(os.path.dirname(at), exist_ok=True)
        with open(at, "xb"):
            pass
    _mount(source, at, _MS_BIND | _MS_REC)
    if not writable:
        _mount(source, at, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def _become(container):
    for capability in range(64):
        if _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # there are no more
    os.setgroups(container["groups"])
    os.setgid(container["group"])
    os.setuid(container["user"])
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _run(container):
    """In the child."""
    # Credentials that change end what was asked for before.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    root = container["root"]
    _mount(root, root, _MS_BIND)
    for mount in container["mounts"]:
        _bind(mount["source"], root + mount["at"], mount.get("writable", False))
    os.makedirs(root + "/proc", exist_ok=True)
    _mount("proc", root + "/proc", _MS_NOSUID, b"proc")
    if container["read_only"]:
        _mount(root, root, _MS_BIND | _MS_REMOUNT | _MS_RDONLY)
    os.chroot(root)
    os.chdir(container["folder"])
    _become(container)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # Python ignores or handles them
        signal.signal(number, signal.SIG_DFL)
    # os.execvpe would load modules, which are outside of the root.
    program = container["argv"][0]
    folders = [""] if "/" in program else container["environment"]["PATH"].split(":")
    for path in [f"{folder}/{program}" if folder else program for folder in folders]:
        if os.path.exists(path):
            os.execve(path, container["argv"], container["environment"])
    raise FileNotFoundError(f"there is no {program}")


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        container = json.load(file)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    _check(_LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWUTS | _CLONE_NEWPID), "unshare")
    socket.sethostname(container["host"])
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    child = os.fork()
    if child == 0:
        try:
            _run(container)
        except OSError as error:
            print(f"the container cannot start: {error}", file=sys.stderr, flush=True)
        os._exit(127)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
