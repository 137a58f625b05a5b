"""A Bazel project of others, in a clean folder beside this repository, with a Bazel whose output goes with the test."""

import os
import shutil
import subprocess
import unittest

import consumer_testing

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


class BazelTestCase(unittest.TestCase):
    def set_up_project(self, section, bazel, settings="", name="centroids", program=consumer_testing.PROGRAM):
        """The files of `section` in the folder self.project, and `bazel`, a path, as what the shell finds there."""
        self.work = os.path.join(os.environ["TEST_TMPDIR"], "consumer")
        self.addCleanup(self.clean_up)
        os.makedirs(os.path.join(self.work, "bin"))
        os.symlink(consumer_testing.ROOT, os.path.join(self.work, "millrace"))
        self.project = os.path.join(self.work, name)
        consumer_testing.make_project(section, self.project, program)
        bazelrc = os.path.join(self.work, "settings.bazelrc")
        with open(bazelrc, "w", encoding="utf-8") as file:
            file.write(SETTINGS + settings)
        # In front of the real one: an output base that goes with this test.
        wrapper = os.path.join(self.work, "bin", "bazel")
        with open(wrapper, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nexec {bazel} --output_base={self.work}/output --bazelrc={bazelrc} \"$@\"\n")
        os.chmod(wrapper, 0o755)
        self.environment = {
            "HOME": consumer_testing.make_home(os.path.join(self.work, "home")),
            # As a person's: a compiler found in /bin would be another one to the cache than in /usr/bin.
            "PATH": f"{self.work}/bin:/usr/local/bin:/usr/bin:/bin",
            "USER": "millrace",
        }

    def clean_up(self):
        subprocess.run(["bazel", "shutdown"], cwd=self.project, env=self.environment, check=False)
        subprocess.run(["chmod", "-R", "u+w", os.path.join(self.work, "output")], check=False)
        shutil.rmtree(self.work, ignore_errors=True)

    def run_command(self, command):
        return consumer_testing.run(command, self.project, self.environment)

    def check_what_is_printed(self, lines):
        for line in consumer_testing.PRINTED:
            self.assertIn(line, lines)
