"""Root folders of other systems, in which tests install what people install, as root and without a network."""

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
_NAMESPACES = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child"]
_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


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
        for name in ("proc", "dev", "tmp", "typed"):
            os.makedirs(os.path.join(path, name), exist_ok=True)

    def put(self, *files, folder="typed"):
        for file in files:
            shutil.copy(file, os.path.join(self.path, folder))

    def start(self, *command, user=None, **options):
        """A process in /typed of the root, with what it writes in a pipe, unless options say otherwise."""
        arguments = [sys.executable, "-I", os.path.abspath(__file__), self.path, user or "", *command]
        return subprocess.Popen([*_NAMESPACES, *arguments], **{
            "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True,
            "errors": "replace", "env": {"PATH": _PATH}, **options})  # fmt: skip

    def run(self, *command, user=None):
        """What the command writes. Fails if it fails."""
        with self.start(*command, user=user) as process:
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


def _main(root, user, *command):
    """In the new namespaces: the root's own /proc, the machine's /dev, loopback."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    subprocess.run(["mount", "-t", "proc", "proc", os.path.join(root, "proc")], check=True)
    subprocess.run(["mount", "--rbind", "/dev", os.path.join(root, "dev")], check=True)
    as_user = []
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                   "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}  # fmt: skip
    if user:
        environment["HOME"] = "/"
        as_user = [f"--userspec={user}"]
    os.execvpe("env", ["env", "-i", *[f"{name}={value}" for name, value in environment.items()],
                       shutil.which("chroot", path=_PATH), *as_user, root, "/bin/sh", "-c", 'cd /typed && exec "$@"',
                       "sh", *command] if os.path.lexists(os.path.join(root, "bin/sh")) else
               ["env", "-i", shutil.which("chroot", path=_PATH), *as_user, root, *command],
               {"PATH": _PATH})  # fmt: skip


if __name__ == "__main__":
    _main(*sys.argv[1:])
