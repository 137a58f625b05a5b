"""Clusters of node_test_program.py on this machine, for tests."""

import collections
import os
import sys
import threading

_ROOT = os.getcwd()
PROGRAM = os.path.join(_ROOT, "millrace/python/node_test_program.py")
PATIENCE_S = 120

os.environ["MILLRACE_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace.so")
os.environ["MILLRACE_CLUSTER_LIBRARY"] = os.path.join(_ROOT, "millrace/c/libmillrace_cluster.so")
os.environ["MILLRACE_AGENT"] = os.path.join(_ROOT, "core/agent/millrace-agent")

import millrace  # noqa: E402: it reads the above


class Heard:
    """What is heard from a cluster's nodes: `lines`, and `metrics` by name."""

    def __init__(self):
        self._changed = threading.Condition()
        self.lines = []
        self.metrics = collections.defaultdict(list)

    def on_log(self, _, line):
        with self._changed:
            self.lines.append(line)
            self._changed.notify_all()

    def on_metric(self, node, name, step, value):
        with self._changed:
            self.metrics[name].append((node, step, value))
            self._changed.notify_all()

    def wait_for(self, heard):
        """Until `heard()` is true of lines and metrics."""
        with self._changed:
            if not self._changed.wait_for(heard, PATIENCE_S):
                raise TimeoutError(f"after {PATIENCE_S} s: {self.lines}, {dict(self.metrics)}")


def run(heard, program, nodes=1, **options):
    """A fed cluster that leaves nothing in the user's home."""
    options = {"input_mode": millrace.InputMode.FEED, **options}
    return millrace.Cluster.run(
        program, nodes, progress=False, cluster_file=False, on_log=heard.on_log, on_metric=heard.on_metric, **options
    )


class Cluster(Heard):
    """with Cluster("train", nodes=2) as cluster: ..."""

    def __init__(self, what, nodes=1, arguments=(), **options):
        super().__init__()
        program = millrace.NodeProgram.path(sys.executable, "-s", "-P", "-B", PROGRAM, what, *arguments)
        self._cluster = run(self, program, nodes, **options)
        self.end_feed = self._cluster.end_feed
        self.shutdown = self._cluster.shutdown

    def train(self, *partitions):
        return self._cluster.train(list(partitions))

    def inference(self, *partitions):
        return self._cluster.inference(list(partitions)).table()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._cluster.close()
