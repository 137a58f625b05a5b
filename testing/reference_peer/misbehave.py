"""Ways for the reference feeder to break the protocol, for tests of what a node makes of it.

A Misbehaviour with kind "" does nothing.  The others act once: on OPEN, on END_PARTITION, or on
BATCH number `at` (from 0) of the session.
"""

import os
import re
import struct

import arrow_body
import frames

# kind: what it does. The first four are done by whoever opens the session.
KINDS = {
    "wrong-key": "connects with another key: UNAUTHENTICATED",
    "wrong-nonce": "OPEN names another node attempt: FAILED_PRECONDITION",
    "wrong-reply-endpoint": "OPEN names a reply endpoint that nobody serves: no answer",
    "wrong-challenge": "OPEN names another challenge than this feeder's: no login that this feeder takes",
    "duplicate-session": "sends OPEN twice with one session id: ALREADY_EXISTS",
    "bad-open": "OPEN with JSON that ends too early: bad frame, and nobody to answer",
    "open-mode": "OPEN with the mode predict: INVALID_ARGUMENT",
    "open-partition": "OPEN with a text for the partition: INVALID_ARGUMENT",
    "send-before-credit": "SCHEMA and batches follow OPEN at once, while another session has its turn: bad frame",
    "exceed-credit": "a batch of more than the limit allows, without BLOCKED: bad frame",
    "skip-seq": "leaves out one seq: DATA_LOSS",
    "repeat-seq": "uses a seq twice: DATA_LOSS",
    "bad-magic": "magic XXXX: bad frame",
    "bad-version": "version 255: UNIMPLEMENTED",
    "old-version": "version 1: UNIMPLEMENTED",
    "unknown-type": "type 200 before a batch: bad frame",
    "optional-type": "type 200 with OPTIONAL before a batch, which is allowed: ignored",
    "revoke": "REVOKE after a batch, which is allowed: what the node gives back, if it does, is fed in another session",
    "session-0": "header with session 0: bad frame",
    "long-metadata-length": "metadata_length one too great: bad frame",
    "cut-buffer": "body cut into parts inside a buffer: bad frame",
    "short-body": "the body's second half is missing: bad frame",
    "huge-length": "a column of 2^61 + 1 rows: bad frame",
    "huge-buffer": "a buffer of 2^60 bytes: bad frame",
    "garbage-batch": "0xFF instead of the flatbuffer: bad frame",
    "row-gap": "leaves out a row",
    "second-schema": "SCHEMA again before a batch",
    "credit-frame": "a CREDIT to the node: bad frame",
    "wrong-end-row": "END_PARTITION names one row too many",
}

# How a feed that misbehaves has to end: kind and code of its outcome. Of those that are not answered, by the 5 s of
# section 4.
EXPECTED = {
    "wrong-reply-endpoint": "unproven UNAUTHENTICATED",
    "wrong-challenge": "unproven UNAUTHENTICATED",
    "bad-open": "unproven UNAUTHENTICATED",
    "send-before-credit": "error INVALID_ARGUMENT",
    "exceed-credit": "error INVALID_ARGUMENT",
    "wrong-key": "refused UNAUTHENTICATED",
    "wrong-nonce": "error FAILED_PRECONDITION",
    "duplicate-session": "error ALREADY_EXISTS",
    "skip-seq": "error DATA_LOSS",
    "repeat-seq": "error DATA_LOSS",
    "bad-magic": "error INVALID_ARGUMENT",
    "open-mode": "error INVALID_ARGUMENT",
    "open-partition": "error INVALID_ARGUMENT",
    "bad-version": "error UNIMPLEMENTED",
    "old-version": "error UNIMPLEMENTED",
    "unknown-type": "error INVALID_ARGUMENT",
    "optional-type": "done OK",
    "revoke": "done OK",
    "session-0": "error INVALID_ARGUMENT",
    "long-metadata-length": "error INVALID_ARGUMENT",
    "cut-buffer": "error INVALID_ARGUMENT",
    "short-body": "error INVALID_ARGUMENT",
    "huge-length": "error INVALID_ARGUMENT",
    "huge-buffer": "error INVALID_ARGUMENT",
    "garbage-batch": "error INVALID_ARGUMENT",
    "row-gap": "error DATA_LOSS",
    "second-schema": "error INVALID_ARGUMENT",
    "credit-frame": "error INVALID_ARGUMENT",
    "wrong-end-row": "error DATA_LOSS",
}

# These are about the logins of PLAIN: with CURVE there is nothing of it to break.
PLAIN_ONLY = ("wrong-key", "wrong-challenge")

OTHER_KEY = "0" * 64


def exit_at_once():
    """Ends the process as SIGKILL would: no atexit, no closing of sockets."""
    os._exit(9)


def _patch_first(frame, entry_position, value):
    """The frame with an i64 of its RecordBatch message overwritten."""
    metadata = bytearray(frame.metadata)
    struct.pack_into("<q", metadata, 16 + entry_position, value)
    frame.metadata = bytes(metadata)
    return [frame.parts()]


