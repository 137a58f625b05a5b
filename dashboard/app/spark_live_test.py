"""The digits as they learn on a real Spark, seen live: reservations, feed, metrics and GPUs."""

import json
import os
import pathlib
import shutil
import tempfile
import threading
import unittest

from dashboard_testing import ROOT, count_of, display, read_png, run
from eventually import wait_for
from spark_cluster import SparkCluster, SparkUnavailable, java_home, spark_home, zip_package

# As dashboard/views/theme.cc has them.
GREEN, ACCENT, SERIES = 0x3FB56B, 0x4CC2FF, (0x4CC2FF, 0xF0A35E, 0x7AD17A, 0xD98CF0, 0xF2D35C, 0x5FD9C7)
VIRIDIS = 0x2C728E  # at 37%
GPU = (
    "driver 550.54.15\nnvml 12.550.54.15\n"
    "gpu 0 uuid=GPU-fake-0 name=Fake_H100 bus=00000000:03:00.0 util=37 memory_util=5 used=21474836480 "
    "total=85899345920 power=312345 limit=700000 temperature=55 sm=1980 max_sm=1980"
)


@unittest.skipUnless(shutil.which("Xvfb"), "Xvfb is not installed (Debian package xvfb)")
class SparkLiveTest(unittest.TestCase):
    def setUp(self):
        try:
            spark_home()
            java_home()
        except SparkUnavailable as why:
            if os.environ.get("MILLRACE_REQUIRE_SPARK") == "1":
                self.fail(str(why))
            self.skipTest(str(why))
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.folder = pathlib.Path(folder)

    def dashboard(self, *arguments, screen=None):
        return run(list(arguments), screen, MILLRACE_CLUSTERS_DIR=str(self.folder / "clusters"))

    def model(self, condition):
        ran = self.dashboard("--dump-json", "--after", "3s")
        if ran.returncode != 0:
            return None
        model = json.loads(ran.stdout)
        return model if condition(model) else None

    def shoot(self, screen, panel):
        path = str(self.folder / "shot.png")
        ran = self.dashboard(
            "--screenshot", path, "--panel", panel, "--zoom", "--size", "1280x720", "--after", "4s", screen=screen
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return read_png(path)[2][40:]

    def test_the_digits_on_spark_are_seen_live(self):
        digits = pathlib.Path(ROOT, "examples/digits")
        (self.folder / "gpus").write_text(GPU, encoding="utf-8")
        (self.folder / "digits.csv").write_bytes((digits / "digits.csv").read_bytes())
        package = zip_package(pathlib.Path(ROOT, "millrace/python/millrace"), self.folder / "millrace.zip")
        environment = {
            "MILLRACE_CLUSTERS_DIR": str(self.folder / "clusters"),
            "MILLRACE_NVML_LIBRARY": os.path.join(ROOT, "testing/fake_nvml/libfake_nvml.so"),
            "FAKE_NVML_SCRIPT": str(self.folder / "gpus"),
        }
        told = {}
        with SparkCluster(self.folder / "spark", cores=4) as cluster:

            def submit():
                told["end"] = cluster.run(
                    None,
                    [digits / "digits_spark.py", pathlib.Path(ROOT, "spark_connector/millrace-spark.jar").resolve()],
                    [(digits / "digits_node").resolve(), self.folder / "digits.csv", "--epochs=1000"],
                    executors=4,
                    environment=environment,
                    py_files=[package],
                )

            threading.Thread(target=submit, daemon=True).start()

            def learns(model):
                fed = model["cluster"].get("rows_per_second") or 0
                return fed > 0 and len(model["metrics"]) >= 2 and len(model["gpus"]) >= 1

            def seen():
                self.assertNotIn("end", told)
                return self.model(learns)

            try:
                # A driver and four executors start, on a machine that may be busy with other Sparks.
                model = wait_for(seen, "rows, metrics and GPUs", within_s=600)
            except AssertionError:
                for log in (self.folder / "spark").glob("application-*.log"):
                    print(log.read_text(encoding="utf-8", errors="replace")[-4000:])
                print(self.dashboard("--dump-json"))
                raise
            self.assertEqual(
                {node["name"] for node in model["nodes"]}, {"ps:0", "chief:0", "worker:0", "evaluator:0"}
            )
            self.assertTrue(model["verdict"]["start"]["text"].startswith("Running. All 4 slots ready"))
            self.assertEqual({gpu["name"] for gpu in model["gpus"]}, {"Fake H100"})
            with display() as screen:
                self.assertGreater(count_of(self.shoot(screen, "reservations"), GREEN), 10_000)
                feed = self.shoot(screen, "feed")
                self.assertGreater(count_of(feed, ACCENT, 60), 20)  # rows over time: a thin line
                lines = self.shoot(screen, "metrics")
                self.assertGreater(sum(count_of(lines, color, 60) > 10 for color in SERIES), 1)
                self.assertGreater(count_of(self.shoot(screen, "gpus"), VIRIDIS), 500)
            self.assertNotIn("end", told)


if __name__ == "__main__":
    unittest.main()
