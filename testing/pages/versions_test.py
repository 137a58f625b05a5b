"""The versions that the Python package's page says it is tested with: they are those that the tests fetch."""

import os
import re
import unittest

# Where the page itself lies: requirements of all packages are there.
ROOT = os.path.dirname(os.path.realpath(os.path.join(
    os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace", "README.md")))
PAGE = "millrace/python/README.md"
REPOSITORIES = "third_party/development_repositories.bzl"
# Names of the page: of a package.
PACKAGES = {
    "Accelerate": "accelerate",
    "Lightning (`pytorch-lightning`)": "pytorch-lightning",
    "JAX": "jax",
    "TensorBoard": "tensorboard",
    "TensorFlow": "tensorflow-cpu",
    "XGBoost": "xgboost-cpu",
    "ONNX Runtime": "onnxruntime",
    "LightGBM": "lightgbm",
    "NumPy": "numpy",
    "pyarrow": "pyarrow",
    "pandas": "pandas",
    "Polars": "polars",
    "DuckDB": "duckdb",
}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def versions(text):
    return set(re.findall(r"\b\d+\.\d+\.\d+\b", text))


class VersionsTest(unittest.TestCase):
    def setUp(self):
        section = read(PAGE).split("\n## Versions\n")[1].split("\n## ")[0]
        self.stated = dict(re.findall(r"(?m)^\| ([^|]+) \| (.+) \|$", section))

    def test_the_packages_that_are_fetched_have_them(self):
        labels = re.findall(r'requirements = "//(.*):(.*)"', read(REPOSITORIES))
        pins = "\n".join(read(os.path.join(package, file)) for package, file in labels)
        for name, package in PACKAGES.items():
            pinned = set(re.findall(rf"(?m)^{package}==(\S+)", pins))
            self.assertTrue(pinned, package)
            self.assertEqual(versions(self.stated[name]), pinned, name)

    def test_spark_has_them(self):
        pinned = versions("\n".join(re.findall(
            r'spark_distribution\(\n.*\n +version = "(.*)"', read(REPOSITORIES))))
        self.assertEqual(versions(self.stated["PySpark"]), pinned)

    def test_nothing_else_is_stated(self):
        self.assertEqual(set(self.stated) - set(PACKAGES), {"library", "---", "PyTorch", "PySpark"})


if __name__ == "__main__":
    unittest.main()
