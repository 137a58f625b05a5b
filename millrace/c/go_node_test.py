"""A node in Go, over the C interface: built here with cgo, run and fed by a real cluster."""

import os
import pathlib
import shutil
import subprocess
import unittest

_ROOT = pathlib.Path.cwd()
_TMP = pathlib.Path(os.environ["TEST_TMPDIR"])

os.environ["MILLRACE_LIBRARY"] = str(_ROOT / "millrace/c/libmillrace.so")
os.environ["MILLRACE_CLUSTER_LIBRARY"] = str(_ROOT / "millrace/c/libmillrace_cluster.so")
os.environ["MILLRACE_AGENT"] = str(_ROOT / "core/agent/millrace-agent")

import millrace  # noqa: E402: it reads the above


def _missing():
    """Why no Go program can be built here; "" if one can."""
    go = shutil.which("go", path=os.environ.get("PATH", "") + ":/usr/local/go/bin:/usr/lib/go/bin")
    if go is None:
        return "", "Go is not installed"
    if shutil.which("gcc") is None:
        return "", "gcc, which cgo needs, is not installed"
    return go, ""


_GO, _REASON = _missing()


@unittest.skipIf(_REASON, _REASON)
class GoNodeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A copy: the test's own files are links, which Go does not follow.
        sources = _TMP / "go_node"
        sources.mkdir()
        for file in ("go.mod", "main.go"):
            shutil.copyfile(_ROOT / "millrace/c/go_node" / file, sources / file)
        cls.program = str(_TMP / "node")
        folder = _ROOT / "millrace/c"
        env = {
            **os.environ,
            "HOME": str(_TMP),
            "GOCACHE": str(_TMP / "go-cache"),
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
            "CGO_ENABLED": "1",
            "CGO_CFLAGS": f"-I{_ROOT}",
            # The library names others by folders of Bazel's, which the loader finds.
            "CGO_LDFLAGS": f"-L{folder} -Wl,-rpath,{folder} -Wl,--allow-shlib-undefined",
        }
        command = [_GO, "build", "-o", cls.program, "."]
        built = subprocess.run(command, cwd=sources, env=env, capture_output=True, text=True, check=False)
        if built.returncode != 0:
            raise AssertionError(f"go build: {built.stdout}{built.stderr}")

    def _run(self, nodes, **options):
        return millrace.Cluster.run(
            self.program, nodes, input_mode=millrace.InputMode.FEED, progress=False, cluster_file=False, **options
        )

    def test_it_is_fed_and_answers_every_row_in_order(self):
        metrics = []
        rows = {"id": list(range(101)), "name": [f"row {i}" for i in range(101)]}
        observer = millrace.ClusterObserver(on_metric=lambda *metric: metrics.append(metric))
        with self._run(2, observer=observer) as cluster:
            self.assertEqual(cluster.train(rows, num_epochs=2, end_of_feed=True).rows, 202)
            results = cluster.inference(rows).to_pylist()
        self.assertEqual(results, [{"doubled": 2 * i, "name": f"ROW {i}"} for i in range(101)])
        self.assertEqual(sum(step for _, name, step, _ in metrics if name == "sum"), 202)
        self.assertEqual(sum(value for _, name, _, value in metrics if name == "sum"), 2 * sum(range(101)))

    def test_its_error_is_the_cluster_s(self):
        with self.assertRaisesRegex(millrace.NotFoundError, 'worker:0.*"id".*it has: x'):
            with self._run(1) as cluster:
                cluster.train({"x": [1, 2, 3]}, end_of_feed=True)


if __name__ == "__main__":
    unittest.main()
