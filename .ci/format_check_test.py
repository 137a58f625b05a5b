import os
import tempfile
import unittest

import format_check


def diff(path, hunk, *lines):
    return "\n".join([f"diff --git {path} {path}", f"--- {path}", f"+++ {path}", hunk, *lines])


class LongLinesTest(unittest.TestCase):
    def test_a_line_that_is_too_long_is_named(self):
        text = diff("a/b.py", "@@ -7 +7,3 @@ def f():", "-old", "+short", "+" + "x" * 121, "+" + "x" * 120)
        self.assertEqual(format_check.long_lines(text), ["a/b.py:8: 121 columns, of 120"])

    def test_columns_are_characters(self):
        text = diff("a/B.java", "@@ -0,0 +1,2 @@", "+" + "ü" * 120, "+" + "ü" * 121)
        self.assertEqual(format_check.long_lines(text), ["a/B.java:2: 121 columns, of 120"])

    def test_lines_that_go_and_other_files_do_not_count(self):
        text = diff("a/b.py", "@@ -7,2 +6,0 @@", "-" + "x" * 300, "-" + "y" * 300)
        text += "\n" + diff("docs/a.md", "@@ -1 +1 @@", "-x", "+" + "x" * 300)
        self.assertEqual(format_check.long_lines(text), [])

    def test_what_looks_like_a_header_in_a_hunk_is_a_line(self):
        text = diff("a/b.py", "@@ -1,0 +2,3 @@", "+++ c.md", "+@@ -1 +1 @@", "+" + "x" * 121)
        self.assertEqual(format_check.long_lines(text), ["a/b.py:4: 121 columns, of 120"])


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
