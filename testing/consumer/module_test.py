"""MODULE.bazel names the repositories that the public targets need, and no others.

A Bazel that reads it is not on the machines of the tests: module_build_test is run by hand with one.
"""

import glob
import os
import re
import unittest

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


class ModuleTest(unittest.TestCase):
    def test_it_uses_the_repositories_that_the_public_targets_need(self):
        used = re.search(r"(?s)use_repo\(\s*libraries,(.*?)\)", read("MODULE.bazel")).group(1)
        needed = set(re.findall(r"(?m)^@(\w+)//", read("testing", "consumer", "external_targets")))
        self.assertIn("com_google_absl", needed)
        self.assertEqual(re.findall(r'"(\w+)"', used), sorted(needed))

    def test_its_extension_declares_what_a_workspace_declares(self):
        self.assertIn("library_repositories()", read("third_party", "extensions.bzl"))
        self.assertRegex(read("third_party", "repositories.bzl"),
                         r"(?s)def millrace_repositories\(\):.*\n    library_repositories\(\)\n")

    def test_no_rule_needs_what_bazel_7_has_no_longer(self):
        rules = glob.glob(os.path.join(ROOT, "third_party", "**", "*.bzl"), recursive=True)
        self.assertIn(os.path.join(ROOT, "third_party", "bazel", "cc_proto_library.bzl"), rules)
        for path in rules:
            self.assertNotIn('cfg = "host"', read(path), path)


if __name__ == "__main__":
    unittest.main()
