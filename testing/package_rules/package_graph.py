"""The targets of this repository and their direct dependencies, read from `bazel query` output.

A graph is made of labels as Bazel writes them: `//core/base:json`, `@com_google_absl//absl/time:time`.
"""

import collections
import dataclasses
import xml.etree.ElementTree


@dataclasses.dataclass
class Rule:
    """One rule of a BUILD file."""

    label: str
    rule_class: str
    # A test, or a target that only tests may use.
    for_tests: bool
    dependencies: list


def package_of(label):
    """Returns the package of a label of this repository, None for one of another repository."""
    if not label.startswith("//"):
        return None
    return label[2:].split(":")[0]


def is_below(package, folder):
    return package == folder or package.startswith(folder + "/")


class PackageGraph:
    def __init__(self, rules):
        self.rules = {rule.label: rule for rule in rules}

    @classmethod
    def from_query_xml(cls, text):
        """Reads the output of `kind(rule, ...)` with --output=xml."""
        root = xml.etree.ElementTree.fromstring(text)
        generated_by = {}
        rules = []
        for element in root.iter("rule"):
            label = element.get("name")
            for output in element.iter("rule-output"):
                generated_by[output.get("name")] = label
            testonly = element.find("boolean[@name='testonly']")
            rule_class = element.get("class")
            nodep = {item.get("value") for item in element.iterfind("list[@name='visibility']/label")}
            rules.append(
                Rule(
                    label=label,
                    rule_class=rule_class,
                    for_tests=rule_class.endswith("_test")
                    or (testonly is not None and testonly.get("value") == "true"),
                    dependencies=[
                        entry.get("name")
                        for entry in element.iter("rule-input")
                        if entry.get("name") not in nodep
                    ],
                )
            )
        for rule in rules:
            rule.dependencies = [generated_by.get(name, name) for name in rule.dependencies]
        return cls(rules)

    def products(self, folder):
        """Returns the rules of a folder that are not for tests only."""
        return [
            rule
            for rule in self.rules.values()
            if not rule.for_tests
            and package_of(rule.label) is not None
            and is_below(package_of(rule.label), folder)
        ]

    def edges(self):
        """Returns (rule, label it depends on) for each rule of this repository."""
        for rule in self.rules.values():
            if package_of(rule.label) is not None:
                for dependency in rule.dependencies:
                    yield rule, dependency

    def path(self, start, is_target):
        """Returns a shortest path of labels from `start` to one that `is_target`, or None."""
        previous = {start: None}
        queue = collections.deque([start])
        while queue:
            label = queue.popleft()
            if label != start and is_target(label):
                found = []
                while label is not None:
                    found.append(label)
                    label = previous[label]
                return found[::-1]
            rule = self.rules.get(label)
            for dependency in rule.dependencies if rule else []:
                if dependency not in previous:
                    previous[dependency] = label
                    queue.append(dependency)
        return None
