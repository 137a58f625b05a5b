"""What .ci/count_tests.py counts, on build events and test logs as Bazel writes them."""

import json
import pathlib
import tempfile
import unittest

import count_tests

GTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" disabled="1" errors="0" time="0.1" name="AllTests">
  <testsuite name="Suite" tests="4" failures="1" disabled="1" skipped="1" errors="0">
    <testcase name="Good" status="run" result="completed" classname="Suite" />
    <testcase name="Bad" status="run" result="completed" classname="Suite"><failure message="no"/></testcase>
    <testcase name="NoGpu" status="run" result="skipped" classname="Suite"><skipped message="none"/></testcase>
    <testcase name="DISABLED_Off" status="notrun" result="suppressed" classname="Suite" />
  </testsuite>
</testsuites>"""
ALL_GOOD = """<testsuites><testsuite name="s">
  <testcase name="One" status="run" classname="Suite"/><testcase name="Two" status="run" classname="Suite"/>
</testsuite></testsuites>"""
NO_CASES = """<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="a/b_test" tests="1" failures="0" errors="0">
  <testcase name="a/b_test" status="run" duration="0" time="0"></testcase><system-out>text</system-out>
</testsuite></testsuites>"""


class CountTestsTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = pathlib.Path(self._folder.name)
        self.events = []

    def add_result(self, label, status, xml=None, **identity):
        outputs = [{"name": "test.log", "uri": "file:///nowhere/test.log"}]
        if xml is not None:
            path = self.folder / f"a file {len(self.events)}.xml"
            path.write_text(xml, encoding="utf-8")
            outputs.append({"name": "test.xml", "uri": path.as_uri()})
        self.events.append(
            {
                "id": {"testResult": {"label": label, "run": 1, "shard": 1, "attempt": 1, **identity}},
                "testResult": {"status": status, "testActionOutput": outputs},
            }
        )

    def count(self, exit_code=0):
        path = self.folder / "events.json"
        path.write_text("\n".join(map(json.dumps, self.events)), encoding="utf-8")
        counts, failures = count_tests.count_events(path, exit_code)
        self.assertEqual(len(failures), counts.failed)
        return counts.line()

    def test_cases_are_counted_by_what_became_of_them(self):
        self.add_result("//a:gtest", "FAILED", GTEST)
        self.assertEqual(self.count(exit_code=3), "1 passed, 1 failed, 2 skipped")

    def test_nothing_skipped_is_not_mentioned(self):
        self.add_result("//a:gtest", "PASSED", ALL_GOOD)
        self.assertEqual(self.count(), "2 passed, 0 failed")

    def test_a_test_without_cases_is_one(self):
        self.add_result("//a:b_test", "PASSED", NO_CASES)
        self.add_result("//a:c_test", "PASSED")
        self.assertEqual(self.count(), "2 passed, 0 failed")

    def test_a_failure_after_the_last_case_counts(self):
        self.add_result("//a:leaky", "FAILED", ALL_GOOD)
        self.assertEqual(self.count(exit_code=3), "2 passed, 1 failed")

    def test_a_timeout_with_half_a_file_counts(self):
        self.add_result("//a:slow", "TIMEOUT", ALL_GOOD[:40])
        self.assertEqual(self.count(exit_code=3), "0 passed, 1 failed")

    def test_the_last_attempt_and_every_shard_count(self):
        self.add_result("//a:flaky", "FAILED", GTEST, attempt=1)
        self.add_result("//a:flaky", "PASSED", ALL_GOOD, attempt=2)
        self.add_result("//a:flaky", "PASSED", ALL_GOOD, shard=2)
        self.assertEqual(self.count(), "4 passed, 0 failed")

    def test_a_test_that_was_not_built_is_a_failure(self):
        self.events.append(
            {"id": {"targetConfigured": {"label": "//a:broken"}}, "configured": {"testSize": "SMALL"}}
        )
        self.events.append({"id": {"targetConfigured": {"label": "//a:library"}}, "configured": {}})
        self.add_result("//a:gtest", "PASSED", ALL_GOOD)
        self.assertEqual(self.count(exit_code=1), "2 passed, 1 failed")

    def test_a_failed_run_is_never_zero_failed(self):
        self.assertEqual(self.count(exit_code=1), "0 passed, 1 failed")

    def test_files_of_other_tests_count_and_may_not_be_missing(self):
        path = self.folder / "other.xml"
        path.write_text(GTEST, encoding="utf-8")
        failures = []
        self.assertEqual(count_tests.count_file(str(path), failures).line(), "1 passed, 1 failed, 2 skipped")
        self.assertEqual(failures, [f"{path} Suite.Bad"])
        self.assertEqual(count_tests.count_file(str(self.folder / "none.xml"), failures).failed, 1)


if __name__ == "__main__":
    unittest.main()
