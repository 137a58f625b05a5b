"""The committed chart and bases are what their description says."""

import json
import pathlib
import unittest

import render
import template
from template import Block, Context, Group, If, Text, Value

_HERE = pathlib.Path(__file__).parent
_VERSION_FILE = _HERE.parents[2] / "version.bzl"


class RenderTest(unittest.TestCase):
    def test_the_files_are_what_the_description_says(self):
        files = render.render(render.version_of(_VERSION_FILE))
        there = {
            path.relative_to(_HERE).as_posix(): path.read_text(encoding="utf-8")
            for folder in ("chart", "kustomize") for path in (_HERE / folder).rglob("*") if path.is_file()
        }  # fmt: skip
        self.maxDiff = None
        self.assertEqual(files, there, "./bazelw run //millrace/packaging/kubernetes:render")

    def test_every_value_is_used_and_every_value_that_is_used_is_there(self):
        files = render.render("1")
        text = "".join(text for name, text in files.items() if name.startswith("chart/templates/"))
        for path in (path for path, _, _, _ in render.VALUES):
            self.assertIn(f"$.Values.{path}", text)
        for word in text.replace(")", " ").split():
            if word.startswith("$.Values."):
                at = render.default_values()
                for name in word.removeprefix("$.Values.").split("."):
                    self.assertIn(name, at, word)
                    at = at[name]

    def test_the_schema_admits_the_defaults_names(self):
        schema = json.loads(render.render("1")["chart/values.schema.json"])
        self.assertLessEqual(set(render.default_values()), set(schema["properties"]))
        self.assertFalse(schema["additionalProperties"])


class TemplateTest(unittest.TestCase):
    _CONTEXT = Context({"a": {"n": 7, "s": "x", "no": False, "list": []}}, {"Name": "r"}, "1", ("g", {"f": [1]}))

    def test_what_is_chosen_is_its_default_in_plain_yaml_and_an_expression_in_a_chart(self):
        node = {"x": Value("a.n"), "t": Text((Group(), "-", Value("a.s"))), "b": Block(Group("f"))}
        self.assertEqual(template.plain(node, self._CONTEXT), {"x": 7, "t": "g-x", "b": [1]})
        self.assertEqual(
            template.lines(node, self._CONTEXT),
            [
                "x: {{ $.Values.a.n }}",
                't: "{{ $name }}-{{ $.Values.a.s }}"',
                "{{- with $group.f }}",
                "b:",
                "  {{- toYaml . | nindent 2 }}",
                "{{- end }}",
            ],
        )

    def test_what_is_empty_or_off_is_left_out(self):
        node = {"a": If(Value("a.no"), 1), "b": Block(Value("a.list")), "c": [1, Block(Value("a.list"))]}
        self.assertEqual(template.plain(node, self._CONTEXT), {"c": [1]})

    def test_text_that_yaml_would_read_as_something_else_is_quoted(self):
        for text in ("true", "no", "1", "1Gi", "", "a: b", "#x", "null", "{a}"):
            self.assertEqual(template.lines({"k": text}, None), [f"k: {json.dumps(text)}"])
        self.assertEqual(template.lines({"k": "apps/v1"}, None), ["k: apps/v1"])


if __name__ == "__main__":
    unittest.main()
