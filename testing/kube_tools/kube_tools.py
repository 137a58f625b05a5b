"""Helm and kubectl (with kustomize), as upstream builds them, for tests.

    tools = KubeTools(folder, kubeconfig)
    tools.helm("install", "train", chart, "--namespace", "ml")
    tools.kubectl("apply", "--server-side", "-k", overlay)
"""

import json
import os
import pathlib
import subprocess

_PROGRAMS = pathlib.Path(os.environ.get("TEST_SRCDIR", ""), "kube_tools_programs")


def unavailable():
    """Why there are none; None if there are."""
    if (_PROGRAMS / "bin/helm").exists():
        return None
    reason = _PROGRAMS / "unavailable.txt"
    return "no helm and kubectl: " + (reason.read_text(encoding="utf-8").strip() if reason.exists() else "?")


class Failed(Exception):
    """A command ended with another code than 0; the text has what it wrote."""


class KubeTools:
    """Their home is a folder of their own. `warnings` are lines in which the server warned."""

    def __init__(self, folder, kubeconfig=None):
        self.warnings = []
        self._environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        if kubeconfig is not None:
            self._environment["KUBECONFIG"] = str(kubeconfig)

    def _run(self, program, arguments, text):
        ended = subprocess.run(
            [_PROGRAMS / "bin" / program, *[str(argument) for argument in arguments]], env=self._environment,
            input=text, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        if ended.returncode:
            raise Failed(f"{program} {arguments[0]} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        self.warnings += [line for line in ended.stderr.splitlines() if line.startswith("Warning")]
        return ended.stdout

    def typed(self, script, folder, *programs):
        """What a script prints that is typed in a folder, where these programs are found besides. Raises Failed."""
        path = ":".join([str(_PROGRAMS / "bin"), *[os.path.dirname(program) for program in programs], "/usr/bin:/bin"])
        ended = subprocess.run(
            ["sh", "-euc", script], env={**self._environment, "PATH": path}, cwd=folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300,
        )  # fmt: skip
        if ended.returncode:
            raise Failed(f"it ended with {ended.returncode}:\n{ended.stdout}")
        return ended.stdout

    def helm(self, *arguments, text=""):
        """What it prints. Raises Failed."""
        return self._run("helm", arguments, text)

    def kubectl(self, *arguments, text=""):
        return self._run("kubectl", arguments, text)

    def objects(self, manifests):
        """The objects of YAML documents: kind and name to object, without what only a server knows."""
        text = self.kubectl("create", "--dry-run=client", "--validate=false", "-o", "json", "-f", "-", text=manifests)
        decoder, at, found = json.JSONDecoder(), 0, {}
        while at < len(text.rstrip()):
            item, at = decoder.raw_decode(text, at)
            at += len(text) - at - len(text[at:].lstrip())
            for each in item["items"] if item["kind"] == "List" else [item]:
                found[f"{each['kind']} {each['metadata']['name']}"] = each
        return found
