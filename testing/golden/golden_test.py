"""The golden file and the protocol page are what make_feed_frames.py writes."""

import json
import pathlib
import unittest

import make_feed_frames
import render_doc

GOLDEN = pathlib.Path("testing/golden/feed_frames.json")
PAGE = pathlib.Path("docs/feed_protocol.md")
REMEDY = "run //testing/golden:make_feed_frames, see testing/golden/BUILD"


class GoldenTest(unittest.TestCase):
    def test_the_golden_file_is_made_byte_for_byte(self):
        made = make_feed_frames.to_text(make_feed_frames.make_golden())
        self.assertTrue(made == GOLDEN.read_text(encoding="utf-8"), REMEDY)

    def test_the_page_shows_the_bytes_of_the_golden_file(self):
        golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
        section = render_doc.section_of(PAGE.read_text(encoding="utf-8"))
        self.assertTrue(section == render_doc.render(golden), REMEDY)

    def test_names_are_unique(self):
        golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
        for kind in ("frames", "malformed"):
            names = [entry["name"] for entry in golden[kind]]
            self.assertEqual(len(names), len(set(names)), kind)


if __name__ == "__main__":
    unittest.main()
