"""The feeder's session without sockets: what it sends when, and what it makes of answers."""

import unittest
from unittest import mock

import pyarrow as pa

import frames
import misbehave
import session as sessions
import sources

SCHEMA = sources.parse_columns("id:int64,x:float32")


class Conversation:
    """A session whose messages are collected and whose node is the test."""

    def __init__(self, mode="train", rows=30, first_row=0, **options):
        self.source = sources.NumberedRows(SCHEMA, 0, rows, 10)
        self.sent = []
        limit = sessions.RESULT_WINDOW_BYTES if mode == "inference" else 0
        reply = frames.ReplyAddress("ipc://@x", "k")
        opened = frames.Open("f", "input", mode, 0, 0, 0, "n", first_row, limit, reply)
        self.session = sessions.Session(opened, self.source, self._transmit, lambda *_, **__: None, 0.0, **options)
        self._seq = 0
        self.now = 0.0

    def _transmit(self, parts):
        frame = frames.Frame.from_parts(parts, "node")
        assert frame.seq == len(self.sent), "the feeder counts every frame"
        self.sent.append(frames.decode(frame))

    def answer(self, message, seq=None):
        frame = message.frame(self.session.id, self._seq if seq is None else seq)
        self._seq = frame.seq + 1
        self.session.on_frame(frames.Frame.from_parts(frame.parts(), "feeder"), self.now)

    def wait_until(self, now):
        self.now = now
        self.session.step(now)

    def step(self):
        self.wait_until(self.now)

    def kinds(self):
        return [type(message).__name__ for message in self.sent]

    def result(self, first_row, rows):
        self.answer(frames.Result.from_record_batch(first_row, self.source.slice(first_row, rows)))


def _served(mode="train", **options):
    talk = Conversation(mode, **options)
    talk.answer(frames.Credit(1 << 20, 0))
    talk.step()
    return talk


class SendingTest(unittest.TestCase):
    def test_only_open_is_sent_before_the_first_credit(self):
        talk = Conversation()
        talk.step()
        talk.answer(frames.Wait(1, 0))
        talk.step()
        self.assertEqual(talk.kinds(), ["Open"])

    def test_schema_batches_and_end_follow_the_first_credit(self):
        talk = _served()
        self.assertEqual(talk.kinds(), ["Open", "Schema", "Batch", "Batch", "Batch", "EndPartition"])
        self.assertEqual([batch.first_row for batch in talk.sent[2:5]], [0, 10, 20])
        self.assertEqual(talk.sent[5].end_row, 30)

    def test_a_resumed_session_begins_at_its_first_row(self):
        talk = _served(first_row=20)
        self.assertEqual(talk.sent[2].first_row, 20)
        self.assertEqual(talk.sent[3].end_row, 30)

    def test_a_partition_without_rows_needs_no_schema(self):
        self.assertEqual(_served(rows=0).kinds(), ["Open", "EndPartition"])

    def test_a_batch_goes_when_the_limit_allows_it_and_blocked_says_what_it_needs(self):
        talk = Conversation()
        talk.answer(frames.Credit(1, 0))
        talk.step()
        talk.step()
        self.assertEqual(talk.kinds(), ["Open", "Schema", "Blocked"])
        size = talk.sent[2].needed
        talk.answer(frames.Credit(size - 1, 0))
        talk.step()
        self.assertEqual(len(talk.sent), 3)
        talk.answer(frames.Credit(size, 0))
        talk.step()
        self.assertEqual(talk.kinds()[3:], ["Batch", "Blocked"])
        self.assertEqual(talk.session.sent_bytes, size)
        self.assertEqual(talk.sent[4].needed, 2 * size)
        talk.answer(frames.Credit(size, size))
        talk.step()
        self.assertEqual(len(talk.sent), 5, "what is let go is no credit by itself")

    def test_a_wait_for_credit_counts_as_progress_when_it_moves(self):
        talk = Conversation(limits=sessions.Limits(feed_timeout=10.0))
        talk.answer(frames.Credit(1, 0))
        for second in range(1, 25):
            talk.wait_until(float(second))
            talk.answer(frames.Wait(3, second if second <= 12 else 12))
        self.assertEqual(talk.session.outcome.code, "DEADLINE_EXCEEDED")


class ResultCreditTest(unittest.TestCase):
    def test_results_that_are_taken_make_room_for_more(self):
        with mock.patch.object(sessions, "RESULT_WINDOW_BYTES", 64):
            talk = _served("inference")
            self.assertEqual(talk.sent[0].result_limit, 64)
            talk.answer(frames.Schema(talk.source.schema))
            talk.result(0, 5)
            self.assertEqual(talk.sent[-1], frames.ResultCredit(talk.session.result_bytes + 64))
            talk.result(5, 5)
            self.assertEqual(talk.sent[-1], frames.ResultCredit(talk.session.result_bytes + 64))


