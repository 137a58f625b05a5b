"""The conformance program on both sides of the reference peer: right peers pass, and wrong ones do not."""

import concurrent.futures
import json
import pathlib
import subprocess
import unittest

import conformance
import misbehave
import node_stub

PROGRAM = pathlib.Path("testing/reference_peer/millrace-conformance")


def _lines(text):
    return [json.loads(line) for line in text.splitlines()]


class ConformanceTest(unittest.TestCase):
    def run_feeder(self, info, *arguments):
        command = [PROGRAM.resolve(), "feeder", "--endpoint", info["ipc"]]
        command += ["--key", info["key"], "--nonce", info["nonce"]]
        result = subprocess.run(
            [*command, "--rows", "100", "--batch-rows", "20", *arguments],
            stdout=subprocess.PIPE,
            timeout=120,
            check=False,
            text=True,
        )
        return result.returncode, _lines(result.stdout)[-1]

    def against_node(self, *arguments, feeder=()):
        command = [PROGRAM.resolve(), "node", "--seconds", "60", *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
            ready = json.loads(node.stdout.readline())
            self.run_feeder(ready, *feeder)
            verdict = _lines(node.stdout.read())[-1]
            return node.wait(), verdict

    def test_a_right_pair_passes(self):
        for mode in ("train", "inference"):
            code, verdict = self.against_node(feeder=("--mode", mode))
            self.assertEqual((code, verdict["found"]), (0, "done"), verdict)

    def test_the_reference_feeder_is_right_whatever_a_node_breaks(self):
        for rule in conformance.NODE_RULES:
            mode = "inference" if rule == "result-gap" else "train"
            with self.subTest(rule):
                code, verdict = self.against_node("--break", rule, feeder=("--mode", mode))
                self.assertEqual((code, verdict["ok"]), (0, True), verdict)

    def test_the_reference_node_is_right_whatever_a_feeder_breaks(self):
        def breaks(rule):
            with node_stub.NodeStub() as node:
                info = {"ipc": node.info.endpoint, "key": node.info.key, "nonce": node.info.nonce}
                return self.run_feeder(info, "--break", rule)

        rules = sorted(misbehave.EXPECTED)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:
            for rule, (code, verdict) in zip(rules, threads.map(breaks, rules)):
                with self.subTest(rule):
                    self.assertEqual((code, verdict["ok"]), (0, True), verdict)

    def test_a_node_that_lets_a_broken_rule_pass_fails(self):
        class Lenient(node_stub.NodeStub):
            def _on_batch(self, session, message, size):
                session.next_row = message.first_row  # whatever the row
                super()._on_batch(session, message, size)

        with Lenient() as node:
            info = {"ipc": node.info.endpoint, "key": node.info.key, "nonce": node.info.nonce}
            code, verdict = self.run_feeder(info, "--break", "row-gap")
            self.assertEqual((code, verdict["ok"]), (1, False), verdict)

    def test_every_rule_of_the_feeder_says_what_is_right(self):
        self.assertEqual(set(misbehave.EXPECTED), set(misbehave.KINDS))
        self.assertLessEqual(set(misbehave.PLAIN_ONLY), set(misbehave.KINDS))


if __name__ == "__main__":
    unittest.main()
