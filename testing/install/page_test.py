"""The ways of docs/install.md, as it has them, each in a root folder that has nothing else.

    page_test.py NAME=ROOT... FILE...

ROOT is an archive of a root folder, or a text that says why there is none; the files are those of //:dist.
"""

import os
import re
import sys
import unittest

import page
import root_folder

ROOTS = dict(argument.split("=") for argument in sys.argv[1:] if "=" in argument)
PRODUCTS = page.products_of([argument for argument in sys.argv[1:] if "=" not in argument])
del sys.argv[1:]


class PageTest(unittest.TestCase):
    def setUp(self):
        try:
            root_folder.check()
        except root_folder.Unavailable as why:
            self.skipTest(str(why))

    def check(self, way):
        try:
            took = way.run(ROOTS, PRODUCTS)[1]
        except root_folder.Unavailable as why:
            self.skipTest(str(why))
        print(f"{way.section} in {way.root}: {took:.1f} s", flush=True)


def _way_test(way):
    return lambda self: self.check(way)


for _number, _way in enumerate(page.WAYS):
    _name = f"{_number}_{_way.section}_in_{_way.root}".lower().replace(" ", "_")
    setattr(PageTest, f"test_{_name}", _way_test(_way))


class CompleteTest(unittest.TestCase):
    def test_the_table_has_a_row_for_each_way(self):
        rows = [way.row for way in page.WAYS] + [row for row, _, _ in page.ELSEWHERE.values()]
        self.assertEqual(sorted(page.rows()), sorted(row for row in rows if row))

    def test_every_script_of_the_page_is_typed_by_a_test(self):
        typed = [(way.section, way.script) for way in page.WAYS] + [(section, 0) for section in page.ELSEWHERE]
        there = [(title, number) for title, scripts in page.sections().items() for number in range(len(scripts))]
        self.assertEqual(sorted(set(typed)), sorted(there))

    def test_the_readme_begins_with_the_archive(self):
        with open(os.path.join(os.path.dirname(page.PAGE), "../README.md"), encoding="utf-8") as file:
            first = file.read().split("```\n")[1]
        typed = [command.partition("  #")[0].strip() for line in re.findall(r"(?m)^\$ (.*)$", first)
                 for command in line.split("&&")]  # fmt: skip
        script = page.sections()["Archive"][0].splitlines()
        self.assertEqual(typed, [line for line in script if "--version" not in line])

    def test_the_files_that_the_page_names_are_those_that_are_built(self):
        scripts = "".join(script for scripts in page.sections().values() for script in scripts)
        for product in PRODUCTS.values():
            self.assertIn(os.path.basename(product), scripts)


if __name__ == "__main__":
    unittest.main()
