import os
import tempfile
import unittest

import format_check


class LongLinesTest(unittest.TestCase):
    def test_a_line_that_is_too_long_is_named(self):
        text = "short\n" + "x" * 121 + "\n" + "x" * 120
        self.assertEqual(format_check.long_lines("a/b.py", text), ["a/b.py:2: 121 columns, of 120"])

    def test_columns_are_characters(self):
        text = "ü" * 120 + "\n" + "ü" * 121 + "\n"
        self.assertEqual(format_check.long_lines("a/B.java", text), ["a/B.java:2: 121 columns, of 120"])

    def test_other_files_do_not_count(self):
        self.assertEqual(format_check.long_lines("docs/a.md", "x" * 300), [])
        self.assertEqual(format_check.long_lines("a/b.cc", "x" * 300), [])

    def test_a_BUILD_file_counts_in_every_folder(self):
        for path in ("BUILD", "a/b/BUILD"):
            self.assertEqual(len(format_check.long_lines(path, "x" * 121)), 1)


class UnformattedTest(unittest.TestCase):
    def test_what_the_program_says_is_the_result_if_it_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "clang-format")
            with open(program, "w", encoding="utf-8") as script:
                script.write('#!/bin/sh\nfor last; do :; done\necho "$last: warning" >&2\ntest "$last" != bad.cc\n')
            os.chmod(program, 0o755)
            self.assertEqual(format_check.unformatted(["good.cc"], program), "")
            self.assertEqual(format_check.unformatted(["good.cc", "bad.cc"], program), "bad.cc: warning\n")


if __name__ == "__main__":
    unittest.main()
