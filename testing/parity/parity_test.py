"""docs/parity.md: each target that it names exists, and tests the member that the row is about.

A row names its tests as `//package:target`, or `:target` of the package named before, each with the
test cases that show it in parentheses: (`Case`, `other case`). Those are defined in the target's sources, as
tests or as suites of them. Where there are none, the sources use the member by its own name, in code and not
in a comment: that of the row's first column, in the spelling of any of the languages, or the name that
Millrace has for it, which is the first code of the second column.
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


def _name(code):
    """What a piece of code is about: `train(rdd)` and `Cluster::train` train."""
    names = re.findall(r"[A-Za-z_]\w*", code.split("(")[0].split("=")[0])
    return names[-1] if names else None


def _spellings(name):
    """`num_ps`, `numPs`, `NumPs`; `defaultFS` is `default_fs` too."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    pascal = "".join(word.capitalize() for word in words)
    return {name, "_".join(words).lower(), pascal, pascal[:1].lower() + pascal[1:]}


def _members(cells):
    """The names of each member of a row, any of which stands for it."""
    codes = re.findall(r"`([^`]+)`", cells[0])
    members = [_spellings(name) for name in map(_name, codes) if name]
    in_millrace = re.findall(r"`([^`]+)`", cells[1])[:1] if len(cells) > 2 else []
    theirs = {name for name in map(_name, in_millrace) if name}
    if len(members) < 2:
        return [set().union(theirs, *members)]
    return members


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


# How tests are defined in C++, Java, Spark's checks, Python and PySpark's checks, and suites of them in the first two.
_DEFINITIONS = (
    r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*\w+,\s*{}\)",
    r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*{}(?:Test)?,",
    r"@Test\b(?:\([^)]*\))?\s+(?:public\s+)?void {}\(",
    r"^(?:public )?(?:final )?class {}\b",
    r"^\s*check\(\s*\"{}\"",
    r"^\s*def {}\(self",
    r"^def {}\(spark(?:, \w+(?:=\w+)?)+\):",
)


def _defines(case, sources):
    return any(re.search(form.format(re.escape(case)), sources, re.MULTILINE) for form in _DEFINITIONS)


_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*")|//[^\n]*|/\*.*?\*/|^\s*#[^\n]*""", re.DOTALL | re.MULTILINE)


def _without_comments(sources):
    return _COMMENT.sub(lambda match: match[1] or "", sources)


class ParityTest(unittest.TestCase):
    def setUp(self):
        self.text = _PAGE.read_text(encoding="utf-8")

    def test_what_is_there_names_its_tests(self):
        for number, cells in _rows(self.text):
            if cells[-1].startswith("yes"):
                with self.subTest(line=number):
                    self.assertTrue(list(_targets(cells[-1])), "the row names no test")

    def test_each_test_exists_and_tests_the_member(self):
        seen = 0
        for number, cells in _rows(self.text):
            missing = _members(cells)
            for cell in cells[1:]:
                for package, target, cases in _targets(cell):
                    seen += 1
                    with self.subTest(line=number, target=f"//{package}:{target}"):
                        rule = _rule(package, target)
                        self.assertIsNotNone(rule, "there is no such target")
                        sources = _without_comments(_sources(package, rule))
                        self.assertTrue(sources, "its sources were not found")
                        for case in cases:
                            self.assertTrue(_defines(case, sources), f"{case} is no test of it")
                        found = [names for names in _members(cells) if any(_stands(n, sources) for n in names)]
                        self.assertTrue(cases or found, f"neither a case nor any of {_members(cells)}")
                        missing = [] if cases else [names for names in missing if names not in found]
            if any(list(_targets(cell)) for cell in cells[1:]):
                with self.subTest(line=number):
                    self.assertFalse(missing, "no test of the row has these")
        self.assertGreater(seen, 100)

    def test_a_name_in_a_comment_and_a_case_that_is_only_mentioned_do_not_count(self):
        source = 'TEST_F(A, Real) {}\n// TEST(A, Commented) {}\nEXPECT_EQ(Mentioned(), "// text"); // last_word\n'
        code = _without_comments(source)
        self.assertTrue(_defines("Real", code) and _stands("Mentioned", code) and _stands("text", code))
        self.assertFalse(_defines("Commented", code) or _defines("Mentioned", code) or _stands("last_word", code))

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
