#!/usr/bin/env python3
"""Counts the test cases of one `bazel test` run from its build events.

    count_tests.py [--events EVENTS.json [--exit-code CODE]] [--xml FILE] [--totals TOTALS.json]

EVENTS.json is what --build_event_json_file wrote. Every test of the run is there, cached ones too,
with the place of its test.xml. A case is a testcase element of that file: one for each case of a
GoogleTest program, one for a test that reports no cases. A test that failed without a failed case
(a crash, a timeout, a leak found at exit, a build error) counts as one failure more, and so does a
run that failed (exit code other than 0) without any failed test.

FILE is a JUnit file of tests that Bazel has not run.

The line printed last is `N passed, N failed` or `N passed, N failed, N skipped`. With --totals the
counts are added to those in the file, the file is rewritten, and the line speaks of the sums; with
--totals alone it is only printed.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import urllib.parse
import xml.etree.ElementTree


@dataclasses.dataclass
class Counts:
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def line(self):
        line = f"{self.passed} passed, {self.failed} failed"
        return f"{line}, {self.skipped} skipped" if self.skipped else line


def count_xml(text, failures, label):
    """Counts the testcase elements of a test.xml; appends the names of failed ones to `failures`."""
    counts = Counts()
    for case in xml.etree.ElementTree.fromstring(text).iter("testcase"):
        tags = {child.tag for child in case}
        if "failure" in tags or "error" in tags:
            counts.failed += 1
            name = ".".join(filter(None, [case.get("classname"), case.get("name")]))
            failures.append(f"{label} {name}")
        elif "skipped" in tags or case.get("status") == "notrun":
            counts.skipped += 1
        else:
            counts.passed += 1
    return counts


def count_file(path, failures):
    """Counts a JUnit file; one that is not there, or is none, is a failure."""
    try:
        return count_xml(pathlib.Path(path).read_bytes(), failures, path)
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        failures.append(f"{path}: {error}")
        return Counts(failed=1)


def _read_events(path):
    events = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                events.append(json.loads(line))
            except json.JSONDecodeError:
                # Bazel was killed while it wrote the last line.
                print(f"count_tests: unreadable line in {path}", file=sys.stderr)
    return events


def _path_of(output):
    return pathlib.Path(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))


def _count_result(label, result, failures):
    counts = Counts()
    for output in result.get("testActionOutput", []):
        if output.get("name") == "test.xml" and "uri" in output:
            try:
                counts = count_xml(_path_of(output).read_bytes(), failures, label)
            except (OSError, xml.etree.ElementTree.ParseError) as error:
                # A program that was killed may leave half a file: its status decides.
                print(f"count_tests: {label}: {error}", file=sys.stderr)
    status = result.get("status", "NO_STATUS")
    if status in ("PASSED", "FLAKY"):
        if counts == Counts():
            counts.passed = 1
    elif not counts.failed:
        counts.failed = 1
        failures.append(f"{label} {status}")
    return counts


def count_events(path, exit_code=0):
    """Returns (Counts, names of what failed) of one run."""
    tests = set()
    results = {}
    for event in _read_events(path):
        identity = event.get("id", {})
        if "targetConfigured" in identity and "testSize" in event.get("configured", {}):
            tests.add(identity["targetConfigured"]["label"])
        elif "testResult" in identity:
            # Of several attempts the last one counts.
            of = identity["testResult"]
            key = (of["label"], of.get("run", 1), of.get("shard", 1))
            if key not in results or of.get("attempt", 1) >= results[key][0]:
                results[key] = (of.get("attempt", 1), event.get("testResult", {}))
    counts = Counts()
    failures = []
    for (label, _, _), (_, result) in sorted(results.items()):
        counts.add(_count_result(label, result, failures))
    for label in sorted(tests - {key[0] for key in results}):
        counts.failed += 1
        failures.append(f"{label} was not run")
    if exit_code and not counts.failed:
        counts.failed = 1
        failures.append(f"the run itself, with exit code {exit_code}")
    return counts, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events")
    parser.add_argument("--exit-code", type=int, default=0)
    parser.add_argument("--xml")
    parser.add_argument("--totals")
    options = parser.parse_args()

    counts, failures = Counts(), []
    if options.events and os.path.exists(options.events):
        counts, failures = count_events(options.events, options.exit_code)
    elif options.events:
        counts.failed = 1
        failures = [f"the run left no {options.events}"]
    if options.xml:
        counts.add(count_file(options.xml, failures))
    for failure in failures:
        print(f"failed: {failure}")
    totals = Counts()
    if options.totals:
        if os.path.exists(options.totals):
            totals = Counts(**json.loads(pathlib.Path(options.totals).read_text(encoding="utf-8")))
        totals.add(counts)
        text = json.dumps(dataclasses.asdict(totals))
        pathlib.Path(options.totals).write_text(text, encoding="utf-8")
    else:
        totals = counts
    print(totals.line())


if __name__ == "__main__":
    main()
