"""Root folders of other systems, in which tests install what people install, as root and without a network."""

import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys

# Where administrators' programs are, which is not in everybody's PATH.
_PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
# Of the namespaces' own: processes that end with the command, and no network but loopback.
_NAMESPACES = ["unshare", "--mount", "--cgroup", "--pid", "--net", "--fork", "--kill-child"]
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_MS_BIND, _MS_REC, _MNT_DETACH = 4096, 16384, 2
_PIVOT_ROOT = 155  # of x86-64


class Unavailable(Exception):
    """Why there is no such root here."""


def check():
    """Raises Unavailable where root folders cannot be used."""
    if os.geteuid() != 0:
        raise Unavailable("installing in a root folder needs root: packages have users of their own")
    allowed = subprocess.run([*_NAMESPACES, "chroot", "/", "true"], env={"PATH": _PATH}, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
    if allowed.returncode:
        raise Unavailable("this machine does not allow namespaces: " + allowed.stdout.strip())


class RootFolder:
    """A folder that is the root of the commands that run in it."""

    def __init__(self, path, archive=None):
        """Empty, or with what `archive` has: root.tar, or a text that says why there is none."""
        self.path = path
        if archive is not None:
            if not archive.endswith(".tar"):
                with open(archive, encoding="utf-8") as why:
                    raise Unavailable(why.read().strip())
            subprocess.run(["tar", "-x", "--numeric-owner", "-C", path, "-f", archive], check=True)
        for name in ("proc", "sys", "dev", "tmp", "typed"):
            os.makedirs(os.path.join(path, name), exist_ok=True)

    def put(self, *files, folder="typed"):
        for file in files:
            shutil.copy(file, os.path.join(self.path, folder))

    def start(self, *command, **options):
        """A process in /typed of the root, with what it writes in a pipe, unless options say otherwise."""
        arguments = [sys.executable, "-I", os.path.abspath(__file__), self.path, *command]
        return subprocess.Popen([*_NAMESPACES, *arguments], **{
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True,
            "errors": "replace", "env": {"PATH": _PATH}, **options})  # fmt: skip

    def run(self, *command):
        """What the command writes. Fails if it fails."""
        with self.start(*command) as process:
            told, _ = process.communicate()
        if process.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {process.returncode}:\n{told}")
        return told

    def files(self):
        """What is in it: type, mode, owner and content of each path."""
        found = {}
        for folder, folders, names in os.walk(self.path):
            for name in folders + names:
                path = os.path.join(folder, name)
                info = os.lstat(path)
                what = os.readlink(path) if os.path.islink(path) else ""
                if os.path.isfile(path) and not what:
                    with open(path, "rb") as file:
                        what = hash(file.read())
                found["/" + os.path.relpath(path, self.path)] = (info.st_mode, info.st_uid, info.st_gid, what)
        return found


def _mount(source, at, kind=None, flags=0):
    if _LIBC.mount(os.fsencode(source), os.fsencode(at), kind, flags, None):
        raise OSError(ctypes.get_errno(), f"mount {source} at {at}: {os.strerror(ctypes.get_errno())}")


def _main(root, *command):
    """In the new namespaces: the root's own /proc, /sys and control groups, the machine's /dev, loopback."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    # A place where something is mounted can become the root. With chroot alone, programs that make containers would
    # find another root above theirs.
    _mount(root, root, flags=_MS_BIND)
    os.chdir(root)
    _mount("proc", "proc", b"proc")
    _mount("/dev", "dev", flags=_MS_BIND | _MS_REC)
    _mount("sys", "sys", b"sysfs")
    _mount("cgroup", "sys/fs/cgroup", b"cgroup2")
    if _LIBC.syscall(_PIVOT_ROOT, b".", b".") or _LIBC.umount2(b".", _MNT_DETACH):
        raise OSError(ctypes.get_errno(), f"{root} cannot become the root: {os.strerror(ctypes.get_errno())}")
    os.chdir("/typed" if os.path.lexists("/bin/sh") else "/")
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                   "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}  # fmt: skip
    folders = [""] if "/" in command[0] else environment["PATH"].split(":")
    for path in [os.path.join(folder, command[0]) for folder in folders]:
        if os.path.exists(path):
            os.execve(path, command, environment)
    sys.exit(f"there is no {command[0]} in the root")


if __name__ == "__main__":
    _main(*sys.argv[1:])
