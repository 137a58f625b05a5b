"""The libraries export what the lists say and the headers declare, and need what they may need; structs can grow."""

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

    def test_every_struct_can_grow(self):
        text = "".join((_HERE / header).read_text() for header in ("millrace.h", "cluster.h"))
        structs = dict(re.findall(r"^typedef struct (\w+) \{\n(.*?)^\} \1;$", text, re.MULTILINE | re.DOTALL))
        self.assertEqual(len(structs), len(re.findall(r"^(?:typedef )?struct \w+ \{", text, re.MULTILINE)))
        for name, members in structs.items():
            if members.startswith("  size_t struct_size;\n"):
                continue
            self.assertRegex(members, r"  int64_t reserved\[[0-9]+\];\n$", name)
            within = [each for each, others in structs.items() if re.search(rf"^  {name} \w+;", others, re.MULTILINE)]
            self.assertTrue(within, f"{name}: nothing says its size")

    def test_the_library_of_nodes_needs_neither_grpc_nor_protobuf(self):
        lines = _lines(["readelf", "-d", str(_HERE / "libmillrace.so")])
        needed = [re.search(r"\[(.*)\]", line).group(1) for line in lines if "(NEEDED)" in line]
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if not _NODE_NEEDS.match(name)], [])


if __name__ == "__main__":
    unittest.main()
