"""What the tests of projects outside of this repository share: a clean folder, and README's commands."""

import os
import re
import shutil
import subprocess

# The folder that this file comes from: a project of others sees the repository as it is there.
ROOT = os.path.dirname(os.path.realpath(os.path.join(
    os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace", "README.md")))
FOLDER = os.path.join(ROOT, "testing", "consumer")
PROGRAM = ("centroids.cc", "centroids_node.cc", "train.csv", "test.csv", "sum.c", "sum_node.c")
# What the programs print last: the driver, after its resolver has said where the chief is, and a driver in C.
RESULT = "accuracy: 1.00 on 30 rows"
PRINTED = ("trained on 120 rows", "chief:0 is running", "worker:0 is running", RESULT)
SUM = "worker:0: the sum is 6"
SQUARES = ["1", "4", "9", "16", "25"]
# Of glibc and GCC: every Linux that is as new as the one that the program was built on has them.
EVERYWHERE = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2"}


def needed(program):
    """The shared libraries that the program names."""
    dynamic = subprocess.run(["readelf", "-d", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))


def commands(section):
    """The lines of README.md below `## section` that begin with "$ "."""
    with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
        text = file.read()
    found = re.search(rf"(?ms)^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text)
    return re.findall(r"(?m)^\$ (.*)$", found.group(1))


def make_project(section, into, program=PROGRAM):
    """Puts the program and the files of the folder `section` into the new folder `into`."""
    shutil.copytree(os.path.join(FOLDER, section), into)
    for name in program:
        shutil.copy(os.path.join(FOLDER, name), into)


def make_home(path):
    """A home folder that has nothing but the caches of docs/development.md."""
    os.makedirs(os.path.join(path, ".cache"))
    caches = os.path.join(os.path.expanduser("~"), ".cache", "millrace")
    os.makedirs(caches, exist_ok=True)
    os.symlink(caches, os.path.join(path, ".cache", "millrace"))
    return path


def run(command, folder, environment):
    """What `command`, a line of a shell, prints; an AssertionError with all of it if it fails."""
    print(f"$ {command}", flush=True)
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          check=False)
    print(done.stdout, flush=True)
    assert done.returncode == 0, f"{command} exited with {done.returncode}"
    return done.stdout.splitlines()
