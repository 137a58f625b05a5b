"""The feeder over real sockets against the node stub, as a library and as the program."""

import json
import os
import pathlib
import subprocess
import tempfile
import threading
import time
import unittest

import feeder as feeders
import misbehave
import node_stub
import session as sessions
import sockets
import sources

SCHEMA = sources.parse_columns("id:int64,flag:bool,name:utf8,raw:binary,vector:fixed_size_list<float32, 3>")
PROGRAM = pathlib.Path("testing/reference_peer/feeder")

# These end by the 5 s of section 4, which session_test covers, or need a busy node: see below.
NOT_SEEN_AT_ONCE = {"wrong-reply-endpoint", "bad-open", "send-before-credit", "exceed-credit"}


class FeederTestCase(unittest.TestCase):
    def feeder(self, **options):
        made = feeders.Feeder(**options)
        self.addCleanup(made.close)
        return made

    def node(self, **options):
        return self.enterContext(node_stub.NodeStub(**options))

    def source(self, partition=0, rows=100, **options):
        return sources.NumberedRows(SCHEMA, partition, rows, 10, null_every=7, **options)

    def request(self, mode="train", partition=0, feed_id="feed", queue=None):
        return feeders.FeedRequest(feed_id, queue or ("input" if mode == "train" else "predict"), mode, partition)

    def run_until_accepted(self, feeder, feed):
        deadline = time.monotonic() + 30
        while not feed.accepted and time.monotonic() < deadline:
            feed.step(time.monotonic())
            feeder.poll(0.05)
        self.assertTrue(feed.accepted)

    def assert_rows(self, node, partition, rows, first_row=0):
        """The node holds exactly the rows of the partition, in order."""
        expected = self.source(partition, rows)
        row = first_row
        for at, first, batch in node.rows("input"):
            if at == partition and first >= first_row:
                self.assertEqual(first, row)
                self.assertTrue(batch.equals(expected.slice(row, batch.num_rows)))
                row += batch.num_rows
        self.assertEqual(row, rows)

    def assert_results(self, feed, partition, rows):
        row = 0
        for batch in feed.results:
            self.assertTrue(batch.equals(self.source(partition, rows).slice(row, batch.num_rows)))
            row += batch.num_rows
        self.assertEqual(row, rows)


