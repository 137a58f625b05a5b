"""Reports of recordings and of a simulated cluster, as a real browser shows them."""

import os
import re
import subprocess
import sys
import unittest

import root_folder
from eventually import WAIT_S
from headless_browser import Browser

HERE = os.path.join(os.environ["TEST_SRCDIR"], "millrace/dashboard")
PROGRAM = os.path.join(HERE, "app/millrace-dashboard")
TESTDATA = os.path.join(HERE, "app/testdata")
ARCHIVE = sys.argv.pop(1)


def report(*arguments):
    """What the program writes, without a display."""
    path = os.path.join(os.environ["TEST_TMPDIR"], "report.html")
    environment = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    ran = subprocess.run([PROGRAM, *arguments, "--report", path], env=dict(environment, TZ="UTC"), capture_output=True,
                         text=True, timeout=WAIT_S, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    with open(path, encoding="utf-8") as file:
        return file.read()


def recorded(name):
    return report("--replay", os.path.join(TESTDATA, name + ".mrec"))


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            cls.browser = Browser(ARCHIVE)
        except root_folder.Unavailable as why:
            raise unittest.SkipTest(str(why)) from why

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()

    def open(self, html):
        """The page, which has complained of nothing, has asked for nothing and is as wide as it should be."""
        page = self.browser.open("report.html", html)
        page.ask("Emulation.setDeviceMetricsOverride", width=1100, height=900, deviceScaleFactor=1, mobile=False)
        self.assertEqual(page.trouble(), [])
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 1100)
        return page

    def test_a_failure_is_on_the_page_with_its_cause(self):
        page = self.open(recorded("killed-node"))
        text = page.evaluate("document.body.innerText")
        self.assertIn("worker:2 failed first (killed by SIGKILL", text)
        self.assertIn("Failed 6.3 s after start.", text)
        self.assertIn("First cause: worker:2", text)
        rows = page.evaluate("[...document.querySelectorAll('.sorts tbody tr')].map((row) => row.cells[0].textContent)")
        self.assertEqual(rows, ["worker:0", "worker:1", "worker:2", "worker:3"])
        # The node's bar ends where it was killed, and the mark of it stands there on every picture.
        self.assertEqual(
            page.evaluate("[...document.querySelectorAll('svg')].every((svg) => svg.querySelector('.mark.bad'))"), True
        )

    def test_pictures_are_drawn_and_have_room(self):
        for name in ("digits", "gpu"):
            page = self.open(recorded(name))
            boxes = page.evaluate(
                "[...document.querySelectorAll('svg')].map((svg) => [svg.clientWidth, svg.clientHeight,"
                " [...svg.querySelectorAll('path.line, path.stack, rect.bar')]"
                ".some((shape) => shape.getBBox().width > 20)])"
            )
            self.assertGreaterEqual(len(boxes), 4, name)
            for width, height, drawn in boxes:
                self.assertGreater(width, 600)
                self.assertGreater(height, 30)
                self.assertTrue(drawn)
            # No text of a picture stands outside of it.
            cut = page.evaluate(
                "[...document.querySelectorAll('svg text')].filter((text) => { const a = text.getBoundingClientRect(),"
                " b = text.ownerSVGElement.getBoundingClientRect(); return a.left < b.left - 1 || a.right > b.right + 1"
                " || a.bottom > b.bottom + 1 || a.top < b.top - 1; }).map((text) => text.textContent)"
            )
            self.assertEqual(cut, [])
        self.assertIn("NVIDIA H200", page.evaluate("document.body.innerText"))

    def test_the_table_is_sorted_and_filtered(self):
        page = self.open(recorded("digits"))
        names = "[...document.querySelectorAll('.sorts tbody tr:not([hidden])')].map((row) => row.cells[0].innerText)"
        given = page.evaluate(names)
        self.assertEqual(len(given), 5)
        for clicks in (1, 2):
            page.evaluate("[...document.querySelectorAll('.sorts th')].find((th) => th.innerText == 'memory').click()")
            memory = page.evaluate("[...document.querySelectorAll('.sorts tbody tr')]"
                                   ".map((row) => +row.cells[6].dataset.v)")  # fmt: skip
            self.assertEqual(memory, sorted(memory, reverse=clicks == 1))
        self.assertNotEqual(page.evaluate(names), given)
        page.evaluate(
            "{ const field = document.querySelector('input'); field.value = 'CHIEF';"
            " field.dispatchEvent(new Event('input')); }"
        )
        self.assertEqual(page.evaluate(names), ["chief:0"])
        self.assertEqual(page.trouble(), [])

    def test_it_is_light_dark_or_on_paper(self):
        page = self.open(recorded("killed-node"))

        def colors(media, scheme):
            page.ask("Emulation.setEmulatedMedia", media=media,
                     features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
            style = "getComputedStyle(document.querySelector('{}')).{}"
            return [
                sum(map(int, re.findall(r"\d+", page.evaluate(style.format(*of)))[:3]))
                for of in (("section", "backgroundColor"), ("body", "color"))
            ]

        ground, ink = colors("screen", "light")
        self.assertGreater(ground, ink + 400)
        ground, ink = colors("screen", "dark")
        self.assertLess(ground + 400, ink)
        _, ink = colors("print", "dark")
        self.assertLess(ink, 150)
        self.assertEqual(page.printed()[:5], b"%PDF-")

    def test_a_script_within_is_neither_run_nor_loaded(self):
        """The page's policy stands even if something were not escaped."""
        html = recorded("killed-node").replace(
            "</main>", "<script>document.title = 'ran'</script><img src='http://127.0.0.1:9/x'></main>", 1
        )
        page = self.browser.open("report.html", html)
        self.assertNotEqual(page.evaluate("document.title"), "ran")
        trouble = "\n".join(page.trouble())
        for what in ("Executing inline script", "Loading the image"):
            self.assertRegex(trouble, what + " [^\n]*violates the following Content Security Policy[^\n]* blocked")

    def test_ten_thousand_nodes_are_a_page_that_opens(self):
        html = report("--demo", "10000", "--scenario", "huge")
        self.assertLess(len(html.encode()), 1 << 20)
        page = self.open(html)
        self.assertEqual(page.evaluate("document.querySelectorAll('.sorts tbody tr').length"), 1000)


class CommandLineTest(unittest.TestCase):
    def test_a_report_of_part_of_a_recording_is_of_that_moment(self):
        path = os.path.join(TESTDATA, "killed-node.mrec")
        html = report("--replay", path, "--after", "2s")
        self.assertIn("No failures.", html)
        self.assertNotIn("SIGKILL", html)

    def test_what_is_recorded_stays_with_its_user(self):
        recorded("killed-node")
        mode = os.stat(os.path.join(os.environ["TEST_TMPDIR"], "report.html")).st_mode
        self.assertEqual(mode & 0o777, 0o600)


if __name__ == "__main__":
    unittest.main()
