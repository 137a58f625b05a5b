"""What libmillrace-node.so and libmillrace-cluster.so show: the names in *.symbols, and no other.

Functions and data of their own; what the compiler makes anew in each program that needs it (inline functions,
templates, vtables) depends on its flags and is not listed, nor are the messages in millrace::v1. To accept
a change: run this file with --write.
"""

import os
import re
import subprocess
import sys
import unittest

FOLDER = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace", "millrace", "packaging")


def library(name):
    return os.path.join(FOLDER, f"libmillrace-{name}.so")


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def symbols(name):
    """Their names without parameters, each once, in order."""
    found = set()
    for line in output("nm", "-DC", "--defined-only", library(name)).splitlines():
        kind, text = line.split(" ", 2)[1:]
        if kind in "TDBR" and not text.startswith("millrace::v1::"):
            found.add(re.sub(r"(?<!operator)\(.*", "", text.replace("[abi:cxx11]", "")))
    return sorted(found)


def listed(name):
    with open(os.path.join(FOLDER, name + ".symbols"), encoding="utf-8") as file:
        return file.read().splitlines()


class SymbolsTest(unittest.TestCase):
    def test_the_node_library_shows_its_public_face(self):
        self.check("node")

    def test_the_cluster_library_shows_its_public_face(self):
        self.check("cluster")

    def check(self, name):
        have, want = symbols(name), listed(name)
        self.assertEqual(have, want, f"to accept it: {' '.join(sys.argv)} --write")
        for symbol in output("nm", "-DC", "--defined-only", library(name)).splitlines():
            self.assertIn("millrace::", symbol)

    def test_their_names_in_the_linker_have_a_version(self):
        for name in ("node", "cluster"):
            dynamic = output("readelf", "-d", library(name))
            self.assertIn(f"Library soname: [libmillrace-{name}.so.0.1]", dynamic)

    def test_the_node_library_brings_neither_grpc_nor_protobuf(self):
        needed = output("readelf", "-d", library("node"))
        self.assertNotRegex(needed, "NEEDED.*(grpc|protobuf)")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        for library_name in ("node", "cluster"):
            path = os.path.realpath(os.path.join(FOLDER, library_name + ".symbols"))
            with open(path, "w", encoding="utf-8") as out:
                out.write("".join(symbol + "\n" for symbol in symbols(library_name)))
    else:
        unittest.main()