class FeederTest(FeederTestCase):
    def test_training_rows_arrive_over_both_transports(self):
        node = self.node()
        for reply, info in (("ipc", node.info), ("tcp", node.tcp_info)):
            with self.subTest(reply):
                request = self.request(partition=5 if reply == "tcp" else 4)
                source = self.source(request.partition, cuts=(2, 5, 8))
                feed = feeders.feed_partition(self.feeder(reply=reply), lambda i=info: i, request, source)
                self.assertEqual(feed.outcome.kind, "done")
                self.assert_rows(node, request.partition, 100)

    def test_curve_admits_who_was_announced_even_late(self):
        node = self.node(curve_host="127.0.0.1")
        feeder = self.feeder(curve=True)
        late = threading.Timer(0.4, node.announce, (feeder.principal, feeder.curve_keys.public))
        late.start()
        self.addCleanup(late.join)
        train = feeders.feed_partition(feeder, node.lookup, self.request(), self.source())
        self.assertEqual(train.outcome.kind, "done")
        self.assert_rows(node, 0, 100)
        inference = feeders.feed_partition(feeder, node.lookup, self.request("inference"), self.source())
        self.assertEqual(inference.outcome.kind, "done")
        self.assert_results(inference, 0, 100)

    def test_curve_refuses_unknown_keys_on_both_sides(self):
        node = self.node(curve_host="127.0.0.1")
        feeder = self.feeder(curve=True)
        feed = feeders.feed_partition(feeder, node.lookup, self.request(), self.source())
        self.assertEqual((feed.outcome.kind, feed.outcome.code), ("refused", "UNAUTHENTICATED"))
        # The node is known, but the one that answers has another key.
        node.announce(feeder.principal, feeder.curve_keys.public)
        node.curve_keys = sockets.new_curve_keys()
        feed = feeders.feed_partition(feeder, node.lookup, self.request(), self.source(), resume=False)
        self.assertEqual(feed.outcome.kind, "unavailable")
        self.assertEqual(node.rows("input"), [])

    def test_an_empty_partition_is_done(self):
        node = self.node()
        for mode in ("train", "inference"):
            feed = feeders.feed_partition(self.feeder(), node.lookup, self.request(mode), self.source(rows=0))
            self.assertEqual(feed.outcome, sessions.Outcome("done", "OK", "0 rows in, 0 rows out"))

    def test_many_partitions_share_a_small_window(self):
        node = self.node(budget_bytes=900)
        feeder = self.feeder()
        feeds = [
            feeders.PartitionFeed(feeder, node.lookup, self.request(partition=p), self.source(p)) for p in range(4)
        ]
        self.assertTrue(feeder.run(feeds, 60))
        for partition, feed in enumerate(feeds):
            self.assertEqual(feed.outcome.kind, "done")
            self.assert_rows(node, partition, 100)

    def test_inference_results_come_back_one_partition_after_another(self):
        node = self.node(budget_bytes=2000)
        feeder = self.feeder()
        feeds = [
            feeders.PartitionFeed(feeder, node.lookup, self.request("inference", p), self.source(p)) for p in range(3)
        ]
        self.assertTrue(feeder.run(feeds, 60))
        for partition, feed in enumerate(feeds):
            self.assertEqual(feed.outcome.kind, "done")
            self.assert_results(feed, partition, 100)
        taken = [partition for partition, _, _ in node.rows("predict")]
        self.assertEqual(taken, sorted(taken))

    def test_training_resumes_at_the_first_row_not_acknowledged(self):
        node = self.node(break_after_rows=55)
        feed = feeders.feed_partition(self.feeder(), node.lookup, self.request(), self.source())
        self.assertEqual((feed.outcome.kind, feed.sessions), ("done", 2))
        self.assertEqual(feed.acked_row, 100)
        self.assertGreater(feed.rows_refed, 0)
        rows = {row for _, first, batch in node.rows("input") for row in range(first, first + batch.num_rows)}
        self.assertEqual(rows, set(range(100)))

    def test_inference_starts_again_from_row_0_with_results_discarded(self):
        node = self.node(break_after_rows=55)
        feed = feeders.feed_partition(self.feeder(), node.lookup, self.request("inference"), self.source())
        self.assertEqual((feed.outcome.kind, feed.sessions), ("done", 2))
        self.assert_results(feed, 0, 100)

    def test_a_restarting_node_is_waited_for_and_a_failed_one_not(self):
        node = self.node()
        states = [feeders.NodeInfo("restarting"), feeders.NodeInfo("restarting"), node.info]
        feed = feeders.feed_partition(self.feeder(), lambda: states.pop(0), self.request(), self.source())
        self.assertEqual(feed.outcome.kind, "done")
        failed = feeders.NodeInfo("failed", cause="exit code 1")
        feed = feeders.feed_partition(self.feeder(), lambda: failed, self.request(), self.source())
        self.assertEqual((feed.outcome.kind, feed.outcome.message), ("failed", "exit code 1"))

    def test_termination_ends_the_feed(self):
        node = self.node(budget_bytes=500, terminate_after_rows=30)
        feed = feeders.feed_partition(self.feeder(), node.lookup, self.request(), self.source())
        self.assertEqual(feed.outcome.kind, "terminated")
        self.assertTrue(feed.outcome.ok)

    def test_an_unknown_queue_is_answered_with_the_ones_there_are(self):
        node = self.node()
        feed = feeders.feed_partition(self.feeder(), node.lookup, self.request(queue="inptu"), self.source())
        self.assertEqual(feed.outcome.code, "NOT_FOUND")
        self.assertIn("input, predict", feed.outcome.message)

    def test_another_schema_in_one_feed_names_the_column(self):
        node = self.node()
        feeder = self.feeder()
        feeders.feed_partition(feeder, node.lookup, self.request(), self.source())
        other = sources.NumberedRows(sources.parse_columns("id:int32"), 1, 10, 10)
        feed = feeders.feed_partition(feeder, node.lookup, self.request(partition=1), other)
        self.assertEqual(feed.outcome.code, "INVALID_ARGUMENT")
        self.assertIn("column id", feed.outcome.message)

    def test_an_endpoint_that_nobody_serves_is_unavailable(self):
        for endpoint in ("tcp://127.0.0.1:1", "ipc://@millrace-nobody"):
            info = feeders.NodeInfo("running", endpoint, "00", "n")
            feed = feeders.feed_partition(self.feeder(), lambda i=info: i, self.request(), self.source(), resume=False)
            self.assertEqual((feed.outcome.kind, feed.outcome.code), ("unavailable", "UNAVAILABLE"))


