"""The node's side of the feed protocol, small: what the reference feeder is tested against.

  with NodeStub() as node:
      node.info                       # what a lookup of it would say
      node.rows("input")              # the rows that its "program" has taken

It speaks sections 1 to 8 with two queues, "input" and "predict".  Its "program" takes every batch at
once: training rows are kept, inference rows are echoed in results of `result_rows` rows.  The node
lives on its own thread; the methods below may be called from any other.
"""

import dataclasses
import re
import secrets
import threading
import time

import pyarrow as pa
import zmq

import frames
import logins
import sockets
from feeder import NodeInfo

QUEUES = ("input", "predict")
WAIT_INTERVAL_SECONDS = 1.0
_REPLY_ENDPOINT = re.compile(r"tcp://127\.0\.0\.1:\d{1,5}|ipc://@millrace-[A-Za-z0-9-]+")


class _SessionError(Exception):
    """Ends one session with an ERROR."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


@dataclasses.dataclass
class _NodeSession:
    """What the node knows of one session."""

    id: int
    principal: str
    open_message: frames.Open
    outbox: sockets.Outbox
    next_seq: int = 0
    expected_seq: int = 1
    accepted: bool = False
    schema: pa.Schema | None = None
    next_row: int = 0
    end_row: int | None = None
    revoked: bool = False
    sent_bytes: int = 0
    limit: int = 0
    needed: int = 0  # of the last BLOCKED
    rows_out: int = 0
    results: list = dataclasses.field(default_factory=list)  # that wait for credit
    result_bytes: int = 0
    result_limit: int = 0
    results_begun: bool = False
    unsent: list = dataclasses.field(default_factory=list)
    waited_at: float = 0.0
    connection: int | None = None  # that its frames come over

    @property
    def released_bytes(self):
        return self.sent_bytes - sum(size for _, _, size in self.unsent)

    @property
    def held_bytes(self):
        """What the node holds of it, and what it may still send."""
        may_send = self.limit - self.sent_bytes if self.end_row is None else 0
        return self.sent_bytes - self.released_bytes + may_send


class NodeStub:
    """A node attempt. `budget_bytes` is what its sessions may hold and send, all of them together."""

    def __init__(
        self,
        budget_bytes=1 << 20,
        result_rows=3,
        break_after_rows=None,
        terminate_after_rows=None,
        nonce=None,
        curve_host=None,
    ):
        self.nonce = nonce or secrets.token_hex(8)
        self.log = []  # (session, text) of every ERROR sent, newest last
        self.moved = threading.Event()  # set once the connections were broken and `info` is new
        self._budget_bytes = budget_bytes
        self._blocked = []  # sessions that wait for credit, the first one longest
        self._result_rows = result_rows
        self._break_after_rows = break_after_rows
        self._terminate_after_rows = terminate_after_rows
        self._taken = {queue: [] for queue in QUEUES}
        self._rows_seen = 0
        self._schemas = {}  # feed id: schema
        self._sessions = {}
        self._outboxes = {}
        self._broken_outboxes = []
        self._hold = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._context = zmq.Context()
        self.curve_keys = sockets.new_curve_keys()
        self._key = sockets.new_key()
        self._inbox = sockets.Inbox(self._context, logins.FeederLogins(self._key).accept, "feeder", self.curve_keys)
        if curve_host is not None:
            self._inbox.bind_curve(curve_host)
        self._info = self._make_info()
        self._progress = 0
        self._thread = threading.Thread(target=self._run, name="node-stub")

    # --- any thread -------------------------------------------------------------------------------

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    @property
    def info(self):
        with self._lock:
            return self._info

    @property
    def tcp_info(self):
        """As `info`, with the TCP endpoint."""
        return dataclasses.replace(self.info, endpoint=self._inbox.tcp_endpoint)

    def lookup(self):
        return self.info

    def announce(self, principal, curve_key):
        """What the coordinator pushes: this feeder may come over CURVE."""
        self._inbox.admitted[curve_key] = principal

    def hold(self, held):
        """While held the program takes no batch: train sessions get no credit back."""
        self._hold.set() if held else self._hold.clear()

    def rows(self, queue):
        """All rows taken so far, as (partition, first row, record batch)."""
        with self._lock:
            return list(self._taken[queue])

    # --- the node's thread ------------------------------------------------------------------------

    def _make_info(self):
        return NodeInfo(
            "running",
            self._inbox.ipc_endpoint,
            self._key,
            self.nonce,
            curve=self._inbox.curve_endpoint,
            curve_key=self.curve_keys.public if self._inbox.curve_endpoint else "",
        )

    def _run(self):
        while not self._stop.is_set():
            poller = zmq.Poller()
            for socket in self._inbox.pollables():
                poller.register(socket, zmq.POLLIN)
            poller.poll(20)
            lost = self._inbox.take_lost()  # what came over them before still counts
            while (received := self._inbox.receive()) is not None:
                self._take(*received)
            for session in [s for s in self._sessions.values() if s.connection in lost]:
                del self._sessions[session.id]
            for outbox in self._outboxes.values():
                outbox.update()
            for session in [s for s in self._sessions.values() if s.outbox.broken]:
                del self._sessions[session.id]
            self._serve()
            self._grant()
        for outbox in [*self._outboxes.values(), *self._broken_outboxes]:
            outbox.close()
        self._inbox.close()
        self._context.term()

    def _take(self, principal, parts):
        try:
            frame = frames.Frame.from_parts(parts, "node")
            if frame.type == frames.FrameType.OPEN:
                self._on_open(principal, frame)
                return
            session = self._sessions.get(frame.session)
            if session is None or session.principal != principal:
                return
            self._in_session(session, frame)
        except frames.FrameError as error:
            if error.outcome == "refused":
                self._refuse(principal, frame, error)
            else:
                self._on_bad_frame(principal, error)

    def _refuse(self, principal, frame, error):
        """An OPEN with a mistake, whose sender can be told."""
        if self._may_reply_to(error.reply):
            session = _NodeSession(frame.session, principal, None, self._outbox(principal, error.reply))
            self._send(session, frames.Error("INVALID_ARGUMENT", str(error)))
            self.log.append((frame.session, f"INVALID_ARGUMENT: {error}"))

    def _on_bad_frame(self, principal, error):
        session = self._sessions.get(error.session)
        if error.outcome == "unimplemented":
            if session is not None and session.principal == principal:
                self._fail(session, "UNIMPLEMENTED", str(error))
            return
        self._inbox.poisoned.add(principal)
        for session in [s for s in self._sessions.values() if s.principal == principal]:
            self._fail(session, "INVALID_ARGUMENT", str(error))

    def _send(self, session, message):
        session.outbox.send(message.frame(session.id, session.next_seq).parts())
        session.next_seq += 1

    def _fail(self, session, code, text):
        self._send(session, frames.Error(code, text))
        self.log.append((session.id, f"{code}: {text}"))
        self._sessions.pop(session.id, None)

    def _outbox(self, feeder, reply):
        outbox = self._outboxes.get(reply.endpoint)
        if outbox is None or outbox.broken:
            if outbox is not None:
                self._broken_outboxes.append(outbox)  # sessions may still name it
            curve = (self.curve_keys, reply.curve_key) if reply.curve_key else None
            node = f"node/{self.nonce}"
            password = logins.node_password(self._key, reply.challenge, feeder, node)
            outbox = sockets.Outbox(self._context, reply.endpoint, node, password, curve)
            self._outboxes[reply.endpoint] = outbox
        return outbox

    def _may_reply_to(self, reply):
        """Over CURVE only to a CURVE server, otherwise only to this host."""
        if self._inbox.over_curve:
            return bool(reply.curve_key) and reply.endpoint.startswith("tcp://")
        return not reply.curve_key and bool(_REPLY_ENDPOINT.fullmatch(reply.endpoint))

    def _on_open(self, principal, frame):
        message = frames.decode(frame)
        if not self._may_reply_to(message.reply):
            return
        open_already = self._sessions.get(frame.session)
        if open_already is not None and open_already.principal == principal:
            self._fail(open_already, "ALREADY_EXISTS", f"session {frame.session:016x} is open already")
            return
        session = _NodeSession(frame.session, principal, message, self._outbox(principal, message.reply))
        session.next_row = message.first_row
        session.result_limit = message.result_limit
        session.connection = self._inbox.connection
        if open_already is not None:
            self._send(session, frames.Error("ALREADY_EXISTS", f"session {frame.session:016x} is open already"))
            return
        self._sessions[session.id] = session
        if frame.seq != 0:
            self._fail(session, "DATA_LOSS", f"OPEN with seq {frame.seq}")
        elif message.node_nonce != self.nonce:
            self._fail(session, "FAILED_PRECONDITION", f"this is node attempt {self.nonce}, not {message.node_nonce}")
        elif message.queue not in QUEUES:
            self._fail(session, "NOT_FOUND", f"no queue {message.queue!r}; there are: {', '.join(QUEUES)}")

    def _in_session(self, session, frame):
        if frame.seq != session.expected_seq:
            self._fail(session, "DATA_LOSS", f"frame {frame.seq} where {session.expected_seq} was expected")
            return
        session.expected_seq += 1
        try:
            message = frames.decode(frame)
        except frames.FrameError as error:
            if error.outcome != "unsupported":
                raise
            self._fail(session, "INVALID_ARGUMENT", str(error))
            return
        if message is None:
            return
        try:
            if isinstance(message, frames.Abort):
                del self._sessions[session.id]
            elif session.revoked:
                pass  # it was under way
            elif not session.accepted:
                raise frames.FrameError("order", "only OPEN may be sent before the first CREDIT")
            elif isinstance(message, frames.Schema):
                self._on_schema(session, message)
            elif isinstance(message, frames.Batch):
                self._on_batch(session, message, frame.credit_bytes)
            elif isinstance(message, frames.Blocked):
                self._on_blocked(session, message)
            elif isinstance(message, frames.ResultCredit):
                if message.limit < session.result_limit:
                    raise frames.FrameError("credit", "RESULT_CREDIT fell")
                session.result_limit = message.limit
            elif isinstance(message, frames.Revoke):
                self._on_revoke(session, message)
            elif isinstance(message, (frames.Mapped, frames.Placed)):
                raise frames.FrameError("order", f"{type(message).__name__.upper()} without SEGMENT")
            else:
                self._on_end_partition(session, message)
        except _SessionError as error:
            self._fail(session, error.code, str(error))

    def _on_schema(self, session, message):
        if session.schema is not None:
            raise frames.FrameError("order", "SCHEMA came twice")
        first = self._schemas.setdefault(session.open_message.feed_id, message.schema)
        if not first.equals(message.schema):
            different = next((f.name for f, g in zip(message.schema, first) if f != g), "their number")
            raise _SessionError("INVALID_ARGUMENT", f"another schema than the feed's first: column {different}")
        session.schema = message.schema

    def _on_batch(self, session, message, size):
        if session.schema is None or session.end_row is not None:
            raise frames.FrameError("order", "a BATCH before SCHEMA or after END_PARTITION")
        if message.first_row != session.next_row:
            raise _SessionError("DATA_LOSS", f"a batch from row {message.first_row} after {session.next_row} rows")
        if session.sent_bytes + size > session.limit:
            raise frames.FrameError("credit", f"{session.sent_bytes + size} bytes, the limit is {session.limit}")
        record_batch = message.record_batch(session.schema)
        session.sent_bytes += size
        session.next_row += message.rows
        session.unsent.append((message.first_row, record_batch, size))
        self._send(session, frames.Received(session.next_row))
        self._rows_seen += message.rows
        if self._break_after_rows is not None and self._rows_seen >= self._break_after_rows:
            self._break_after_rows = None
            self._break_connections()

    def _on_blocked(self, session, message):
        if message.needed <= session.sent_bytes or session.end_row is not None:
            raise frames.FrameError("credit", f"BLOCKED({message.needed}) after {session.sent_bytes} bytes")
        session.needed = message.needed
        session.waited_at = time.monotonic()
        if message.needed > session.limit and session.id not in self._blocked:
            self._blocked.append(session.id)

    def _grant(self):
        """Section 5: who has waited longest goes first, and a batch larger than the budget comes alone."""
        self._blocked = [s for s in self._blocked if s in self._sessions]
        used = sum(s.held_bytes for s in self._sessions.values())
        while self._blocked:
            session = self._sessions[self._blocked[0]]
            size = session.needed - session.sent_bytes
            if used and used + size > self._budget_bytes:
                break
            self._blocked.pop(0)
            used += size
            session.limit = session.needed
            self._send(session, frames.Credit(session.limit, session.released_bytes))
        for position, session in enumerate(self._blocked, 1):
            self._send_wait(self._sessions[session], position)

    def _on_end_partition(self, session, message):
        if session.end_row is not None or message.end_row != session.next_row:
            raise _SessionError("DATA_LOSS", f"END_PARTITION({message.end_row}) after {session.next_row} rows")
        session.end_row = message.end_row
        self._send(session, frames.Received(session.end_row))

    def _on_revoke(self, session, message):
        """Gives back what the program has not taken, unless that is nothing."""
        if session.open_message.mode != "train":
            raise frames.FrameError("order", "REVOKE in inference")
        taken = session.unsent[0][0] if session.unsent else session.next_row
        if taken > message.max_row or session.end_row == taken:
            return
        session.revoked = True
        session.unsent.clear()
        session.end_row = session.next_row = taken
        self._send(session, frames.Revoked(taken))

    def _break_connections(self):
        """All connections end, the attempt lives on at new addresses."""
        self._inbox.bind()
        for outbox in self._outboxes.values():
            outbox.close()
        self._outboxes.clear()
        self._sessions.clear()
        with self._lock:
            self._info = self._make_info()
        self.moved.set()

    # --- the program ------------------------------------------------------------------------------

    def _serve(self):
        """Train sessions of a queue all at once, inference sessions one after another."""
        for queue in QUEUES:
            waiting = [s for s in self._sessions.values() if s.open_message.queue == queue]
            if not waiting:
                continue
            first = waiting[0]
            served = [first] if first.open_message.mode == "inference" else []
            if not served:
                same_feed = [s for s in waiting if s.open_message.feed_id == first.open_message.feed_id]
                served = [s for s in same_feed if s.open_message.mode == "train"]
            for session in served:
                self._serve_session(session)
            for position, session in enumerate(s for s in waiting if s not in served):
                self._send_wait(session, position + len(served))

    def _send_wait(self, session, position):
        now = time.monotonic()
        if now - session.waited_at >= WAIT_INTERVAL_SECONDS:
            session.waited_at = now
            self._send(session, frames.Wait(position, self._progress))

    def _serve_session(self, session):
        if not session.accepted:
            session.accepted = True
            self._send(session, frames.Credit(0, 0))
        if self._hold.is_set():
            return
        while session.unsent and not session.results and session.id in self._sessions:
            first_row, record_batch, _ = session.unsent.pop(0)
            self._program_takes(session, first_row, record_batch)
        self._send_waiting_results(session)
        if session.end_row is not None and not session.unsent and not session.results and session.id in self._sessions:
            rows_in = session.end_row - session.open_message.first_row
            self._send(session, frames.Done(rows_in, session.rows_out))
            del self._sessions[session.id]

    def _program_takes(self, session, first_row, record_batch):
        """The program reads one batch and at once asks for the next one."""
        opened = session.open_message
        with self._lock:
            self._taken[opened.queue].append((opened.partition, first_row, record_batch))
            total = sum(batch.num_rows for _, _, batch in self._taken[opened.queue])
        self._progress += 1
        if opened.mode == "inference":
            self._send_results(session, first_row, record_batch)
        self._send(session, frames.Ack(first_row + record_batch.num_rows))
        if self._terminate_after_rows is not None and total >= self._terminate_after_rows:
            self._send(session, frames.Terminated("the program has stopped reading"))
            del self._sessions[session.id]

    def _send_results(self, session, first_row, record_batch):
        if not session.results_begun:
            session.results_begun = True
            self._send(session, frames.Schema(session.schema))
        for start in range(0, record_batch.num_rows, self._result_rows):
            part = record_batch.slice(start, self._result_rows)
            session.results.append(frames.Result.from_record_batch(first_row + start, part))
            session.rows_out += part.num_rows
        self._send_waiting_results(session)

    def _send_waiting_results(self, session):
        while session.results and session.result_bytes < session.result_limit and session.id in self._sessions:
            result = session.results.pop(0)
            session.result_bytes += result.frame(session.id, 0).credit_bytes
            self._send(session, result)
