"""Renders description.py: the Helm chart in chart/, and the bases and components for kustomize in kustomize/.

    ./bazelw run //millrace/packaging/kubernetes:render          # writes both into this repository
    render.py --into=FOLDER
"""

import argparse
import json
import os
import pathlib
import re
import textwrap

import template
from description import OBJECTS, VALUES
from template import Context

_MADE = "# Made by render.py of description.py; ./bazelw run //millrace/packaging/kubernetes:render"

_CHART = """\
apiVersion: v2
name: millrace
description: Agents that wait for drivers of Millrace, which run clusters of your programs on them.
type: application
version: {version}
appVersion: "{version}"
kubeVersion: ">=1.25.0-0"
"""

_NOTES = """\
Agents: {{ range $name, $group := .Values.agents }}{{ $group.replicas }} of {{ $name }}  {{ end }}
{{- if not .Values.secret.token }}

They start when their Secret is there:

  millrace agent-secret --kubernetes {{ .Values.secret.name }} --namespace {{ .Release.Namespace }} | kubectl apply -f -
{{- end }}

A driver is a pod with the label app.kubernetes.io/component: driver (and name and instance as the agents have them),
the service account {{ .Release.Name }}-driver and the same Secret, or the release's own (driver.command). It runs

  millrace run --on kubernetes --namespace {{ .Release.Namespace }} --port {{ .Values.port }} \\
    --secret-dir /etc/millrace \\
{{- range $name, $group := .Values.agents }}
    --job "{{ $name }}=app.kubernetes.io/instance={{ $.Release.Name }},millrace.io/job={{ $name }}" \\
    --expect {{ $name }}={{ $group.replicas }} \\
{{- end }}
    -- PROGRAM
"""


def default_values():
    values = {}
    for path, default, _, _ in VALUES:
        *folders, name = path.split(".")
        at = values
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = default
    return values


def _comment(text, indent):
    return [f"{indent}# {line}" for line in textwrap.wrap(text, 100)]


def _values_yaml():
    """As people read it: each value below what it is."""
    out = [_MADE]
    folder = ""
    for path, default, text, _ in VALUES:
        *folders, name = path.split(".")
        indent = "  " if folders else ""
        if folders and folders[0] != folder:
            out += ["", f"{folders[0]}:"]
        elif not folders:
            out += [""]
        folder = folders[0] if folders else ""
        out += _comment(text, indent)
        out += template.lines({name: default}, None, len(indent))
    return "\n".join(out) + "\n"


_TYPES = {bool: "boolean", str: "string", int: "integer", list: "array", dict: "object"}


def _schema():
    schema = {
        "$schema": "https://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {"global": {"type": "object"}},
    }
    for path, default, text, more in VALUES:
        at = schema["properties"]
        *folders, name = path.split(".")
        for folder in folders:
            at = at.setdefault(folder, {"type": "object", "additionalProperties": False, "properties": {}})
            at = at["properties"]
        at[name] = ({"description": text} if text else {}) | {"type": _TYPES[type(default)]} | more
    return json.dumps(schema, indent=2) + "\n"


def _chart_file(item, context):
    before, after = [], []
    if item.when:
        before.append(f"{{{{- if {template.condition(item.when)} }}}}")
        after.append("{{- end }}")
    if item.each:
        before += ["{{- range $name, $group := $.Values.agents }}", "---"]
        after.insert(0, "{{- end }}")
    return "\n".join([_MADE, *before, *template.lines(item.body, context), *after]) + "\n"


def _kustomize_file(item, contexts):
    parts = ["\n".join(template.lines(template.plain(item.body, context), context)) for context in contexts]
    return _MADE + "\n" + "\n---\n".join(parts) + "\n"


_BASES = {
    "base": (
        "What agents and drivers need besides agents: ../statefulset or ../job add two workers. The Secret is made"
        " by `millrace agent-secret --kubernetes millrace-agent`.",
        {},
    ),
    "statefulset": ("Agents that stay.", {"resources": ["../base"]}),
    "job": ("Agents as indexed Jobs.", {"resources": ["../base"]}),
    "pod_monitor": (
        "For programs that serve metrics at a port with the name metrics, where Prometheus' operator is.",
        {"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"},
    ),
}


def render(version):
    """All files: path to text."""
    values = default_values()
    context = Context(values, {"Name": "millrace", "Namespace": "default"}, version)
    group = [Context(values, context.release, version, item) for item in values["agents"].items()]
    files = {
        "chart/Chart.yaml": f"{_MADE}\n" + _CHART.format(version=version),
        "chart/values.yaml": _values_yaml(),
        "chart/values.schema.json": _schema(),
        "chart/templates/NOTES.txt": _NOTES,
    }
    bases = {name: [] for name in _BASES}
    for item in OBJECTS:
        files[f"chart/templates/{item.file}.yaml"] = _chart_file(item, group[0])
        # What is off unless it is asked for is the chart's alone; what is another way has a base of its own.
        if item.base != "base" or item.when is None or context.holds(item.when):
            files[f"kustomize/{item.base}/{item.file}.yaml"] = _kustomize_file(item, group if item.each else [context])
            bases[item.base].append(f"{item.file}.yaml")
    for name, (text, more) in _BASES.items():
        head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"} | more
        head["resources"] = head.get("resources", []) + bases[name]
        comment = "\n".join(_comment(text, ""))
        body = "\n".join(template.lines(head, context))
        files[f"kustomize/{name}/kustomization.yaml"] = f"{_MADE}\n{comment}\n{body}\n"
    return files


def version_of(path):
    return re.search(r'^VERSION = "([^"]+)"$', pathlib.Path(path).read_text(encoding="utf-8"), re.MULTILINE).group(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=pathlib.Path)
    arguments = parser.parse_args()
    into = arguments.into
    if into is None:
        into = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"], "millrace/packaging/kubernetes")
    files = render(version_of(pathlib.Path(__file__).parents[3] / "version.bzl"))
    for path in [*into.glob("chart/**/*"), *into.glob("kustomize/**/*")]:
        if path.is_file() and path.relative_to(into).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
