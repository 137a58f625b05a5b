"""The fixture ends what it started, however it ends."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import spark_cluster
from eventually import wait_for
from spark_cluster import WAIT_S, SparkCluster, SparkUnavailable, descendants


def marked(marker):
    """Pids of the processes that were started with MILLRACE_TEST_ID=marker."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and marker.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            pass
    return found


class SparkClusterTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        try:
            spark_cluster.spark_home()
            spark_cluster.java_home()
        except SparkUnavailable as why:
            self.skipTest(str(why))

    def test_an_executor_that_is_killed_is_replaced(self):
        with SparkCluster(os.path.join(self.folder, "spark")) as cluster:
            application = cluster.submit(executors=1)
            wait_for(lambda: "0" in cluster.executors(application), "executor 0")
            with urllib.request.urlopen(f"{application.ui}/api/v1/applications", timeout=WAIT_S) as answer:
                self.assertEqual([entry["id"] for entry in json.load(answer)], [application.id])
            cluster.kill_executor(application, "0")
            wait_for(lambda: "1" in cluster.executors(application), "executor 1")
            application.stop()
            wait_for(lambda: not cluster.executors(application), "no executor")
        self.assertEqual(descendants(os.getpid()), [])

    def test_nothing_outlives_a_fixture_that_is_killed(self):
        marker = f"MILLRACE_TEST_ID=spark-{os.getpid()}-{time.time_ns()}"
        fixture = subprocess.Popen(
            [sys.executable, spark_cluster.__file__, "--executors=1"],
            env=os.environ | dict([marker.split("=", 1)]),
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(fixture.communicate)
        self.addCleanup(fixture.kill)
        self.assertEqual(json.loads(fixture.stdout.readline())["event"], "cluster")
        self.assertEqual(json.loads(fixture.stdout.readline())["event"], "application")
        wait_for(lambda: len(marked(marker)) >= 5, "master, worker, driver, executor, fixture")
        fixture.send_signal(signal.SIGKILL)
        wait_for(lambda: not marked(marker), "all of them ended")


if __name__ == "__main__":
    unittest.main()
