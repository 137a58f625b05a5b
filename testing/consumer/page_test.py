"""docs/your_own_project.md shows the program and the build files of this folder as they are."""

import os
import re
import unittest

import consumer_testing

FILES = {"cpp": ("centroids.cc", "centroids_node.cc"),
         "python": ("bazel/BUILD", "bazel/WORKSPACE", "module/MODULE.bazel"),
         "ini": ("module/.bazelrc",),
         "cmake": ("cmake/CMakeLists.txt",)}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


class PageTest(unittest.TestCase):
    def test_every_block_of_code_is_a_piece_of_a_file(self):
        page = read(consumer_testing.ROOT, "docs", "your_own_project.md")
        blocks = re.findall(r"(?ms)^```(\w+)\n(.*?)^```$", page)
        self.assertEqual({language for language, _ in blocks}, set(FILES))
        for language, block in blocks:
            files = [read(consumer_testing.FOLDER, name) for name in FILES[language]]
            self.assertTrue(any(block in text for text in files), f"in no file of {FILES[language]}:\n{block}")

    def test_what_it_says_is_printed_is_what_the_tests_look_for(self):
        page = read(consumer_testing.ROOT, "docs", "your_own_project.md")
        self.assertIn("\n" + "\n".join(consumer_testing.PRINTED) + "\n", page)


if __name__ == "__main__":
    unittest.main()
