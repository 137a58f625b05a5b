"""One session of the feed protocol as the feeder sees it: sections 4 and 5 of the page.

A Session is a state machine without sockets: the owner hands it frames, events of the connection and
the time, and it sends through a function.  Single-threaded; nothing blocks.
"""

import dataclasses
import secrets

import pyarrow as pa

import frames
import misbehave

OPEN_TIMEOUT_SECONDS = 5.0
FALSE_LOGIN_SECONDS = 0.5
# A node may close its connection right after DONE, which travels on another connection.
LOST_GRACE_SECONDS = 0.25
BATCHES_PER_STEP = 16
# What the node may send of results ahead of those that were taken; OPEN says it first.
RESULT_WINDOW_BYTES = 64 << 10


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a session or a feed ended.

    kind: "done", "revoked" (what is left is to be fed elsewhere), "terminated", "error" (the node's ERROR),
    "protocol" (the node broke the rules), "refused" (handshake), "unproven" (not the node), "unavailable"
    (no answer), "lost" (connection), "timeout" (no progress), "aborted" (by this side) or "failed" (the
    coordinator says so). code: a gRPC status code's name.
    """

    kind: str
    code: str
    message: str

    @property
    def ok(self):
        return self.kind in ("done", "revoked", "terminated")


class ProtocolError(Exception):
    """The node broke the rules in this session only."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


@dataclasses.dataclass
class Limits:
    """What a session stops for; rows count from the partition's first. None: never."""

    feed_timeout: float = 600.0
    pause_after_rows: int | None = None
    pause_seconds: float = 0.0
    abort_after_rows: int | None = None
    exit_after_rows: int | None = None


class Session:
    """Sends one partition from `open_message.first_row` on and takes what comes back.

    `source.schema` is a pyarrow schema, `source.batch(row)` the record batch that begins at a row or
    None at the end; `transmit(parts)` sends a message; `emit(event, **fields)` reports.
    """

    def __init__(self, open_message, source, transmit, emit, now, limits=None, tamper=None):
        self.id = secrets.randbits(64) or 1
        self.open_message = open_message
        self.outcome = None
        self.accepted = False
        self.limit = 0
        self.released = 0
        self.sent_bytes = 0
        self.needed = 0  # of the last BLOCKED
        self.next_row = open_message.first_row
        self.received_row = open_message.first_row
        self.acked_row = open_message.first_row
        self.result_row = open_message.first_row
        self.results = []
        self.result_bytes = 0
        self.result_limit = open_message.result_limit
        self.end_row = None
        self.revoked_row = None  # the node has given back what follows
        self.waited = False
        self.proven = False  # the node has shown that it is the node
        self.server = ""  # where somebody has taken the feeder's login
        self._source = source
        self._transmit = transmit
        self._emit = emit
        self._limits = limits or Limits()
        self._tamper = tamper or misbehave.Misbehaviour()
        self._next_seq = 0
        self._expected_seq = 0
        self._schema_sent = False
        self._pending = None
        self._result_schema = None
        self._wait = None
        self._opened_at = now
        self._false_login_at = None
        self._progress_at = now
        self._lost_at = None
        self._paused_until = None
        self._start()

    @property
    def inference(self):
        return self.open_message.mode == "inference"

    # --- sending ----------------------------------------------------------------------------------

    def _send(self, message):
        frame = message.frame(self.id, self._next_seq)
        messages, seq_step = self._tamper.messages(frame)
        self._next_seq += seq_step
        for parts in messages:
            self._transmit(parts)

    def _start(self):
        self._emit("open", first_row=self.open_message.first_row, mode=self.open_message.mode)
        self._send(self.open_message)

    def step(self, now):
        """Sends what credit allows and looks at the deadlines."""
        if self.outcome:
            return
        if self._lost_at is not None and now - self._lost_at >= LOST_GRACE_SECONDS:
            self._end("lost", "UNAVAILABLE", "the connection to the node is lost")
            return
        if not self.accepted and not self.waited and now >= self._answer_by:
            if self._false_login_at is not None and not self.proven:
                text = "a process logged in to this feeder's reply endpoint in the node's name with a wrong password"
                self._end("unproven", "UNAUTHENTICATED", f"{text}; {self.server or 'the node'} was sent no row")
            elif self.server and not self.proven:
                text = f"whoever listens at {self.server} did not prove within 5 s that it is the node"
                self._end("unproven", "UNAUTHENTICATED", text)
            else:
                self._end("unavailable", "UNAVAILABLE", "no CREDIT, WAIT or ERROR within 5 s")
            return
        if now - self._progress_at >= self._limits.feed_timeout:
            self.abort("DEADLINE_EXCEEDED", f"no progress in {self._limits.feed_timeout} s", "timeout")
            return
        for _ in range(BATCHES_PER_STEP):
            if self.outcome or not self._send_next(now):
                return

    @property
    def _answer_by(self):
        by = self._opened_at + OPEN_TIMEOUT_SECONDS
        if self._false_login_at is None or self.proven:
            return by
        return min(by, self._false_login_at + FALSE_LOGIN_SECONDS)

    @property
    def can_send(self):
        """True when step() would send something at once."""
        return not self.outcome and self._paused_until is None and self._ready() is not None

    def _ready(self):
        """The next message that may be sent now, None when there is none."""
        if self.end_row is not None or self.revoked_row is not None:
            return None
        if not (self.accepted or self._tamper.ignores_acceptance):
            return None
        if self._pending is None:
            record_batch = self._source.batch(self.next_row)
            if record_batch is None:
                return frames.EndPartition(self._tamper.end_row(self.next_row))
            if self._tamper.exceeds_credit:
                record_batch = self._beyond_credit(record_batch)
            cuts = self._tamper.cuts(self._source.cuts)
            self._pending = frames.Batch.from_record_batch(self.next_row, record_batch, cuts)
        if not self._schema_sent:
            return frames.Schema(self._source.schema)
        needed = self.sent_bytes + self._pending.frame(self.id, 0).credit_bytes
        if needed <= self.limit or self._tamper.ignores_credit:
            return self._pending
        return frames.Blocked(needed) if needed != self.needed else None

    def _beyond_credit(self, record_batch):
        """The same rows again and again, until they are more than may be sent."""
        left = self.limit - self.sent_bytes
        times = 1 + left // max(1, record_batch.nbytes)
        return pa.Table.from_batches([record_batch] * times).combine_chunks().to_batches()[0]

    def _send_next(self, now):
        if self._paused_until is not None:
            if now < self._paused_until:
                return False
            self._paused_until = None
            self._limits.pause_after_rows = None
        message = self._ready()
        if message is None:
            return False
        if isinstance(message, frames.EndPartition):
            self.end_row = self.next_row
            self._emit("end_partition", row=self.end_row)
        elif isinstance(message, frames.Schema):
            self._schema_sent = True
        elif isinstance(message, frames.Blocked):
            self.needed = message.needed
            self._emit("blocked", needed=message.needed)
        else:
            self._pending = None
            self.sent_bytes += message.frame(self.id, 0).credit_bytes
            self.next_row += message.rows
        self._send(message)
        if isinstance(message, frames.Batch):
            self._emit("sent", row=self.next_row, bytes=self.sent_bytes)
            self._stop_for_test(now)
        return True

    def _stop_for_test(self, now):
        def reached(row):
            return row is not None and self.next_row >= row

        if reached(self._limits.exit_after_rows):
            self._emit("exit", row=self.next_row)
            misbehave.exit_at_once()
        if reached(self._limits.abort_after_rows):
            self.abort("CANCELLED", f"aborted after {self.next_row} rows", "aborted")
        if reached(self._limits.pause_after_rows):
            self._paused_until = now + self._limits.pause_seconds

    def abort(self, code, message, kind="aborted"):
        """Ends the session from this side."""
        if not self.outcome:
            self._send(frames.Abort(code, message))
            self._end(kind, code, message)

    def _end(self, kind, code, message):
        self.outcome = Outcome(kind, code, message)
        self._emit("session_end", kind=kind, code=code, message=message)

    # --- receiving --------------------------------------------------------------------------------

    def on_connection(self, state, now):
        """`state` is a final one of Outbox.state."""
        if self.outcome or self._lost_at is not None:
            return
        if state == "refused":
            self._end("refused", "UNAUTHENTICATED", "the node refused the handshake")
        elif state == "unreachable":
            self._end("unavailable", "UNAVAILABLE", "the node's endpoint cannot be reached")
        else:
            self._lost_at = now

    def on_false_login(self, now):
        """A login in the node's name with a wrong password: a stranger's, so the node's own is waited for a moment."""
        if self._false_login_at is None:
            self._false_login_at = now

    def on_bad_peer(self, code, message):
        """The node's principal is poisoned."""
        if not self.outcome:
            self._end("protocol", code, message)

    def on_frame(self, frame, now):
        """A frame of this session that Frame.from_parts accepted. Raises frames.FrameError."""
        if self.outcome:
            return
        if frame.seq != self._expected_seq and not self._tamper.breaks_answer_seq:
            text = f"frame {frame.seq} where {self._expected_seq} was expected"
            self.abort("DATA_LOSS", text, "protocol")
            return
        self._expected_seq = frame.seq + 1
        message = frames.decode(frame)
        try:
            if message is not None:
                self._handle(message, now, frame.credit_bytes)
        except ProtocolError as error:
            self.abort(error.code, str(error), "protocol")

    def _handle(self, message, now, size):
        handlers = {
            frames.Credit: self._on_credit,
            frames.Received: self._on_received,
            frames.Ack: self._on_ack,
            frames.Wait: self._on_wait,
            frames.Revoked: self._on_revoked,
            frames.Schema: self._on_schema,
        }
        if isinstance(message, frames.Error):
            self._end("error", message.code, message.message)
        elif isinstance(message, frames.Terminated):
            self._end("terminated", "OK", message.message)
        elif isinstance(message, frames.Done):
            self._on_done(message)
        elif isinstance(message, frames.Result):
            self._on_result(message, now, size)
        else:
            handlers[type(message)](message, now)

    def _on_credit(self, message, now):
        if message.limit < self.limit or message.released < self.released:
            raise ProtocolError("INTERNAL", "CREDIT fell")
        if message.released > self.sent_bytes:
            raise ProtocolError("INTERNAL", f"released {message.released} of {self.sent_bytes} bytes sent")
        if not self.accepted or self.limit < self.needed <= message.limit:
            self._progress_at = now  # its turn has come
        self.limit, self.released = message.limit, message.released
        self.accepted = True
        self._emit("credit", limit=self.limit, released=self.released)

    def _checked_row(self, row, before, name):
        if not before <= row <= self.next_row:
            raise ProtocolError("INTERNAL", f"{name}({row}) after {name}({before}), {self.next_row} rows sent")
        return row

    def _on_received(self, message, now):
        if self._checked_row(message.row, self.received_row, "RECEIVED") > self.received_row:
            self._progress_at = now
        self.received_row = message.row
        self._emit("received", row=message.row)

    def _on_ack(self, message, now):
        if self._checked_row(message.row, self.acked_row, "ACK") > self.acked_row:
            self._progress_at = now
        self.acked_row = message.row
        self._emit("ack", row=message.row)

    def _on_revoked(self, message, now):
        if not self._tamper.revokes or self.revoked_row is not None:
            raise frames.FrameError("order", "REVOKED without REVOKE")
        self.next_row = self._checked_row(message.row, self.acked_row, "REVOKED")
        self.received_row = min(self.received_row, self.next_row)
        self.revoked_row = self.next_row
        self._progress_at = now
        self._emit("revoked", row=message.row)

    def _on_wait(self, message, now):
        before = self._wait
        if before is None or message.position < before.position or message.progress > before.progress:
            self._progress_at = now
        self._wait = message
        self.waited = True
        self._emit("wait", position=message.position, progress=message.progress)

    def _on_schema(self, message, _now):
        if not self.inference or self._result_schema is not None:
            raise ProtocolError("INTERNAL", "a SCHEMA that has no place here")
        self._result_schema = message.schema
        self._emit("result_schema", fields=[f"{field.name}: {field.type}" for field in message.schema])

    def _on_result(self, message, now, size):
        if not self.inference or self._result_schema is None:
            raise ProtocolError("INTERNAL", "a RESULT that has no place here")
        if self.result_bytes >= self.result_limit:
            raise frames.FrameError("result_credit", f"a RESULT after {self.result_bytes} of {self.result_limit} bytes")
        if message.first_row != self.result_row:
            kind = "gap" if message.first_row > self.result_row else "overlap"
            raise ProtocolError("DATA_LOSS", f"{kind}: results from row {message.first_row} after {self.result_row}")
        if message.first_row + message.rows > self.next_row:
            end = message.first_row + message.rows
            raise ProtocolError("DATA_LOSS", f"results up to row {end}, {self.next_row} sent")
        self.results.append(message.record_batch(self._result_schema))
        self.result_row += message.rows
        self.result_bytes += size
        if self.result_bytes + RESULT_WINDOW_BYTES - self.result_limit >= RESULT_WINDOW_BYTES // 4:
            self.result_limit = self.result_bytes + RESULT_WINDOW_BYTES
            self._send(frames.ResultCredit(self.result_limit))
        self._progress_at = now
        self._emit("result", first_row=message.first_row, rows=message.rows)

    def _on_done(self, message):
        if self.revoked_row is not None:
            self._on_done_of_revoked(message)
            return
        if self.end_row is None:
            raise ProtocolError("DATA_LOSS", "DONE before END_PARTITION")
        last, name = (self.result_row, "results") if self.inference else (self.acked_row, "acknowledgements")
        if last != self.end_row:
            raise ProtocolError("DATA_LOSS", f"DONE with {name} up to row {last} of {self.end_row}")
        rows_in = self.end_row - self.open_message.first_row
        rows_out = rows_in if self.inference else 0
        if (message.rows_in, message.rows_out) != (rows_in, rows_out):
            text = f"DONE({message.rows_in}, {message.rows_out}) where ({rows_in}, {rows_out}) is right"
            raise ProtocolError("DATA_LOSS", text)
        self._end("done", "OK", f"{message.rows_in} rows in, {message.rows_out} rows out")

    def _on_done_of_revoked(self, message):
        rows_in = self.revoked_row - self.open_message.first_row
        if self.acked_row != self.revoked_row or (message.rows_in, message.rows_out) != (rows_in, 0):
            before = f"REVOKED({self.revoked_row}) and ACK({self.acked_row})"
            text = f"DONE({message.rows_in}, {message.rows_out}) after {before}"
            raise ProtocolError("DATA_LOSS", text)
        self._end("revoked", "OK", f"{rows_in} rows in, given back from row {self.revoked_row} on")
