import unittest

import format_check


def diff(path, hunk, *lines):
    return "\n".join([f"diff --git {path} {path}", f"--- {path}", f"+++ {path}", hunk, *lines])


class LongLinesTest(unittest.TestCase):
    def test_a_line_that_is_too_long_is_named(self):
        text = diff("a/b.cc", "@@ -7 +7,3 @@ int f() {", "-old", "+short", "+" + "x" * 101, "+" + "x" * 100)
        self.assertEqual(format_check.long_lines(text), ["a/b.cc:8: 101 columns, of 100"])

    def test_columns_are_characters_and_depend_on_the_language(self):
        text = diff("a/b.py", "@@ -0,0 +1,2 @@", "+" + "ü" * 120, "+" + "ü" * 121)
        self.assertEqual(format_check.long_lines(text), ["a/b.py:2: 121 columns, of 120"])

    def test_lines_that_go_and_other_files_do_not_count(self):
        text = diff("a/b.cc", "@@ -7,2 +6,0 @@", "-" + "x" * 300, "-" + "y" * 300)
        text += "\n" + diff("docs/a.md", "@@ -1 +1 @@", "-x", "+" + "x" * 300)
        self.assertEqual(format_check.long_lines(text), [])

    def test_what_looks_like_a_header_in_a_hunk_is_a_line(self):
        text = diff("a/b.cc", "@@ -1,0 +2,3 @@", "+++ c.md", "+@@ -1 +1 @@", "+" + "x" * 101)
        self.assertEqual(format_check.long_lines(text), ["a/b.cc:4: 101 columns, of 100"])


if __name__ == "__main__":
    unittest.main()
