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


def needed_repositories():
    # Every Bazel has tools of its own.
    return set(re.findall(r"(?m)^@(\w+)//", read("testing", "consumer", "external_targets"))) - {"bazel_tools"}


class ModuleTest(unittest.TestCase):
    def test_it_uses_the_repositories_that_the_public_targets_need(self):
        used = re.search(r"(?s)use_repo\(\s*libraries,(.*?)\)", read("MODULE.bazel")).group(1)
        needed = needed_repositories()
        self.assertIn("com_google_absl", needed)
        self.assertEqual(re.findall(r'"(\w+)"', used), sorted(needed))

    def test_what_the_public_targets_need_is_not_for_our_own_tests_only(self):
        ours = set(re.findall(r'name = "(\w+)"', read("third_party", "development_repositories.bzl")))
        self.assertIn("com_google_googletest", ours)
        self.assertEqual(ours & needed_repositories(), set())

    def test_the_public_targets_are_all_looked_at(self):
        rules = re.findall(r"(?ms)^\w+\(\n(.*?)^\)", read("BUILD"))
        public = [re.search('name = "(.*)"', rule).group(1) for rule in rules if "//visibility:public" in rule]
        asked = re.findall(r'"//:([^"]+)"', read("testing", "consumer", "BUILD"))
        self.assertIn("wheel", public)
        self.assertLessEqual(set(public), set(asked))

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
