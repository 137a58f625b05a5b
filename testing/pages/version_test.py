"""Millrace's version stands in version.bzl, from which all that is built has it. Some files must hold it themselves."""

import os
import re
import subprocess
import unittest

# Where the page itself lies: files of all packages are there.
ROOT = os.path.dirname(os.path.realpath(os.path.join(
    os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace", "README.md")))
# Of each file what stands around the version, how often.
PLACES = {
    "MODULE.bazel": (r'name = "millrace",\n    version = "(.*)"', 1),
    "docs/hosts.md": (r"millrace-agent: listening on 0\.0\.0\.0:7077, version (.*)", 1),
    "docs/spark.md": (r"io\.millrace:millrace-spark:([0-9.]+[0-9])", 1),
    "docs/your_own_project.md": (r'bazel_dep\(name = "millrace", version = "(.*)"\)', 1),
    "millrace/c/millrace.h": (r'the library: "(.*)"', 1),
    "millrace/python/millrace/__init__.py": (r'(?m)^__version__ = "(.*)"', 1),
    "spark_connector/millrace-spark.pom": (r"<artifactId>millrace-spark</artifactId>\n  <version>(.*)</version>", 1),
    "testing/consumer/module/MODULE.bazel": (r'bazel_dep\(name = "millrace", version = "(.*)"\)', 1),
}
# Those that name the C++ libraries' interface, which is the first two numbers.
INTERFACES = {
    "docs/your_own_project.md": (r"find_package\(Millrace (\S+) REQUIRED\)", 2),
    "testing/consumer/cmake/CMakeLists.txt": (r"find_package\(Millrace (\S+) REQUIRED\)", 1),
    "testing/consumer/cmake_test.py": (r'"libmillrace-node\.so\.(.*)"', 1),
    "testing/consumer/squares/CMakeLists.txt": (r"find_package\(Millrace (\S+) REQUIRED\)", 1),
}
# Recorded where this version was the last one, and so it stays.
RECORDED = ("dashboard/app/testdata/", "CHANGELOG.md")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


VERSION = re.search(r'(?m)^VERSION = "(.*)"$', read("version.bzl"))[1]


class VersionTest(unittest.TestCase):
    def test_every_file_that_holds_it_has_the_same(self):
        for path, (pattern, times) in PLACES.items():
            self.assertEqual(re.findall(pattern, read(path)), [VERSION] * times, path)
        for path, (pattern, times) in INTERFACES.items():
            self.assertEqual(re.findall(pattern, read(path)), [VERSION.rpartition(".")[0]] * times, path)
        macros = dict(re.findall(r"#define MILLRACE_VERSION_(\w+) (\d+)", read("millrace/c/millrace.h")))
        self.assertEqual(".".join(macros[part] for part in ("MAJOR", "MINOR", "PATCH")), VERSION)

    def test_the_changelog_begins_with_it(self):
        versions = re.findall(r"(?m)^## \[(.*?)\]", read("CHANGELOG.md"))
        self.assertEqual(next(version for version in versions if version != "Unreleased"), VERSION)

    def test_no_file_speaks_of_another_version_of_millrace(self):
        # What could be one: three numbers after our name in the same line.
        told = subprocess.run(
            ["git", "-C", ROOT, "grep", "-nIiE", r"millrace.*[^0-9.][0-9]+\.[0-9]+\.[0-9]+([^0-9.]|$)", "--",
             "*.md", "*.bazel", "*.bzl", "BUILD", "*/BUILD", "*.pom", "*.in", "*.toml", "*.yaml"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False,
        ).stdout
        if not told:
            self.skipTest("this is no clone of Git's")
        named = re.compile(rf"(?i)\bmillrace(?:[-_]\w+)?(?:[:= -]+|.*, version[ =\"]+)([0-9]+\.[0-9]+\.[0-9]+)\b")
        for line in told.splitlines():
            if not line.startswith(RECORDED):
                self.assertLessEqual(set(named.findall(line)), {VERSION}, line)


if __name__ == "__main__":
    unittest.main()
