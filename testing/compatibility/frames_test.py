"""Every frame of older versions is one of today's, byte for byte.

Each implementation of the feed tests itself against today's, testing/golden/feed_frames.json: so each still reads and
writes what an older one does.
"""

import glob
import json
import unittest

RECORDED = sorted(glob.glob("testing/compatibility/*/frames.txt"))
REMEDY = "a frame must stay as it is; docs/compatibility.md says how the feed may change"


class FramesTest(unittest.TestCase):
    def test_no_frame_has_changed(self):
        with open("testing/golden/feed_frames.json", encoding="utf-8") as file:
            today = {frame["name"]: [frame["receiver"], *frame["parts"]] for frame in json.load(file)["frames"]}
        self.assertTrue(RECORDED)
        for path in RECORDED:
            with open(path, encoding="utf-8") as file:
                frames = [line.split() for line in file if not line.startswith("#")]
            self.assertGreater(len(frames), 30)
            for name, *frame in frames:
                with self.subTest(path=path, frame=name):
                    self.assertEqual(today.get(name), frame, REMEDY)


if __name__ == "__main__":
    unittest.main()
