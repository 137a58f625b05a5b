"""The `./bazelw ...` commands of the pages: that Bazel would know what they name.

Bazel cannot be run within one of its tests. So the targets are looked up in the BUILD files, and the
configurations in .bazelrc. CI runs those of README.md (.ci/readme_commands.py); what the others start runs in
tests of its own: `//:millrace -- run ...` in //core/cli:docs_test, the window with its options in //dashboard/app.
"""

import os
import re
import shlex
import unittest

# Where the page itself lies: BUILD files of all packages are there.
ROOT = os.path.dirname(os.path.realpath(os.path.join(
    os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace", "README.md")))
PAGES = ("README.md", "docs/benchmarks.md", "docs/dashboard.md", "docs/development.md",
         "docs/hosts.md", "docs/install.md", "docs/spark.md")
# Stands for each of a kind.
EXAMPLES = {"//testing/bench:NAME": "//testing/bench:feed"}
# Bazel's own options, beside --config.
OPTIONS = ("-c opt", "--repo_env=CC=gcc", "--test_output=all", "--test_arg=", "--test_filter=")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def commands_of(page):
    """What follows ./bazelw: in lines of code, and in `code` that may be broken over lines."""
    text = read(page)
    lines = re.findall(r"(?m)^ *(?:\$ )?(?:xvfb-run -a )?\./bazelw (.*)$", text)
    lines += re.findall(r"# \./bazelw (.*)$", text, re.M)
    inline = re.findall(r"`(?:[^`\n]* )?\./bazelw ([^`]*)`", re.sub(r"(?s)```.*?```", "", text))
    for command in lines + inline:
        command = re.split(r" +#| && | \| ", command)[0]
        words = shlex.split(command.replace("\n", " "))
        if len(words) > 1:  # not only named
            yield words


def kind_of(label):
    """The rule that a BUILD file makes it with; None if there is none."""
    package, name = label.removeprefix("//").split(":")
    path = os.path.join(ROOT, package, "BUILD")
    if not os.path.exists(path):
        return None
    found = re.search(rf'(?m)^(\w+)\(\n    name = "{re.escape(name)}",$', read(path))
    return found and found.group(1)


def whole(label):
    """//examples/digits is //examples/digits:digits."""
    return label if ":" in label else f"{label}:{label.rsplit('/', 1)[-1]}"


class BazelwTest(unittest.TestCase):
    def setUp(self):
        self.configs = set(re.findall(r"(?m)^\w+:(\w+) ", read(".bazelrc")))

    def check_options(self, words):
        """Of Bazel; returns what is no option."""
        rest = []
        text = " ".join(words).replace("-c opt", "")
        for word in text.split():
            if word.startswith("--config="):
                self.assertIn(word.removeprefix("--config="), self.configs)
            elif word.startswith("-"):
                self.assertTrue(word.startswith(OPTIONS), word)
            else:
                rest.append(word)
        return rest

    def check_label(self, command, label):
        label = EXAMPLES.get(label, label)
        if label == "//..." and command in ("build", "test"):
            return
        kind = kind_of(whole(label))
        self.assertTrue(kind, f"no such target: {label}")
        if command == "test":
            self.assertRegex(kind, "_test$")
        elif command == "run":
            self.assertRegex(kind, "_binary$|^alias$")

    def test_every_command_of_the_pages(self):
        for page in PAGES:
            commands = list(commands_of(page))
            self.assertTrue(commands, page)
            for words in commands:
                with self.subTest(page=page, command=" ".join(words)):
                    command, *rest = words
                    self.assertIn(command, ("build", "run", "test"))
                    if "--" in rest:
                        rest = rest[:rest.index("--")]
                    labels = self.check_options(rest)
                    self.assertTrue(labels)
                    for label in labels:
                        self.check_label(command, label)


if __name__ == "__main__":
    unittest.main()
