"""A Bazel workspace of others, in a clean folder beside this repository: every label in it means something.

Nothing is compiled: the files of Millrace have other names there, so that none of what was compiled here could be used.
"""

import os
import shutil
import subprocess
import unittest

import consumer_testing
from consumer_testing import FOLDER, ROOT

# As README has it, and how much of it is done here.
COMMAND = "../millrace/bazelw run //:centroids"
ANALYSIS = "../millrace/bazelw build --nobuild //:all"

# What others may call a repository of their own.
NAMES = ("openssl", "libsodium", "nanoarrow", "org_zeromq_libzmq", "libzmq", "curl", "zlib")
OTHERS = "".join(f"""
new_local_repository(
    name = "{name}",
    build_file_content = "",
    path = ".",
)
""" for name in NAMES)


class BazelTest(unittest.TestCase):
    def setUp(self):
        self.work = os.path.join(os.environ["TEST_TMPDIR"], "consumer")
        os.makedirs(os.path.join(self.work, "bin"))
        os.symlink(ROOT, os.path.join(self.work, "millrace"))
        self.project = os.path.join(self.work, "centroids")
        # In front of the real one: an output base that goes with this test, and a small server.
        bazel = os.path.join(self.work, "bin", "bazel")
        with open(bazel, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {shutil.which('bazel')} --output_base={self.work}/output "
                       f"--host_jvm_args=-Xmx700m \"$@\"\n")
        os.chmod(bazel, 0o755)
        self.environment = {
            "HOME": consumer_testing.make_home(os.path.join(self.work, "home")),
            "PATH": f"{self.work}/bin:/usr/local/bin:/usr/bin:/bin",
            "USER": "millrace",
        }
        self.addCleanup(self.end_bazel)

    def end_bazel(self):
        subprocess.run(["bazel", "shutdown"], cwd=self.project, env=self.environment, check=False)
        subprocess.run(["chmod", "-R", "u+w", os.path.join(self.work, "output")], check=False)
        shutil.rmtree(self.work, ignore_errors=True)

    def declare_others(self):
        path = os.path.join(self.project, "WORKSPACE")
        with open(path, encoding="utf-8") as file:
            ours, load, rest = file.read().partition("\nload(")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ours + OTHERS + load + rest)

    def test_a_workspace_that_has_repositories_of_its_own_finds_all_that_it_names(self):
        consumer_testing.make_project("bazel", self.project)
        self.assertFalse([name for name in os.listdir(self.project) if name.endswith("bazelrc")])
        self.declare_others()
        self.assertEqual(consumer_testing.commands("bazel"), [COMMAND], FOLDER)
        printed = consumer_testing.run(ANALYSIS, self.project, self.environment)
        self.assertRegex("\n".join(printed), "Analyzed 2 targets")


if __name__ == "__main__":
    unittest.main()
