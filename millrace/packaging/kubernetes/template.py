"""A small language for objects of Kubernetes, which are written once and rendered twice.

An object is of dicts, lists and scalars, and of what stands for something that its user chooses: a Value of the
chart, the Release's name, a field of a group of agents. As YAML for kustomize (`plain`) each of them is its default;
as a template for Helm (`lines`) it is an expression.
"""

import json
import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """A value of the chart, by its path in values.yaml; where it is empty, the chart's version if `or_version`."""

    path: str
    or_version: bool = False


@dataclass(frozen=True)
class Release:
    """The name of the release, or its namespace."""

    field: str = "Name"


@dataclass(frozen=True)
class Group:
    """The name of a group of agents, or a field of it, in an object that there is for each; where the group has no
    such field, the value at `fallback`."""

    field: str = ""
    fallback: str = ""


@dataclass(frozen=True)
class Text:
    """Texts and scalars, one after the other."""

    parts: tuple


@dataclass(frozen=True)
class Block:
    """A value or a group's field of any shape. In a dict its key is left out where it is empty; in a list its elements
    are elements of that list."""

    of: object


@dataclass(frozen=True)
class If:
    """What is there if a value is true, or is another value."""

    value: Value
    then: object
    equals: str = ""


@dataclass(frozen=True)
class HelmOnly:
    """A Go template of Helm's own, and nothing in kustomize's YAML."""

    expression: str


@dataclass(frozen=True)
class Context:
    """What stands in the places of what a user chooses."""

    values: dict
    release: dict  # Name, Namespace
    version: str
    group: tuple = ("", {})

    def _at(self, path):
        at = self.values
        for name in path.split("."):
            at = at[name]
        return at

    def get(self, node):
        if isinstance(node, Value):
            return self._at(node.path) or (self.version if node.or_version else self._at(node.path))
        if isinstance(node, Release):
            return self.release[node.field]
        name, fields = self.group
        if not node.field:
            return name
        return fields.get(node.field) or (self._at(node.fallback) if node.fallback else None)

    def holds(self, condition):
        value = self.get(condition.value)
        return value == condition.equals if condition.equals else bool(value)


_CHOSEN = (Value, Release, Group)


def _elements(nodes, context):
    for node in nodes:
        if isinstance(node, If):
            if context.holds(node):
                yield plain(node.then, context)
        elif isinstance(node, Block):
            yield from context.get(node.of) or []
        else:
            yield plain(node, context)


def _members(node, context):
    for key, value in node.items():
        if isinstance(value, If):
            if not context.holds(value):
                continue
            value = value.then
        if isinstance(value, HelmOnly) or (isinstance(value, Block) and not context.get(value.of)):
            continue
        yield key, plain(value, context)


def plain(node, context):
    """`node` with `context` in its places."""
    if isinstance(node, dict):
        return dict(_members(node, context))
    if isinstance(node, list):
        return list(_elements(node, context))
    if isinstance(node, Text):
        return "".join(str(plain(part, context)) for part in node.parts)
    if isinstance(node, Block):
        return context.get(node.of)
    return context.get(node) if isinstance(node, _CHOSEN) else node


def _expression(node):
    if isinstance(node, Value):
        return f"$.Values.{node.path}" + (" | default $.Chart.AppVersion" if node.or_version else "")
    if isinstance(node, Release):
        return f"$.Release.{node.field}"
    if node.fallback:
        return f"$group.{node.field} | default $.Values.{node.fallback}"
    return f"$group.{node.field}" if node.field else "$name"


# What YAML reads as text, and as nothing else, without quotes.
_BARE = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*$")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


def _scalar(node, context):
    """The scalar as YAML, or, without a context's values, as a template."""
    if isinstance(node, HelmOnly):
        return f"{{{{ {node.expression} }}}}"
    if isinstance(node, Text):
        parts = (part if isinstance(part, str) else f"{{{{ {_expression(part)} }}}}" for part in node.parts)
        return f'"{"".join(parts)}"'
    if isinstance(node, _CHOSEN):
        number = isinstance(node, (Value, Group)) and isinstance(context.get(node), (int, float))
        return f"{{{{ {_expression(node)} }}}}" if number else f"{{{{ {_expression(node)} | quote }}}}"
    if isinstance(node, str) and _BARE.match(node) and node.lower() not in _WORDS:
        return node
    return json.dumps(node)


def condition(node):
    expression = _expression(node.value)
    return f"eq {expression} {json.dumps(node.equals)}" if node.equals else expression


def _is_scalar(node):
    return not isinstance(node, (dict, list)) or not node


def lines(node, context, indent=0):
    """The lines of a dict or a list."""
    pad = " " * indent
    out = []
    if isinstance(node, list):
        for element in node:
            if isinstance(element, Block):
                out.append(f"{pad}{{{{- with {_expression(element.of)} }}}}")
                out.append(f"{pad}{{{{- toYaml . | nindent {indent} }}}}")
                out.append(f"{pad}{{{{- end }}}}")
            elif isinstance(element, If):
                out.append(f"{pad}{{{{- if {condition(element)} }}}}")
                out += lines([element.then], context, indent)
                out.append(f"{pad}{{{{- end }}}}")
            elif _is_scalar(element):
                out.append(f"{pad}- {_scalar(element, context)}")
            else:
                inner = lines(element, context, indent + 2)
                out.append(f"{pad}- {inner[0].lstrip()}")
                out += inner[1:]
        return out
    for key, value in node.items():
        name = _scalar(key, context)
        if isinstance(value, If):
            out.append(f"{pad}{{{{- if {condition(value)} }}}}")
            out += lines({key: value.then}, context, indent)
            out.append(f"{pad}{{{{- end }}}}")
        elif isinstance(value, Block):
            out.append(f"{pad}{{{{- with {_expression(value.of)} }}}}")
            out.append(f"{pad}{name}:")
            out.append(f"{pad}  {{{{- toYaml . | nindent {indent + 2} }}}}")
            out.append(f"{pad}{{{{- end }}}}")
        elif _is_scalar(value):
            out.append(f"{pad}{name}: {_scalar(value, context)}")
        else:
            out.append(f"{pad}{name}:")
            out += lines(value, context, indent + 2)
    return out
