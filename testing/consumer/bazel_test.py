"""A Bazel workspace of others, in a clean folder beside this repository: what its README says builds and runs it."""

import os
import shutil
import unittest

import consumer_testing
from bazel_testing import BazelTestCase

# What others may call a repository of their own.
NAMES = ("openssl", "libsodium", "nanoarrow", "org_zeromq_libzmq", "libzmq", "curl", "zlib")
OTHERS = "".join(f"""
new_local_repository(
    name = "{name}",
    build_file_content = "",
    path = ".",
)
""" for name in NAMES)


class BazelTest(BazelTestCase):
    def declare_others(self):
        path = os.path.join(self.project, "WORKSPACE")
        with open(path, encoding="utf-8") as file:
            ours, load, rest = file.read().partition("\nload(")
        with open(path, "w", encoding="utf-8") as file:
            file.write(ours + OTHERS + load + rest)

    def test_a_workspace_that_has_repositories_of_its_own_trains_and_infers(self):
        self.set_up_project("bazel", shutil.which("bazel"))
        self.assertFalse([name for name in os.listdir(self.project) if name.endswith("bazelrc")])
        self.declare_others()
        commands = consumer_testing.commands("bazel")
        self.assertEqual(len(commands), 1, consumer_testing.FOLDER)
        self.check_what_is_printed(self.run_command(commands[0]))

    def test_the_two_files_of_the_page(self):
        self.set_up_project("squares", shutil.which("bazel"), name="squares", program=())
        commands = consumer_testing.commands("squares with Bazel")
        self.assertEqual(len(commands), 1, consumer_testing.FOLDER)
        lines = self.run_command(commands[0])
        self.assertEqual([line for line in lines if line in consumer_testing.SQUARES], consumer_testing.SQUARES)


if __name__ == "__main__":
    unittest.main()