class MisbehaviourTest(FeederTestCase):
    def feed(self, node, kind, feeder=None, at=1):
        tamper = misbehave.Misbehaviour(kind, at)
        return feeders.feed_partition(
            feeder or self.feeder(), node.lookup, self.request(), self.source(), resume=False, tamper=tamper
        )

    def test_every_kind_is_expected_somewhere(self):
        self.assertEqual(set(misbehave.KINDS), set(misbehave.EXPECTED) | NOT_SEEN_AT_ONCE)

    def test_each_misbehaviour_is_answered(self):
        for kind, expected in misbehave.EXPECTED.items():
            with self.subTest(kind):
                outcome = self.feed(self.node(), kind).outcome
                self.assertEqual(f"{outcome.kind} {outcome.code}", expected, outcome.message)

    def test_a_false_login_is_heard_and_told_before_the_5_seconds_are_over(self):
        began = time.monotonic()
        self.assertIn("wrong password", self.feed(self.node(), "wrong-challenge").outcome.message)
        self.assertLess(time.monotonic() - began, sessions.OPEN_TIMEOUT_SECONDS)

    def test_a_bad_frame_poisons_its_principal_and_no_other(self):
        node = self.node()
        bad, good = self.feeder(principal="feeder/bad"), self.feeder(principal="feeder/good")
        node.hold(True)
        other = feeders.PartitionFeed(good, node.lookup, self.request(partition=1), self.source(1))
        self.run_until_accepted(good, other)
        self.assertEqual(self.feed(node, "huge-buffer", bad).outcome.code, "INVALID_ARGUMENT")
        again = self.feeder(principal="feeder/bad")
        self.assertEqual(self.feed(node, "", again).outcome.kind, "refused")
        node.hold(False)
        self.assertTrue(good.run([other], 30))
        self.assertEqual(other.outcome.kind, "done")

    def test_credit_that_is_ignored_is_refused(self):
        node = self.node(budget_bytes=500)
        node.hold(True)
        self.assertEqual(self.feed(node, "exceed-credit").outcome.code, "INVALID_ARGUMENT")

    def test_a_batch_to_a_node_that_serves_another_session_is_refused(self):
        node = self.node()
        node.hold(True)
        feeder = self.feeder()
        first = feeders.PartitionFeed(feeder, node.lookup, self.request("inference"), self.source())
        self.run_until_accepted(feeder, first)
        tamper = misbehave.Misbehaviour("send-before-credit")
        early = feeders.PartitionFeed(
            feeder, node.lookup, self.request("inference", 1), self.source(1), resume=False, tamper=tamper
        )
        self.assertTrue(feeder.run([early], 30))
        self.assertEqual(early.outcome.code, "INVALID_ARGUMENT")


class ProgramTest(FeederTestCase):
    def run_program(self, node, *arguments, timeout=60):
        info = node.info
        command = [PROGRAM.resolve(), "--endpoint", info.endpoint, "--key", info.key, "--nonce", info.nonce, *arguments]
        result = subprocess.run(command, stdout=subprocess.PIPE, timeout=timeout, check=False, text=True)
        return result.returncode, [json.loads(line) for line in result.stdout.splitlines()]

    def test_events_are_json_lines_that_end_with_finish(self):
        code, events = self.run_program(self.node(), "--rows", "50", "--batch-rows", "20")
        self.assertEqual(code, 0)
        names = [event["event"] for event in events]
        self.assertEqual((names[0], names[-1]), ("start", "finish"))
        end = next(event for event in events if event["event"] == "end")
        self.assertEqual((end["kind"], end["rows"], end["acked"]), ("done", 50, 50))

    def test_results_are_checked_and_printed(self):
        arguments = "--mode inference --queue predict --rows 9 --null-every 4 --check-results echo --print-results"
        code, events = self.run_program(self.node(), *arguments.split(), "--columns", "id:int64,raw:binary")
        self.assertEqual(code, 0)
        rows = [event for event in events if event["event"] == "rows"]
        self.assertEqual([event["first_row"] for event in rows], [0, 3, 6])
        raw = [b"p0r3".hex(), b"p0r4".hex(), b"p0r5".hex()]
        self.assertEqual(rows[1]["columns"], {"id": [None, 4, 5], "raw": raw})

    def test_it_dies_when_told(self):
        code, events = self.run_program(self.node(), "--rows", "50", "--batch-rows", "20", "--exit-after-rows", "20")
        self.assertEqual(code, 9)
        self.assertEqual(events[-1]["event"], "exit")

    def test_it_aborts_when_told(self):
        code, events = self.run_program(self.node(), "--rows", "50", "--batch-rows", "20", "--abort-after-rows", "20")
        self.assertEqual(code, 1)
        end = next(event for event in events if event["event"] == "end")
        self.assertEqual((end["kind"], end["code"]), ("aborted", "CANCELLED"))

    def test_a_lookup_file_leads_to_a_node_that_moved(self):
        node = self.node(break_after_rows=40)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lookup.json")

            def write():
                with open(path + ".new", "w", encoding="utf-8") as file:
                    json.dump(vars(node.info), file)
                os.replace(path + ".new", path)

            write()
            command = [PROGRAM.resolve(), "--lookup-file", path, "--rows", "100", "--batch-rows", "10"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                self.assertTrue(node.moved.wait(30))
                write()
                output = process.communicate(timeout=60)[0]
            self.assertEqual(process.returncode, 0, output)
            self.assertIn('"resume"', output)


if __name__ == "__main__":
    unittest.main()