class EndTest(unittest.TestCase):
    def _ends(self, talk, kind, code):
        self.assertIsNotNone(talk.session.outcome)
        self.assertEqual((talk.session.outcome.kind, talk.session.outcome.code), (kind, code), talk.session.outcome)

    def test_done_after_the_last_acknowledgement_ends_training(self):
        talk = _served()
        talk.answer(frames.Ack(30))
        talk.answer(frames.Done(30, 0))
        self._ends(talk, "done", "OK")

    def _revoked(self, row):
        talk = _served(tamper=misbehave.Misbehaviour("revoke", 0))
        talk.answer(frames.Ack(5))
        talk.answer(frames.Revoked(row))
        return talk

    def test_what_is_given_back_ends_the_session_once_the_rows_before_it_are_acknowledged(self):
        talk = self._revoked(20)
        self.assertIn("Revoke", talk.kinds())
        sent = len(talk.sent)
        talk.step()
        self.assertEqual(len(talk.sent), sent, "nothing follows REVOKED")
        talk.answer(frames.Ack(20))
        talk.answer(frames.Done(20, 0))
        self._ends(talk, "revoked", "OK")
        self.assertEqual((talk.session.next_row, talk.session.acked_row), (20, 20))

    def test_done_after_revoked_counts_the_rows_before_it(self):
        talk = self._revoked(20)
        talk.answer(frames.Ack(20))
        talk.answer(frames.Done(30, 0))
        self._ends(talk, "protocol", "DATA_LOSS")

    def test_revoked_that_was_not_asked_for_is_a_bad_frame(self):
        with self.assertRaises(frames.FrameError):
            _served().answer(frames.Revoked(10))

    def test_done_before_the_last_acknowledgement_is_data_loss(self):
        talk = _served()
        talk.answer(frames.Ack(20))
        talk.answer(frames.Done(30, 0))
        self._ends(talk, "protocol", "DATA_LOSS")
        self.assertEqual(talk.kinds()[-1], "Abort")

    def test_results_in_other_batches_are_put_together(self):
        talk = _served("inference")
        talk.answer(frames.Schema(SCHEMA))
        for first_row, rows in ((0, 7), (7, 22), (29, 1)):
            talk.result(first_row, rows)
        talk.answer(frames.Done(30, 30))
        self._ends(talk, "done", "OK")
        expected = pa.Table.from_batches([talk.source.slice(0, 30)])
        self.assertTrue(pa.Table.from_batches(talk.session.results).equals(expected))

    def test_a_gap_an_overlap_and_missing_results_are_data_loss(self):
        for rows in ([(1, 5)], [(0, 5), (4, 6)], [(0, 30), (30, 1)], [(0, 29)]):
            talk = _served("inference")
            talk.answer(frames.Schema(SCHEMA))
            for first_row, count in rows:
                talk.result(first_row, count)
            talk.answer(frames.Done(30, 30))
            self._ends(talk, "protocol", "DATA_LOSS")

    def test_a_gap_and_a_repetition_in_seq_are_data_loss(self):
        for seq in (0, 2):
            talk = _served()
            talk.answer(frames.Received(10), seq=seq)
            self._ends(talk, "protocol", "DATA_LOSS")

    def test_credit_never_falls(self):
        talk = _served()
        talk.answer(frames.Credit((1 << 20) - 1, 0))
        self._ends(talk, "protocol", "INTERNAL")

    def test_acknowledgements_of_rows_that_were_not_sent_are_refused(self):
        for message in (frames.Ack(31), frames.Received(31)):
            talk = _served()
            talk.answer(message)
            self._ends(talk, "protocol", "INTERNAL")

    def test_a_result_in_training_is_refused(self):
        talk = _served()
        talk.result(0, 1)
        self._ends(talk, "protocol", "INTERNAL")

    def test_errors_and_termination_come_from_the_node(self):
        talk = Conversation()
        talk.answer(frames.Error("NOT_FOUND", "no queue"))
        self._ends(talk, "error", "NOT_FOUND")
        talk = _served()
        talk.answer(frames.Terminated("stopped"))
        self._ends(talk, "terminated", "OK")

    def test_no_answer_within_5_seconds_is_unavailable(self):
        talk = Conversation()
        talk.wait_until(4.9)
        self.assertIsNone(talk.session.outcome)
        talk.wait_until(5.0)
        self._ends(talk, "unavailable", "UNAVAILABLE")

    def test_a_false_login_in_the_nodes_name_leaves_it_half_a_second(self):
        talk = Conversation()
        for now in (1.0, 1.4):
            talk.session.on_false_login(now)
        talk.wait_until(1.45)
        self.assertIsNone(talk.session.outcome)
        talk.wait_until(1.5)
        self._ends(talk, "unproven", "UNAUTHENTICATED")
        self.assertIn("wrong password", talk.session.outcome.message)

    def test_a_strangers_login_does_not_hurry_a_node_that_has_proven_itself(self):
        for own_first in (True, False):
            talk = Conversation()
            talk.session.proven = own_first
            talk.session.on_false_login(1.0)
            talk.session.proven = True
            talk.wait_until(4.9)
            self.assertIsNone(talk.session.outcome)
            talk.wait_until(5.0)
            self._ends(talk, "unavailable", "UNAVAILABLE")

    def test_a_refused_handshake_is_unauthenticated_at_once(self):
        talk = Conversation()
        talk.session.on_connection("refused", 0.0)
        self._ends(talk, "refused", "UNAUTHENTICATED")

    def test_only_a_wait_that_counts_is_progress(self):
        limits = sessions.Limits(feed_timeout=10.0)
        talk = Conversation(limits=limits)
        for now, wait in ((4, (3, 0)), (8, (3, 0)), (12, (3, 1)), (20, (2, 1))):
            talk.wait_until(now)
            talk.answer(frames.Wait(*wait))
            self.assertIsNone(talk.session.outcome)
        for now in (24, 29.9):
            talk.wait_until(now)
            talk.answer(frames.Wait(2, 1))
        self.assertIsNone(talk.session.outcome)
        talk.wait_until(30)
        self._ends(talk, "timeout", "DEADLINE_EXCEEDED")


if __name__ == "__main__":
    unittest.main()
