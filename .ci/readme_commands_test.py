"""Which commands .ci/readme_commands.py finds in a page, how it runs them, and that README.md's are all known."""

import os
import unittest

import readme_commands

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")


class ReadmeCommandsTest(unittest.TestCase):
    def test_lines_of_code_sentences_and_the_long_form_of_millrace(self):
        text = """
```
$ ./bazelw run //a      # a comment
./bazelw build -c opt //:b           # another
$ millrace run -n 3 -- python3 x.py       # ./bazelw run //:millrace -- run ...
$ millrace status
```
A jar (`./bazelw build //:jar`), a picture: `xvfb-run -a ./bazelw run //:w -- --out /tmp/x`; `./bazelw` alone.
| `./bazelw run //in:a_table` | seen too |
"""
        self.assertEqual(
            readme_commands.commands_of(text),
            [
                "./bazelw run //a",
                "./bazelw build -c opt //:b",
                "./bazelw run //:millrace -- run -n 3 -- python3 x.py",
                "./bazelw build //:jar",
                "xvfb-run -a ./bazelw run //:w -- --out /tmp/x",
                "./bazelw run //in:a_table",
            ],
        )

    def test_what_differs_from_the_page(self):
        self.assertEqual(
            readme_commands.as_run("xvfb-run -a ./bazelw run -c opt //:w -- --out /tmp/out.png", "/f"),
            f"xvfb-run -a ./bazelw run {readme_commands.FLAGS} -c opt //:w -- --out /f/out.png",
        )

    def test_each_command_of_the_readme_is_known(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            found = set(readme_commands.commands_of(file.read()))
        self.assertEqual(found - {readme_commands.TESTS}, set(readme_commands.COMMANDS))


if __name__ == "__main__":
    unittest.main()
