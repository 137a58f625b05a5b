"""The libraries export what the lists say and the headers declare, and need what they may need."""

import pathlib
import re
import subprocess
import unittest

_HERE = pathlib.Path("millrace/c")
# What the library of nodes may bring into a program: neither gRPC nor Protobuf, which the program may
# have of its own.
_NODE_NEEDS = re.compile(r"^(lib(c|m|stdc\+\+|gcc_s|pthread|rt|dl|sodium|absl_\w+|asan|ubsan|tsan)|ld-linux.*)\.so")


def _lines(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def _exported(library):
    lines = _lines(["nm", "-D", "--defined-only", "--extern-only", str(library)])
    names = [line.split()[-1] for line in lines if line.split()[-2] != "A"]  # A: the version's name
    return sorted(name.split("@")[0] for name in names)


def _declared(header):
    return sorted(re.findall(r"^MILLRACE_API [^(]*?\b(millrace_\w+)\(", header.read_text(), re.MULTILINE))


class SymbolsTest(unittest.TestCase):
    maxDiff = None

    def _check(self, library, header):
        listed = (_HERE / f"{library}.symbols").read_text().split()
        self.assertEqual(sorted(listed), listed)
        self.assertEqual(_exported(_HERE / f"lib{library}.so"), listed)
        self.assertEqual(_declared(_HERE / header), listed)

    def test_the_library_of_nodes_exports_its_list(self):
        self._check("millrace", "millrace.h")

    def test_the_library_of_drivers_exports_its_list(self):
        self._check("millrace_cluster", "cluster.h")

    def test_the_library_of_nodes_needs_neither_grpc_nor_protobuf(self):
        lines = _lines(["readelf", "-d", str(_HERE / "libmillrace.so")])
        needed = [re.search(r"\[(.*)\]", line).group(1) for line in lines if "(NEEDED)" in line]
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if not _NODE_NEEDS.match(name)], [])


if __name__ == "__main__":
    unittest.main()
