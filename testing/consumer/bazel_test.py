"""A Bazel workspace of others, in a clean folder beside this repository: what its README says builds and runs it."""

import os
import shutil
import subprocess
import unittest

import consumer_testing
from consumer_testing import FOLDER, PRINTED, ROOT

# What makes it cheaper, and nothing that it needs: a server that leaves memory to others, the cache that all clones
# share, and headers that are parsed once.
SETTINGS = """\
startup --host_jvm_args=-Xmx700m
build --disk_cache=~/.cache/millrace/bazel-disk
build --experimental_guard_against_concurrent_changes
build --incompatible_strict_action_env
build --define=millrace_precompiled=on
build --nosandbox_debug
"""

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
        settings = os.path.join(self.work, "settings.bazelrc")
        with open(settings, "w", encoding="utf-8") as file:
            file.write(SETTINGS)
        # In front of the real one: an output base that goes with this test.
        bazel = os.path.join(self.work, "bin", "bazel")
        with open(bazel, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {shutil.which('bazel')} --output_base={self.work}/output "
                       f"--bazelrc={settings} \"$@\"\n")
        os.chmod(bazel, 0o755)
        self.environment = {
            "HOME": consumer_testing.make_home(os.path.join(self.work, "home")),
            # As a person's: a compiler found in /bin would be another one to the cache than in /usr/bin.
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

    def test_a_workspace_that_has_repositories_of_its_own_trains_and_infers(self):
        consumer_testing.make_project("bazel", self.project)
        self.assertFalse([name for name in os.listdir(self.project) if name.endswith("bazelrc")])
        self.declare_others()
        commands = consumer_testing.commands("bazel")
        self.assertEqual(len(commands), 1, FOLDER)
        printed = consumer_testing.run(commands[0], self.project, self.environment)
        for line in PRINTED:
            self.assertIn(line, printed)


if __name__ == "__main__":
    unittest.main()
