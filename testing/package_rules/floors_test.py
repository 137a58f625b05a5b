"""docs/architecture.md draws the floors on which rules.py has the packages."""

import os
import pathlib
import re
import unittest

import rules

PAGE = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"], "docs/architecture.md")
# Tests of both ends of the feed, and what every package uses: not on a floor.
NOT_DRAWN = {"feed", "third_party"}


def drawn_packages():
    """Package to its line of the drawing, its place there and the line's packages.

    Those of a floor have three spaces or an arrow between them; more than three stand before what is said of them."""
    text = PAGE.read_text(encoding="utf-8")
    drawing = re.search(r"(?s)\nFloors, .*?```\n(.*?)```", text).group(1)
    places = {}
    for number, line in enumerate(drawing.splitlines()):
        floor = re.match(r" (?:[├└]─ )?((?:\S+(?: ─► |   (?! )))*\S+)", line)
        for name in re.finditer(r"[a-z_]+(?:/[a-z_]+)*", floor.group(1)):
            places[name.group()] = (number, name.start(), floor.group(1))
    return places


def leads_down(above, below):
    line, column, floor = above
    other_line, other_column, _ = below
    if line != other_line:
        return line < other_line
    return column < other_column and "─►" in floor[column:other_column]


class FloorsTest(unittest.TestCase):
    def test_every_package_is_drawn_and_no_other(self):
        self.assertEqual(set(drawn_packages()), set(rules.ALLOWED) - NOT_DRAWN)

    def test_packages_may_depend_on_what_stands_below_them(self):
        places = drawn_packages()
        for package, dependencies in rules.ALLOWED.items():
            for dependency in (dependencies & set(places) if package in places else ()):
                with self.subTest(package=package, dependency=dependency):
                    self.assertTrue(leads_down(places[package], places[dependency]))

    def test_an_edge_up_or_across_is_seen(self):
        places = drawn_packages()
        self.assertFalse(leads_down(places["core/base"], places["core/net"]))
        self.assertFalse(leads_down(places["feed/feeder"], places["feed/receiver"]))
        self.assertFalse(leads_down(places["feed/wire"], places["feed/feeder"]))


if __name__ == "__main__":
    unittest.main()
