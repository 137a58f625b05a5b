"""Lays out Millrace below a prefix, for projects that are not built with Bazel.

    ./bazelw run -c opt //:install -- --prefix /opt/millrace

    include/millrace/   the public headers: #include "millrace/node.h" with -I PREFIX/include
    lib/                libmillrace-node.a and .so, libmillrace-cluster.so, and for C libmillrace.a and .so,
                        libmillrace_cluster.so, for CMake and for pkg-config
    bin/                millrace, millrace-agent, millrace-dashboard, and the agent's GPU helper
    share/millrace/     millrace-spark.jar
    share/              manual pages, and completions for bash, fish and zsh, where these look for them

What is there by these names is replaced; nothing else is touched.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys

PROGRAMS = ("core/cli/millrace", "core/agent/millrace-agent", "core/gpu/millrace-gpu",
            "dashboard/app/millrace-dashboard")
LIBRARIES = ("node", "cluster")
# Their names are those of their interface, which only grows.
C_LIBRARIES = ("libmillrace.so", "libmillrace_cluster.so")
ARCHIVES = ("libmillrace-node.a", "libmillrace.a")
PKG_CONFIG = ("millrace-node", "millrace-node-shared", "millrace-cluster", "millrace-c-node", "millrace-c-node-shared",
              "millrace-c-cluster")
SHARED = ("spark_connector/millrace-spark.jar", "LICENSE")
COMPLETIONS = {
    "bash": "share/bash-completion/completions/millrace",
    "fish": "share/fish/vendor_completions.d/millrace.fish",
    "zsh": "share/zsh/site-functions/_millrace",
}
RUNFILES = os.path.join(
    os.environ.get("RUNFILES_DIR") or os.environ.get("TEST_SRCDIR") or sys.argv[0].partition(".runfiles/")[0]
    + ".runfiles", "millrace")
# Where the files of this repository are, built or as they are; build_archive.py has others.
ROOTS = [RUNFILES]


def source(path):
    places = [os.path.join(root, path) for root in ROOTS]
    return next((place for place in places if os.path.exists(place)), places[0])


def read(path):
    with open(source(path), encoding="utf-8") as file:
        return file.read()


def version():
    return read("millrace/packaging/version.txt").strip()


def public_headers():
    """Those of public_headers.txt, and what they include of this repository."""
    ours = set(read("millrace/packaging/headers.txt").splitlines())
    found = set()
    waiting = read("millrace/packaging/public_headers.txt").split()
    while waiting:
        header = waiting.pop()
        if header not in found:
            found.add(header)
            waiting += ours.intersection(re.findall(r'(?m)^#include "(.+)"', read(header)))
    return sorted(found)


class Prefix:
    """The folder that everything is put into."""

    def __init__(self, path):
        self._path = path
        self.files = 0

    def _new(self, path):
        path = os.path.join(self._path, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)  # a program that runs keeps the file that it has
        self.files += 1
        return path

    def copy(self, path, to, mode=0o644):
        to = self._new(to)
        shutil.copyfile(source(path), to)
        os.chmod(to, mode)

    def copy_folder(self, folder, to):
        for name in sorted(os.listdir(source(folder))):
            self.copy(os.path.join(folder, name), os.path.join(to, name))

    def path(self, path):
        return os.path.join(self._path, path)

    def link(self, path, target):
        os.symlink(target, self._new(path))

    def write(self, path, text):
        with open(self._new(path), "w", encoding="utf-8") as file:
            file.write(text)

    def remove(self, folder):
        shutil.rmtree(os.path.join(self._path, folder), ignore_errors=True)


def install_libraries(prefix):
    major, minor, _ = version().split(".")
    for name in LIBRARIES:
        library = f"libmillrace-{name}.so"
        prefix.copy(f"millrace/packaging/{library}", f"lib/{library}.{version()}", 0o755)
        prefix.link(f"lib/{library}.{major}.{minor}", f"{library}.{version()}")
        prefix.link(f"lib/{library}", f"{library}.{major}.{minor}")
    for library in C_LIBRARIES:
        prefix.copy(f"millrace/c/{library}", f"lib/{library}", 0o755)
    for archive in ARCHIVES:
        prefix.copy(f"millrace/packaging/{archive}", f"lib/{archive}")
    for name in PKG_CONFIG:
        prefix.write(f"lib/pkgconfig/{name}.pc", filled(f"{name}.pc.in"))
    for name in ("MillraceConfig.cmake", "MillraceConfigVersion.cmake"):
        prefix.write(f"lib/cmake/Millrace/{name}", filled(name + ".in"))


def filled(template):
    major, minor, _ = version().split(".")
    return (read("millrace/packaging/" + template).replace("@VERSION@", version())
            .replace("@SOVERSION@", f"{major}.{minor}").replace("@ARCHIVES_NEED@", archives_need()))


def archives_need():
    """The archives of the system that a program links besides ours, as one word: CMake and pkg-config leave out and
    reorder words that they have seen before."""
    libraries = []
    for archive in ARCHIVES:
        for flag in read(f"millrace/packaging/{archive}.flags").split():
            if flag.startswith("-l") and flag not in libraries:
                libraries.append(flag)
    return ",".join(["-Wl,--push-state,--as-needed,--start-group"] + libraries + ["--end-group,--pop-state"])


def install(path):
    prefix = Prefix(path)
    prefix.remove("include/millrace")  # headers of another version are none of this one's
    for header in public_headers():
        prefix.copy(header, f"include/{header}")
    install_libraries(prefix)
    for program in PROGRAMS:
        prefix.copy(program, "bin/" + os.path.basename(program), 0o755)
    for shared in SHARED:
        prefix.copy(shared, "share/millrace/" + os.path.basename(shared))
    prefix.copy_folder("millrace/packaging/man", "share/man/man1")
    for shell, place in COMPLETIONS.items():
        prefix.write(place, subprocess.run([prefix.path("bin/millrace"), "completion", shell], stdout=subprocess.PIPE,
                                           encoding="utf-8", check=True).stdout)
    return prefix.files


def main():
    parser = argparse.ArgumentParser(prog="bazelw run //:install --", description=__doc__.partition("\n")[0])
    parser.add_argument("--prefix", required=True, help="the folder to install into, such as /opt/millrace")
    prefix = parser.parse_args().prefix
    # `bazel run` starts programs elsewhere.
    path = os.path.abspath(os.path.join(os.environ.get("BUILD_WORKING_DIRECTORY", ""), prefix))
    print(f"installed Millrace {version()}: {install(path)} files below {path}")


if __name__ == "__main__":
    main()
