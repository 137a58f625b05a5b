"""The wheel millrace-tensorflowonspark, installed by pip beside the package millrace.

    pure_wheel_test.py WHEEL
"""

import importlib.metadata
import os
import subprocess
import sys
import tempfile
import unittest

import millrace

_WHEEL = os.path.abspath(sys.argv.pop(1))
# Those that are imported without PySpark.
_MODULES = (
    "TFCluster", "TFManager", "TFNode", "TFParallel", "TFSparkNode", "compat", "gpu_info", "marker", "reservation",
    "util",
)  # fmt: skip


class WheelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        quiet = ["--quiet", "--no-index", "--no-deps", "--no-cache-dir", "--disable-pip-version-check"]
        command = [sys.executable, "-s", "-P", "-m", "pip", "install", *quiet, "--target", self.folder, _WHEEL]
        subprocess.run(command, check=True, env={**os.environ, "HOME": self.folder})

    def test_it_needs_millrace_of_its_version(self):
        (wheel,) = importlib.metadata.distributions(name="millrace-tensorflowonspark", path=[self.folder])
        self.assertEqual(wheel.requires, [f"millrace=={millrace.__version__}"])
        self.assertEqual(wheel.version, millrace.__version__)
        self.assertIn("# millrace-tensorflowonspark", wheel.read_text("METADATA"))

    def test_its_modules_are_imported_without_tensorflow_and_pyspark(self):
        foreign = "{'tensorflow', 'pyspark', 'numpy'}"
        program = f"import sys\nfrom tensorflowonspark import {', '.join(_MODULES)}\n"
        program += f"assert not {foreign} & set(sys.modules)\nprint(TFCluster.__file__)"
        path = os.pathsep.join([self.folder, os.path.dirname(os.path.dirname(millrace.__file__))])
        command = [sys.executable, "-s", "-P", "-c", program]
        ran = subprocess.run(command, env={"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(ran.stdout.strip(), os.path.join(self.folder, "tensorflowonspark", "TFCluster.py"))


if __name__ == "__main__":
    unittest.main()
