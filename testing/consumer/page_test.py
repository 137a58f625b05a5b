"""docs/your_own_project.md shows the program and the build files of this folder as they are."""

import os
import re
import unittest

import consumer_testing

FILES = {"cpp": ("centroids.cc", "centroids_node.cc"),
         "python": ("bazel/BUILD", "bazel/WORKSPACE", "module/MODULE.bazel"),
         "ini": ("module/.bazelrc",),
         "cmake": ("cmake/CMakeLists.txt",)}
# The smaller program, every file of which stands on the page as it is.
SQUARES = ("squares_node.cc", "squares.cc", "WORKSPACE", "BUILD", "CMakeLists.txt")


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


class PageTest(unittest.TestCase):
    def test_every_block_of_code_is_a_piece_of_a_file(self):
        page = read(consumer_testing.ROOT, "docs", "your_own_project.md")
        blocks = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", page)
        self.assertEqual({language for language, _ in blocks}, set(FILES))
        whole = [read(consumer_testing.FOLDER, "squares", name) for name in SQUARES]
        for text in whole:
            self.assertIn(text, [block for _, block in blocks])
        for language, block in blocks:
            if block in whole:
                continue
            files = [read(consumer_testing.FOLDER, name) for name in FILES[language]]
            self.assertTrue(any(block in text for text in files), f"in no file of {FILES[language]}:\n{block}")

    def test_what_it_says_is_printed_is_what_the_tests_look_for(self):
        page = read(consumer_testing.ROOT, "docs", "your_own_project.md")
        self.assertIn("\n" + "\n".join(consumer_testing.PRINTED) + "\n", page)

    def test_the_commands_for_the_smaller_program_are_those_that_the_tests_run(self):
        page = read(consumer_testing.ROOT, "docs", "your_own_project.md").splitlines()
        for section in ("squares with Bazel", "squares with CMake"):
            commands = consumer_testing.commands(section)
            self.assertTrue(commands)
            for command in commands:
                self.assertIn(command, page)


if __name__ == "__main__":
    unittest.main()
