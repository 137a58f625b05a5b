"""The manual pages: complete, and roff that groff and mandoc have nothing to say about."""

import os
import re
import shutil
import subprocess
import unittest

FOLDER = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace/millrace/packaging/man")
NAMES = sorted(os.listdir(FOLDER))


def output(*command):
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return ran.stdout


class ManPagesTest(unittest.TestCase):
    def test_programs_and_commands_have_pages(self):
        for name in ("millrace", "millrace-run", "millrace-resolve-kubernetes", "millrace-kv", "millrace-agent",
                     "millrace-dashboard"):  # fmt: skip
            self.assertIn(name + ".1", NAMES)

    def check(self, program, package, *arguments):
        if not shutil.which(program):
            self.skipTest(f"{program} is not installed (Debian package {package})")
        for name in NAMES:
            with self.subTest(name):
                self.assertEqual(output(program, *arguments, os.path.join(FOLDER, name)), "")

    def test_groff_has_no_warnings(self):
        self.check("groff", "groff-base", "-ww", "-man", "-Tutf8", "-z", "-Kutf8")

    def test_mandoc_has_no_warnings(self):
        self.check("mandoc", "mandoc", "-man", "-T", "lint", "-W", "warning")

    def test_a_page_says_what_the_help_says(self):
        if not shutil.which("groff"):
            self.skipTest("groff is not installed (Debian package groff-base)")
        text = output("groff", "-man", "-Tascii", "-P-cbou", os.path.join(FOLDER, "millrace-run.1"))
        words = " ".join(text.split())
        self.assertRegex(words, r"NAME millrace-run - start a program as the nodes of a cluster")
        self.assertIn("-n, --num-executors N all nodes, including ps and evaluator (1)", words)
        self.assertRegex(text, r"(?m)^ {3}What nodes get \(NodeOptions\)$")
        self.assertRegex(text, r"(?m)^ +millrace run -n 4 -- python3 train\.py$")
        self.assertTrue(re.search(r"Exit codes", text))


if __name__ == "__main__":
    unittest.main()
