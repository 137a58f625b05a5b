#!/usr/bin/env python3
"""Runs the commands of README.md that begin with ./bazelw, in this clone, as a newcomer would.

    .ci/readme_commands.py --xml FILE

Each is a case of the JUnit file. A command that README.md gains fails here until COMMANDS says what to expect
of it. What differs from the page: Bazel does not draw its progress; NAME is one benchmark; pictures go into a
temporary folder; windows get a display of their own, and are closed. `./bazelw test //...` is not among them: it
is what the rest of CI does.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

LIMIT_S = 900
FLAGS = "--color=no --curses=no --noshow_progress"
TESTS = "./bazelw test //..."


def commands_of(text):
    """The ./bazelw commands of a page: lines of code, and `code` in its sentences."""
    found = []
    for line in text.split("\n"):
        code, _, comment = line.partition("#")
        code = code.strip().removeprefix("$ ")
        if "./bazelw" in code and "`" not in code and "|" not in code:
            found.append(code.strip())
        elif code.startswith("millrace ") and (spoken := re.match(r" *(\./bazelw run .*) -- run \.\.\.", comment)):
            found.append(code.strip().replace("millrace", spoken[1] + " --", 1))
    prose = re.sub(r"(?s)```.*?```", "", text)
    found += re.findall(r"`((?:xvfb-run -a )?\./bazelw [^`]*)`", prose)
    return [" ".join(command.split()) for command in found]


def has(pattern):
    def check(text, _):
        assert re.search(pattern, text, re.M), f"nothing like {pattern!r} was printed"

    return check


def accuracy(text, _):
    found = re.findall(r"accuracy: ([0-9.]+)", text)
    assert found and float(found[-1]) >= 0.96, f"accuracy {found[-1] if found else 'not printed'}"


def picture(_, folder):
    with open(os.path.join(folder, "out.png"), "rb") as file:
        assert file.read(8) == b"\x89PNG\r\n\x1a\n", "the screenshot is no PNG"


def window(text, _):
    assert not re.search(r"(?i)error|cannot|failed", text), "the window complained"


# What each command shows when it works.
COMMANDS = {
    "./bazelw run //examples/digits": accuracy,
    "./bazelw run //:millrace -- run -n 3 -- python3 examples/env_only/allreduce.py": has(
        r"^worker:0\| step 0: rank 0 of 3, sum 6$"
    ),
    "./bazelw run //:dashboard": window,
    "xvfb-run -a ./bazelw run //:dashboard -- --demo 200 --screenshot /tmp/out.png": picture,
    "./bazelw build //:spark": has(r"^  bazel-bin/spark_connector/millrace-spark\.jar$"),
    "./bazelw run //examples/digits:spark": accuracy,
    "./bazelw run //testing/bench:NAME": has(r"^BENCH \S+ ours="),
    "./bazelw run //examples/hosts": accuracy,
}
WINDOW = "./bazelw run //:dashboard"


def as_run(command, folder):
    """The command as it is run here."""
    command = command.replace("//testing/bench:NAME", "//testing/bench:next_batch")
    command = command.replace("/tmp/out.png", os.path.join(folder, "out.png"))
    return re.sub(r"\./bazelw (\w+)", rf"./bazelw \1 {FLAGS}", command, count=1)


def stop(process):
    """Ends a command and all that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            continue


def run_window(command, folder):
    """Opens the window, leaves it open for a while, closes it. Returns what it printed."""
    subprocess.run(["./bazelw", "build", *FLAGS.split(), "//:dashboard"], check=True)
    log = os.path.join(folder, "window.log")
    environment = dict(os.environ, XDG_CACHE_HOME=folder)
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            f"xvfb-run -a {command}", shell=True, stdout=output, stderr=subprocess.STDOUT, env=environment,
            start_new_session=True)
        try:
            opened = time.monotonic() + 15
            while time.monotonic() < opened:
                assert process.poll() is None, f"the window ended with {process.returncode}"
                time.sleep(0.5)
        finally:
            stop(process)
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()


def run(command, folder):
    """Runs one command of the page and checks what it shows. Raises AssertionError."""
    check = COMMANDS.get(command)
    assert check, "COMMANDS of .ci/readme_commands.py does not say what to expect of it"
    line = as_run(command, folder)
    if command == WINDOW:
        text = run_window(line, folder)
    else:
        process = subprocess.Popen(
            line, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            start_new_session=True)
        try:
            text, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"had not ended after {LIMIT_S} s") from None
        finally:
            stop(process)
        print(text, flush=True)
        assert process.returncode == 0, f"exit code {process.returncode}"
    check(text, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xml", required=True)
    options = parser.parse_args()

    with open("README.md", encoding="utf-8") as file:
        commands = commands_of(file.read())
    suite = xml.etree.ElementTree.Element("testsuite", name="README.md")
    failed = 0
    for command in dict.fromkeys([*commands, *COMMANDS]):
        if command == TESTS:
            continue
        print(f"$ {command}", flush=True)
        case = xml.etree.ElementTree.SubElement(suite, "testcase", classname="README.md", name=command)
        began = time.monotonic()
        try:
            assert command in commands, "README.md has it no more: take it out of COMMANDS"
            with tempfile.TemporaryDirectory() as folder:
                run(command, folder)
        except (AssertionError, OSError, subprocess.CalledProcessError) as error:
            failed += 1
            print(f"FAILED: {command}: {error}", flush=True)
            xml.etree.ElementTree.SubElement(case, "failure", message=str(error))
        case.set("time", f"{time.monotonic() - began:.1f}")
    xml.etree.ElementTree.ElementTree(suite).write(options.xml)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
