"""A project of others with a MODULE.bazel: a Bazel that has modules builds its node program, and the driver of this
build runs it.

    ./bazelw test //testing/consumer:module_build_test --test_env=MILLRACE_MODULE_BAZEL=/usr/bin/bazel

Debian 12 has no such Bazel, and no registry of the tests keeps a version of one. The project's driver would be compiled
for as long as bazel_test takes: of it and of the other public targets only the rules are looked at.
"""

import os
import shutil
import unittest

import consumer_testing
from bazel_testing import BazelTestCase

BAZEL = os.environ.get("MILLRACE_MODULE_BAZEL")
RUNFILES = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
# Modules that Bazel 7 itself names and Debian's does not bring. Nothing of them is used.
MISSING = ("apple_support", "buildozer", "protobuf", "zlib")


class ModuleBuildTest(BazelTestCase):
    def without_registry(self):
        """Settings by which nothing is downloaded: the missing modules are empty ones."""
        settings = "common --noenable_workspace\n"
        for name in MISSING:
            folder = os.path.join(os.environ["TEST_TMPDIR"], "modules", name)
            os.makedirs(folder)
            with open(os.path.join(folder, "MODULE.bazel"), "w", encoding="utf-8") as file:
                file.write(f"module(name = \"{name}\")\n")
            with open(os.path.join(folder, "BUILD"), "w", encoding="utf-8"):
                pass
            settings += f"common --override_module={name}={folder}\n"
        return settings

    @unittest.skipUnless(BAZEL, "MILLRACE_MODULE_BAZEL names no Bazel that reads MODULE.bazel")
    def test_a_node_program_built_with_modules_trains_and_infers(self):
        self.set_up_project("module", BAZEL, self.without_registry())
        shutil.copy(os.path.join(consumer_testing.FOLDER, "bazel", "BUILD"), self.project)
        self.run_command("../millrace/bazelw build --nobuild //:centroids @millrace//:all")
        for command in consumer_testing.commands("module"):
            self.run_command(command)
        self.environment["MILLRACE_AGENT"] = os.path.join(RUNFILES, "core", "agent", "millrace-agent")
        driver = os.path.join(RUNFILES, "testing", "consumer", "centroids")
        self.check_what_is_printed(self.run_command(f"{driver} bazel-bin/centroids_node train.csv test.csv"))


if __name__ == "__main__":
    unittest.main()
