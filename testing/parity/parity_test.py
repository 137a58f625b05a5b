"""docs/parity.md: each target that it names exists, and what the row is about stands in its sources.

A row names its tests as `//package:target`, or `:target` of the package named before, each with the
test cases that show it in parentheses: (`Case`, `other case`). Where there are none, one of the names in
the row's first two columns must stand in the target's sources.
"""

import pathlib
import re
import unittest

_PAGE = pathlib.Path("docs/parity.md").resolve()
_ROOT = _PAGE.parent.parent
_TARGET = re.compile(r"`(//[\w/.-]*)?:([\w.-]+)`(?:\s*\(([^)]*)\))?")
_SOURCES = (".cc", ".h", ".java", ".py", ".sh", ".transcript")

# Every test of TensorFlowOnSpark 2.2.5.
_PEER_TESTS = {
    "test_TFCluster": [
        "test_basic_tf",
        "test_inputmode_spark",
        "test_inputmode_spark_exception",
        "test_inputmode_spark_late_exception",
        "test_port_released",
        "test_port_unreleased",
    ],
    "test_TFNode": ["test_hdfs_path", "test_datafeed"],
    "test_TFParallel": ["test_basic_tf", "test_basic_tf_barrier", "test_basic_tf_barrier_insufficient_resources"],
    "test_TFSparkNode": [
        "test_run",
        "test_gpu_unavailable",
        "test_gpu_available",
        "test_gpu_default",
        "test_gpu_cluster_spec",
        "test_gpu_spark_available",
        "test_gpu_spark_fallback",
        "test_gpu_spark_unavailable_default",
        "test_gpu_spark_unavailable_but_requested",
    ],
    "test_dfutil": ["test_dfutils"],
    "test_pipeline": ["test_namespace", "test_TFParams", "test_spark_saved_model"],
    "test_reservation": [
        "test_reservation_class",
        "test_reservation_server",
        "test_reservation_environment_exists_get_server_ip_return_environment_value",
        "test_reservation_environment_not_exists_get_server_ip_return_actual_host_ip",
        "test_reservation_environment_exists_start_listening_socket_return_socket_listening_to_environment_port_value",
        "test_reservation_environment_not_exists_start_listening_socket_return_socket",
        "test_reservation_environment_exists_port_spec",
        "test_reservation_environment_exists_start_listening_socket_return_socket_listening_to_environment_port_range",
        "test_reservation_server_multi",
    ],
}


def _rows(text):
    """(number, cells) of each row of each table, without heads and rulers."""
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if not line.startswith("|") or set(line) <= set("|- "):
            continue
        if number < len(lines) and set(lines[number]) <= set("|- ") and lines[number].startswith("|"):
            continue
        yield number, [cell.strip() for cell in line.strip("|").split(" | ")]


def _code(cell):
    """The names in the code of a cell: of `Cluster::Train` and `DataFeedOptions::input_mapping` the last."""
    for code in re.findall(r"`([^`]+)`", cell):
        yield from (name for name in re.findall(r"[A-Za-z_]\w+", code))


def _targets(cell):
    """(package, target, test cases) of a cell."""
    package = None
    for match in _TARGET.finditer(cell):
        package = match[1][2:] if match[1] else package
        yield package, match[2], re.findall(r"`([^`]+)`", match[3] or "")


def _rule(package, target):
    """The text of the rule in the package's BUILD file; None if there is none."""
    build = _ROOT / package / "BUILD"
    text = build.read_text() if build.is_file() else ""
    for block in re.split(r"\n\)", text):
        if f'name = "{target}"' in block:
            return block[block.rindex(f'name = "{target}"') :]
    # Rules that a list of BUILD makes, as Spark's checks: the target's entry.
    entry = re.search(rf'^    "{re.escape(target)}": \(.*?(?=^    "|^}})', text, re.MULTILINE | re.DOTALL)
    return entry and entry[0]


def _sources(package, rule):
    names = re.findall(r'"([\w./-]+)"', rule)
    files = [_ROOT / package / name for name in names if name.endswith(_SOURCES)]
    if "glob(" in rule:
        files += [file for file in (_ROOT / package).rglob("*") if file.suffix in _SOURCES]
    if package == "spark_connector/testing":  # runs classes by name
        classes = (_ROOT / "spark_connector/java/test").rglob("*.java")
        files += [file for file in classes if _stands(file.stem, rule)]
    return "\n".join(file.read_text() for file in files if file.is_file())


def _stands(name, text):
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


class ParityTest(unittest.TestCase):
    def setUp(self):
        self.text = _PAGE.read_text(encoding="utf-8")

    def test_what_is_there_names_its_tests(self):
        for number, cells in _rows(self.text):
            if cells[-1].startswith("yes"):
                with self.subTest(line=number):
                    self.assertTrue(list(_targets(cells[-1])), "the row names no test")

    def test_each_test_exists_and_has_the_member_in_it(self):
        seen = 0
        for number, cells in _rows(self.text):
            for cell in cells[1:]:
                for package, target, cases in _targets(cell):
                    seen += 1
                    with self.subTest(line=number, target=f"//{package}:{target}"):
                        rule = _rule(package, target)
                        self.assertIsNotNone(rule, "there is no such target")
                        sources = _sources(package, rule)
                        self.assertTrue(sources, "its sources were not found")
                        for case in cases:
                            self.assertTrue(_stands(case, sources), f"{case} does not stand in it")
                        names = set(_code(cells[0])) | set(_code(cells[1]) if len(cells) > 2 else [])
                        self.assertTrue(
                            cases or any(_stands(name, sources) for name in names),
                            f"none of {sorted(names)} stands in it",
                        )
        self.assertGreater(seen, 100)

    def test_the_peers_tests_are_all_there(self):
        section = self.text.split("### TensorFlowOnSpark's own tests")[1].split("\n## ")[0]
        found = [re.findall(r"`(test_\w+)`", cells[0]) for _, cells in _rows(section)]
        file = None
        listed = {}
        for names in found:
            for name in names:
                if name in _PEER_TESTS:
                    file = name
                else:
                    listed.setdefault(file, []).append(name)
        for name, cases in _PEER_TESTS.items():
            self.assertEqual(sorted(listed.get(name, [])), sorted(cases), name)
        self.assertEqual(set(listed), set(_PEER_TESTS))
        self.assertEqual(sum(len(cases) for cases in listed.values()), 33)


if __name__ == "__main__":
    unittest.main()
