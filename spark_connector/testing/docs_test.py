"""The code in docs/spark.md compiles: Java against the connector's jar and Spark's, Python by its grammar.

What a block uses and does not make is what stands in its frame below.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from spark_cluster import SparkUnavailable, java_home, spark_home

_FRAME = """
import io.millrace.spark.*;
import io.millrace.spark.ml.*;
import java.time.Duration;
import java.util.Collections;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.*;
import org.apache.spark.sql.types.StructType;

final class Snippet {{
  static void run(SparkSession spark, Dataset<Row> df, Dataset<Row> test, StructType resultSchema) throws Exception {{
{code}
  }}
}}
"""
_ARGUMENTS = None


def _blocks(language):
    text = pathlib.Path(_ARGUMENTS.page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


class DocsTest(unittest.TestCase):
    def test_java_compiles(self):
        try:
            jars = spark_home() / "jars"
            java = java_home()
        except SparkUnavailable as why:
            self.skipTest(str(why))
        blocks = _blocks("java")
        self.assertTrue(blocks)
        for block in blocks:
            with tempfile.TemporaryDirectory() as folder:
                source = pathlib.Path(folder, "Snippet.java")
                source.write_text(_FRAME.format(code=block), encoding="utf-8")
                done = subprocess.run(
                    [java / "bin/javac", "-proc:none", "-d", folder, "-cp", f"{_ARGUMENTS.connector}:{jars}/*", source],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_python_compiles(self):
        blocks = _blocks("python")
        self.assertTrue(blocks)
        for block in blocks:
            compile(block, _ARGUMENTS.page, "exec")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--page", required=True)
    parser.add_argument("--connector", required=True)
    _ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