class Misbehaviour:
    """Changes the frames of one session; see KINDS."""

    def __init__(self, kind="", at=0):
        if kind and kind not in KINDS:
            raise ValueError(f"unknown misbehaviour {kind}; there are: {', '.join(KINDS)}")
        self.kind = kind
        self._at = at
        self._batches = 0

    @property
    def ignores_acceptance(self):
        return self.kind == "send-before-credit"

    @property
    def ignores_credit(self):
        return self.kind == "send-before-credit" or self.exceeds_credit

    @property
    def exceeds_credit(self):
        """Whether the next batch has to be larger than the credit."""
        return self.kind == "exceed-credit" and self._batches == self._at

    @property
    def revokes(self):
        return self.kind == "revoke"

    @property
    def breaks_answer_seq(self):
        """Two sessions with one id may be answered in one sequence or in two."""
        return self.kind == "duplicate-session"

    def end_row(self, row):
        return row + 1 if self.kind == "wrong-end-row" else row

    def cuts(self, cuts):
        return () if self.kind in ("cut-buffer", "short-body") else cuts

    def messages(self, frame):
        """(messages to send instead of `frame`, how many seqs they use)."""
        if not self.kind:
            return [frame.parts()], 1
        if frame.type == frames.FrameType.OPEN:
            return self._open(frame)
        if frame.type == frames.FrameType.BATCH:
            number = self._batches
            self._batches += 1
            if number == self._at:
                return self._batch(frame)
        return [frame.parts()], 1

    def _open(self, frame):
        if self.kind == "duplicate-session":
            return [frame.parts(), frame.parts()], 1
        if self.kind == "bad-open":
            frame.metadata = frame.metadata[:-1]
        elif self.kind == "open-mode":
            frame.metadata = re.sub(rb'"mode":"[a-z]+"', b'"mode":"predict"', frame.metadata)
        elif self.kind == "open-partition":
            frame.metadata = re.sub(rb'"partition":([0-9]+)', rb'"partition":"\1"', frame.metadata)
        return [frame.parts()], 1

    def _batch(self, frame):
        make = getattr(self, "_" + self.kind.replace("-", "_"), None)
        if make is None:
            return [frame.parts()], 1
        result = make(frame)
        return result if isinstance(result, tuple) else (result, 1)

    @staticmethod
    def _behind(frame, first):
        """`first`, a frame with the same seq, then the batch one seq later."""
        frame.seq += 1
        return [first.parts(), frame.parts()], 2

    @staticmethod
    def _skip_seq(frame):
        frame.seq += 1
        return [frame.parts()], 2

    @staticmethod
    def _repeat_seq(frame):
        frame.seq -= 1
        return [frame.parts()], 1

    @staticmethod
    def _bad_magic(frame):
        parts = frame.parts()
        return [[b"XXXX" + parts[0][4:], *parts[1:]]]

    @staticmethod
    def _bad_version(frame):
        frame.version = 255
        return [frame.parts()]

    @staticmethod
    def _old_version(frame):
        frame.version = 1
        return [frame.parts()]

    def _unknown_type(self, frame):
        return self._behind(frame, frames.Frame(200, frame.session, frame.seq))

    def _optional_type(self, frame):
        extra = frames.Frame(200, frame.session, frame.seq, b"later", flags=frames.FLAG_OPTIONAL)
        return self._behind(frame, extra)

    @staticmethod
    def _revoke(frame):
        return [frame.parts(), frames.Revoke(2**63 - 1).frame(frame.session, frame.seq + 1).parts()], 2

    @staticmethod
    def _session_0(frame):
        frame.session = 0
        return [frame.parts()]

    @staticmethod
    def _long_metadata_length(frame):
        parts = frame.parts()
        header = parts[0][:24] + struct.pack("<I", len(frame.metadata) + 1) + parts[0][28:]
        return [[header, *parts[1:]]]

    @staticmethod
    def _cut_buffer(frame):
        layout = arrow_body.parse_layout(frame.metadata[16:])
        longest = max(layout.buffers, key=lambda entry: entry.length)
        body = frame.body[0]
        at = longest.offset + longest.length // 2
        frame.body = [body[:at], body[at:]]
        return [frame.parts()]

    @staticmethod
    def _short_body(frame):
        body = frame.body[0]
        frame.body = [body[: len(body) // 2]]
        return [frame.parts()]

    @staticmethod
    def _huge_length(frame):
        return _patch_first(frame, arrow_body.parse_layout(frame.metadata[16:]).nodes[0].position, 2**61 + 1)

    @staticmethod
    def _huge_buffer(frame):
        layout = arrow_body.parse_layout(frame.metadata[16:])
        longest = max(layout.buffers, key=lambda entry: entry.length)
        return _patch_first(frame, longest.position + 8, 2**60)

    @staticmethod
    def _garbage_batch(frame):
        frame.metadata = frame.metadata[:24] + b"\xff" * (len(frame.metadata) - 24)
        return [frame.parts()]

    @staticmethod
    def _row_gap(frame):
        first_row = struct.unpack_from("<Q", frame.metadata)[0]
        frame.metadata = struct.pack("<Q", first_row + 1) + frame.metadata[8:]
        return [frame.parts()]

    def _second_schema(self, frame):
        message = arrow_body.write_schema(arrow_body.pa.schema([]))
        return self._behind(frame, frames.Frame(frames.FrameType.SCHEMA, frame.session, frame.seq, message))

    def _credit_frame(self, frame):
        return self._behind(frame, frames.Credit(1 << 40, 0).frame(frame.session, frame.seq))
