"""The package is typed, and holds programs to its types: mypy --strict."""

import os
import subprocess
import sys
import unittest

_FOLDER = os.path.abspath("millrace/python")


def _mypy(*arguments):
    command = [sys.executable, "-s", "-P", "-m", "mypy", "--config-file", os.path.join(_FOLDER, "mypy.ini"), *arguments]
    env = {**os.environ, "MYPYPATH": _FOLDER, "MYPY_CACHE_DIR": os.path.join(os.environ["TEST_TMPDIR"], "mypy")}
    ended = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


class TypesTest(unittest.TestCase):
    def test_the_package_is_strictly_typed(self):
        code, text = _mypy("-p", "millrace")
        self.assertEqual(code, 0, text)
        self.assertIn("no issues found", text)

    def _check(self, program):
        return _mypy("-c", program)

    def test_a_program_is_held_to_the_types(self):
        code, text = self._check(
            "import millrace\n"
            "def main(node: millrace.Node) -> None:\n"
            "    for batch in node.feed(batch=4):\n"
            "        node.metric('rows', 0, batch.num_rows)\n"
            "with millrace.Cluster.run(main, 2, input_mode=millrace.InputMode.FEED) as cluster:\n"
            "    rows: int = cluster.train({'x': [1]}).rows\n"
        )
        self.assertEqual(code, 0, text)
        code, text = self._check("import millrace\nmillrace.Cluster.run('train.py', num_executors='4')\n")
        self.assertEqual(code, 1, text)
        self.assertIn('No overload variant of "run" of "Cluster" matches argument types "str", "str"', text)
        for wrong in ("port_range='1-2'", "failure=3", "failure=millrace.FailureOptions(restart=3)"):
            code, text = self._check(f"import millrace\nmillrace.Cluster.run('train.py', {wrong})\n")
            self.assertEqual(code, 1, text)

    def test_what_a_feed_is_for_is_held_to_the_types(self):
        for given in ("mode='inference'", "equal='pad'", "equal=None"):
            code, text = self._check(f"import millrace\ndef main(node: millrace.Node) -> None: node.feed({given})\n")
            self.assertEqual(code, 0, text)
        for given in ("mode='eval'", "equal='even'"):
            code, text = self._check(f"import millrace\ndef main(node: millrace.Node) -> None: node.feed({given})\n")
            self.assertEqual(code, 1, text)
            self.assertIn("Literal", text)

    def test_a_program_on_spark_is_held_to_the_types(self):
        code, text = self._check(
            "from millrace import Cluster, FailureOptions, NodeOptions, NodeProgram, RestartPolicy\n"
            "from pyspark.sql import SparkSession\n"
            "spark = SparkSession.builder.getOrCreate()\n"
            "failure = FailureOptions(restart=RestartPolicy(max_restarts=1), stop_grace=1)\n"
            "node = NodeOptions(port_range='1-2')\n"
            "with Cluster.run(spark, NodeProgram.file('n'), 2, failure=failure, node=node) as cluster:\n"
            "    rows: int = cluster.train(spark.range(3)).rows\n"
            "    cluster.inference(spark.range(3), 'id bigint').show()\n"
        )
        self.assertEqual(code, 0, text)


if __name__ == "__main__":
    unittest.main()
