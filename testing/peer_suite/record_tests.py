"""Runs the tests of a folder, and writes how each one ended: record_tests.py FOLDER PATTERN RESULTS.

RESULTS is a file of JSON: a list of {"test", "outcome" ("ok", "failed" or "skipped"), "seconds", "why"}.
"""

import json
import sys
import time
import unittest


class _Recorder(unittest.TextTestResult):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.rows = []

    def startTest(self, test):
        super().startTest(test)
        self._begun = time.monotonic()
        self._row = {"test": test.id(), "outcome": "ok", "why": ""}

    def _fails(self, test, why):
        if isinstance(test, unittest.TestCase):
            self._row |= {"outcome": "failed", "why": why}
        else:  # a module that cannot be imported, or what comes before a class of tests
            self.rows.append({"test": str(test), "outcome": "failed", "why": why, "seconds": 0.0})

    def addError(self, test, err):
        super().addError(test, err)
        self._fails(test, self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._fails(test, self.failures[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._row |= {"outcome": "skipped", "why": reason}

    def stopTest(self, test):
        super().stopTest(test)
        self.rows.append(self._row | {"seconds": round(time.monotonic() - self._begun, 1)})


def main(folder, pattern, results):
    suite = unittest.defaultTestLoader.discover(folder, pattern=pattern)
    result = unittest.TextTestRunner(resultclass=_Recorder, verbosity=2).run(suite)
    with open(results, "w", encoding="utf-8") as file:
        json.dump(result.rows, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
