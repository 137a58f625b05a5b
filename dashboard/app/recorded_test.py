"""Recordings of real clusters, as JSON: what is in testdata/NAME.mrec is what NAME.json says.

A recording is made by `millrace-dashboard --record FILE --dump-json --after 10s` beside a running cluster.
After an intended change: RENEW_GOLDEN=FOLDER writes the new .json files there.
"""

import json
import os
import subprocess
import tempfile
import unittest

HERE = os.path.join(os.environ["TEST_SRCDIR"], "millrace/dashboard/app")
PROGRAM = os.path.join(HERE, "millrace-dashboard")
TESTDATA = os.path.join(HERE, "testdata")
SECONDS = 120


def dump(path, after="1h"):
    environment = dict(os.environ, TZ="UTC")
    environment.pop("DISPLAY", None)
    ran = subprocess.run(
        [PROGRAM, "--replay", path, "--after", after, "--dump-json"],
        env=environment, capture_output=True, text=True, timeout=SECONDS, check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def rounded(value):
    """Floating point numbers to six digits: their last ones differ between compilers."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return value


class RecordedTest(unittest.TestCase):
    maxDiff = None

    def check(self, name):
        model = rounded(dump(os.path.join(TESTDATA, name + ".mrec")))
        if folder := os.environ.get("RENEW_GOLDEN"):
            with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
                file.write(json.dumps(model, indent=1, ensure_ascii=False) + "\n")
        with open(os.path.join(TESTDATA, name + ".json"), encoding="utf-8") as file:
            self.assertEqual(model, json.load(file))
        return model

    def test_digits_learns(self):
        model = self.check("digits")
        self.assertTrue(model["verdict"]["start"]["text"].startswith("Running. All 5 slots ready"))
        self.assertEqual({node["state"] for node in model["nodes"]}, {"running"})
        self.assertEqual({metric["name"] for metric in model["metrics"]}, {"accuracy", "loss"})
        self.assertEqual([gpu["name"] for gpu in model["gpus"]], ["Fake H100", "Fake H100"])
        fed = {node["name"] for node in model["nodes"] for queue in node["queues"] if queue["rows_received"] > 0}
        self.assertLessEqual({"chief:0", "worker:0", "worker:1"}, fed)

    def test_a_killed_node_is_the_first_cause(self):
        model = self.check("killed-node")
        self.assertIn("worker:2 failed first (killed by SIGKILL", model["verdict"]["failure"]["text"])
        self.assertEqual(model["link"]["state"], "ended")

    def test_two_ranks_on_a_real_gpu(self):
        """An H200: fed faster than two ranks compute, then by a slow source."""
        path = os.path.join(TESTDATA, "gpu.mrec")
        busy, starved = (dump(path, after)["verdict"]["gpus"]["text"] for after in ("35s", "53s"))
        self.assertRegex(busy, "^GPUs busy: 9[0-9]% on average")
        self.assertRegex(starved, "^GPUs idle 5[0-9]%: starved; the source gives 1[0-9]{2} MB/s")
        model = self.check("gpu")
        self.assertEqual([gpu["name"] for gpu in model["gpus"]], ["NVIDIA H200"])
        self.assertTrue(model["verdict"]["start"]["text"].startswith("Ended. 2 of 2 nodes finished"))

    def test_a_slot_that_never_comes_is_named(self):
        model = self.check("missing-slot")
        self.assertIn(
            "Waiting for worker:1: agent started, not connected for", model["verdict"]["start"]["text"]
        )
        states = {node["name"]: node["state"] for node in model["nodes"]}
        self.assertEqual(states.pop("worker:1"), "started")
        self.assertEqual(set(states.values()), {"registered"})

    def test_an_earlier_moment_is_another_model(self):
        path = os.path.join(TESTDATA, "killed-node.mrec")
        model = dump(path, after="2s")
        self.assertEqual(model["verdict"]["failure"]["text"], "No failures.")
        self.assertEqual({node["state"] for node in model["nodes"]}, {"running"})

    def test_half_a_recording_plays_to_where_it_is_cut_and_says_so(self):
        with open(os.path.join(TESTDATA, "digits.mrec"), "rb") as file:
            whole = file.read()
        with tempfile.NamedTemporaryFile(suffix=".mrec") as half:
            half.write(whole[: len(whole) * 2 // 3])
            half.flush()
            model = dump(half.name)
        self.assertEqual(model["link"]["state"], "ended")
        self.assertIn(os.path.basename(half.name), model["link"]["reason"])
        self.assertEqual(len(model["nodes"]), 5)


if __name__ == "__main__":
    unittest.main()
