"""Runs the program under a virtual X server: a picture of every panel, and what it says when it cannot."""

import json
import os
import shutil
import tempfile
import unittest

from dashboard_testing import colors, display, read_png, run

PANELS = "verdict reservations nodes gpus feed metrics logs membership timeline details".split()


@unittest.skipUnless(shutil.which("Xvfb"), "Xvfb is not installed (Debian package xvfb)")
class ScreenshotTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])

    def tearDown(self):
        shutil.rmtree(self.folder)

    def shoot(self, screen, arguments, size="1280x720"):
        path = os.path.join(self.folder, "shot.png")
        ran = run(arguments + ["--screenshot", path, "--size", size], screen)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return read_png(path)

    def test_every_panel_has_a_picture_of_its_own(self):
        with display() as screen:
            pictures = {}
            for panel in PANELS:
                width, height, rows = self.shoot(
                    screen,
                    ["--demo", "8", "--scenario", "oom-cascade", "--panel", panel, "--zoom", "--select", "worker:3"],
                )
                self.assertEqual((width, height), (1280, 720))
                # Below the status bar there is more than one flat colour.
                self.assertGreater(len(colors(rows, 0, 40, width, height)), 12, panel)
                pictures[panel] = b"".join(rows[60:])
            self.assertEqual(len(set(pictures.values())), len(PANELS))

    def test_the_whole_window_is_filled_and_shows_other_data_otherwise(self):
        with display() as screen:
            _, _, well = self.shoot(screen, ["--demo", "8"])
            _, _, broken = self.shoot(screen, ["--demo", "8", "--scenario", "oom-cascade"])
            for rows in (well, broken):
                for area in ((0, 40, 230, 500), (300, 40, 900, 300), (0, 600, 1280, 720)):
                    self.assertGreater(len(colors(rows, *area)), 12, area)
            verdicts = [[row[: 230 * 3] for row in rows[40:400]] for rows in (well, broken)]
            self.assertNotEqual(*verdicts)

    def test_themes_and_sizes(self):
        with display() as screen:
            width, height, light = self.shoot(screen, ["--demo", "4", "--theme", "light"], "1920x1080")
            self.assertEqual((width, height), (1920, 1080))
            _, _, dark = self.shoot(screen, ["--demo", "4", "--theme", "colour-blind", "--scale", "1.5"], "1920x1080")
            brightness = [sum(sum(row) for row in rows[::40]) for rows in (light, dark)]
            self.assertGreater(brightness[0], brightness[1] * 3)

    def test_two_recordings_stand_beside_each_other(self):
        recordings = []
        for scenario in ("slow-source", "idle"):
            recordings.append(os.path.join(self.folder, scenario + ".mrec"))
            ran = run(["--demo", "8", "--scenario", scenario, "--record", recordings[-1], "--dump-json"])
            self.assertEqual(ran.returncode, 0, ran.stderr)
        common = ["--after", "20s", "--panel", "gpus"]
        with display() as screen:
            _, _, both = self.shoot(screen, ["--replay", recordings[0], "--compare", recordings[1]] + common)
            _, _, same = self.shoot(screen, ["--replay", recordings[0], "--compare", recordings[0]] + common)
        # Below the names, byte by byte, but for what is between two pixels: the same run looks the same in both halves,
        # another one does not. Between the halves there are two pixels.
        halves = [[[row[x * 3 : (x + 639) * 3] for row in rows[130:]] for x in (0, 641)] for rows in (both, same)]
        for half in halves[0] + halves[1]:
            self.assertGreater(len(colors(half, 0, 0, 639, len(half))), 12)
        differ = [
            sum(abs(a - b) > 8 for one, other in zip(left, right) for a, b in zip(one, other)) for left, right in halves
        ]
        self.assertLess(differ[1], 200)
        self.assertGreater(differ[0], 20_000)


class CommandLineTest(unittest.TestCase):
    def test_json_needs_no_display(self):
        ran = run(["--demo", "8", "--scenario", "slow-source", "--dump-json"])
        self.assertEqual(ran.returncode, 0, ran.stderr)
        model = json.loads(ran.stdout)
        self.assertEqual(len(model["nodes"]), 8)
        self.assertIn("starved", model["verdict"]["gpus"]["text"])

    def test_without_a_display_it_says_what_to_do(self):
        ran = run(["--demo", "1"])
        self.assertEqual(ran.returncode, 1)
        self.assertIn("xvfb-run", ran.stderr)

    def test_wrong_flags_name_what_there_is(self):
        for arguments, text in (
            (["--panel", "nonsense"], "reservations"),
            (["--demo", "3", "--scenario", "nonsense"], "slow-source"),
            (["--demo", "-1"], "--demo"),
            (["--demo", "1", "--replay", "x"], "only one of"),
            (["--size", "10x10", "--demo", "1"], "320x240"),
            (["--after", "soon", "--demo", "1"], "1.5s"),
            (["--connect", "127.0.0.1:1"], "--token-file"),
            (["--nonsense"], "--help"),
        ):
            ran = run(arguments)
            self.assertEqual(ran.returncode, 2, (arguments, ran.stderr))
            self.assertIn(text, ran.stderr, arguments)

    def test_a_file_that_is_no_recording_is_refused(self):
        path = os.path.join(os.environ["TEST_TMPDIR"], "bad.mrec")
        with open(path, "wb") as file:
            file.write(b"something else entirely")
        ran = run(["--replay", path, "--dump-json"])
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("bad.mrec", ran.stderr)
        ran = run(["--replay", path + ".gone", "--dump-json"])
        self.assertEqual(ran.returncode, 1)
        self.assertIn("bad.mrec.gone", ran.stderr)

    def test_no_cluster_is_said_so(self):
        ran = run(["--dump-json"])
        self.assertEqual(ran.returncode, 1)
        self.assertIn("cluster", ran.stderr)

    def test_help_and_version(self):
        for flag, text in (("--help", "--screenshot"), ("--version", "millrace-dashboard ")):
            ran = run([flag])
            self.assertEqual(ran.returncode, 0)
            self.assertIn(text, ran.stdout)


if __name__ == "__main__":
    unittest.main()
