"""The examples include what programs outside this repository can include: of Millrace the folder `millrace` alone."""

import os
import re
import unittest

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
# Of this repository. All else that they name is of Abseil, Gloo and others.
OURS = ("core", "dashboard", "feed", "millrace", "resolver", "spark_connector", "testing", "third_party")
ALLOWED = re.compile(r"millrace/\w+\.h")


def sources():
    """The C++ files of the examples, but for tests."""
    for folder, _, names in os.walk(os.path.join(ROOT, "examples")):
        yield from (os.path.join(folder, name) for name in names if name.endswith((".cc", ".h")))


def foreign(text):
    """What a source includes and programs outside could not."""
    names = re.findall(r'(?m)^\s*#\s*include\s*["<]([^">]+)[">]', text)
    return [name for name in names if name.split("/")[0] in OURS and not ALLOWED.fullmatch(name)]


class IncludesTest(unittest.TestCase):
    def test_they_include_public_headers_only(self):
        found = {os.path.relpath(path, ROOT) for path in sources()}
        self.assertLessEqual({"examples/digits/digits.cc", "examples/digits/digits_node.cc",
                              "examples/hello/hello_node.cc", "examples/runfiles.h"}, found)
        for path in sources():
            with open(path, encoding="utf-8") as file:
                self.assertEqual(foreign(file.read()), [], os.path.relpath(path, ROOT))

    def test_what_is_foreign_is_told(self):
        self.assertEqual(foreign('#include "core/base/mutex.h"\n#include <millrace/c/millrace.h>\n'),
                         ["core/base/mutex.h", "millrace/c/millrace.h"])
        self.assertEqual(foreign('#include "millrace/node.h"\n#include <map>\n#include "absl/time/time.h"\n'), [])


if __name__ == "__main__":
    unittest.main()
