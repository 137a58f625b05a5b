"""The reference feeder: one feeder process of the feed protocol, as a library and a program.

  feeder = Feeder()
  feed = PartitionFeed(feeder, lookup, FeedRequest(feed_id="f", queue="input", mode="train"), source)
  feeder.run([feed])                    # feed.outcome, feed.results

Everything runs in the calling thread; `run` polls and returns when every feed has ended.  README.md
describes the program and the events that it prints.
"""

import argparse
import dataclasses
import json
import os
import secrets
import sys
import time

import zmq

import arrow_body
import frames
import logins
import misbehave
import session as sessions
import sockets
import sources

LOOKUP_INTERVAL_SECONDS = 0.2
POLL_SECONDS = 0.1
HOLD_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class NodeInfo:
    """What a lookup says of a node: section 6. `state`: running, restarting, finished or failed."""

    state: str
    endpoint: str = ""
    key: str = ""
    nonce: str = ""
    cause: str = ""
    curve: str = ""
    curve_key: str = ""


@dataclasses.dataclass(frozen=True)
class FeedRequest:
    feed_id: str
    queue: str
    mode: str
    partition: int = 0
    data_epoch: int = 0
    feeder_attempt: int = 0


def _ignore(_event, **_fields):
    pass


class Feeder:
    """One feeder process: its reply inbox, one outbox per node endpoint, all sessions.

    `curve`: speaks CURVE with every node, as with one of another host. `curve_keys.public` is then to be
    announced for `principal`.
    """

    def __init__(self, principal="", reply="ipc", emit=_ignore, curve=False):
        self.principal = principal or f"feeder/{secrets.token_hex(8)}"
        self.emit = emit
        self.bad_messages = 0
        self.curve = curve
        self.curve_keys = sockets.new_curve_keys()
        self._context = zmq.Context()
        self._challenge = logins.new_challenge()
        self._logins = 0
        self._nodes = {}  # keys by principal
        self._inbox = sockets.Inbox(self._context, self._is_proof, "node", self.curve_keys)
        self._reply = reply
        self._outboxes = {}
        self._sessions = {}  # id: (session, outbox, node principal)
        self._reply_connections = {}  # id of a session: the connection that its replies come over

    @property
    def reply_address(self):
        endpoint = self._inbox.tcp_endpoint if self._reply == "tcp" else self._inbox.ipc_endpoint
        return frames.ReplyAddress(endpoint, self._challenge)

    def _next_password(self, key):
        # Feeders of tests may share a principal.
        self._logins = max(self._logins + 1, time.time_ns())
        return logins.feeder_password(key, self.principal, self._logins)

    def _is_proof(self, node, password):
        """Whether a login to the reply socket is that of a node that this feeder knows."""
        key = self._nodes.get(node)
        if key is None:
            return False
        right = logins.node_password(key, self._challenge, self.principal, node)
        is_proof = secrets.compare_digest(password.encode(), right.encode())
        for opened, _, principal in self._sessions.values():
            if principal == node and is_proof:
                opened.proven = True
            elif principal == node:
                opened.on_false_login(time.monotonic())
        return is_proof

    def _curve_reply_address(self, node):
        """The reply socket towards `node`, which is admitted there from now on."""
        self._inbox.admitted[node.curve_key] = f"node/{node.nonce}"
        endpoint = self._inbox.bind_curve(sockets.local_address_towards(node.curve))
        return frames.ReplyAddress(endpoint, "", self.curve_keys.public)

    def open(self, node, request, first_row, source, limits=None, tamper=None):
        """A new session with `node`; OPEN is on its way when this returns."""
        kind = tamper.kind if tamper else ""
        key = misbehave.OTHER_KEY if kind == "wrong-key" else node.key
        self._nodes[f"node/{node.nonce}"] = node.key
        # Elsewhere another process may have the node's local address.
        curve = self.curve or (node.curve and logins.is_elsewhere(node.endpoint))
        endpoint = node.curve if curve else node.endpoint
        outbox = self._outboxes.get(endpoint)
        if outbox is None or outbox.broken:
            if curve:
                outbox = sockets.CurveOutbox(self._context, endpoint, self.curve_keys, node.curve_key)
            else:
                outbox = sockets.Outbox(self._context, endpoint, self.principal, self._next_password(key))
            self._outboxes[endpoint] = outbox
        reply = self._curve_reply_address(node) if curve else self.reply_address
        if kind == "wrong-reply-endpoint":
            reply = dataclasses.replace(reply, endpoint="ipc://@millrace-nobody-is-here")
        elif kind == "wrong-challenge":
            reply = dataclasses.replace(reply, challenge=misbehave.OTHER_KEY)
        message = frames.Open(
            **dataclasses.asdict(request),
            node_nonce="0" * 16 if kind == "wrong-nonce" else node.nonce,
            first_row=first_row,
            result_limit=sessions.RESULT_WINDOW_BYTES if request.mode == "inference" else 0,
            reply=reply,
        )

        def emit(event, **fields):
            self.emit(event, partition=request.partition, **fields)

        opened = sessions.Session(message, source, outbox.send, emit, time.monotonic(), limits, tamper)
        opened.proven = bool(curve)
        self._sessions[opened.id] = (opened, outbox, f"node/{node.nonce}")
        return opened

    def poll(self, timeout):
        """Waits up to `timeout` seconds for something to happen, then handles all of it."""
        poller = zmq.Poller()
        for socket in self._inbox.pollables():
            poller.register(socket, zmq.POLLIN)
        for outbox in self._outboxes.values():
            for socket in outbox.pollables():
                poller.register(socket, zmq.POLLIN)
        poller.poll(timeout * 1000)
        now = time.monotonic()
        lost = self._inbox.take_lost()  # what came over them before still counts
        while (received := self._inbox.receive()) is not None:
            self._take(*received, now)
        for outbox in self._outboxes.values():
            outbox.update()
        for opened, outbox, _ in list(self._sessions.values()):
            if outbox.state == "connected":
                opened.server = outbox.endpoint
            if outbox.broken:
                opened.on_connection(outbox.state, now)
            elif self._reply_connections.get(opened.id) in lost:
                opened.on_connection("lost", now)
            opened.step(now)
            if opened.outcome:
                del self._sessions[opened.id]
                self._reply_connections.pop(opened.id, None)
        for endpoint, outbox in list(self._outboxes.items()):
            if outbox.broken and not any(o is outbox for _, o, _ in self._sessions.values()):
                outbox.close()
                del self._outboxes[endpoint]

    def _take(self, principal, parts, now):
        opened = None
        try:
            frame = frames.Frame.from_parts(parts, "feeder")
            opened, _, node = self._sessions.get(frame.session, (None, None, None))
            if opened is None:
                return
            if node != principal:
                raise frames.FrameError("principal", f"{principal} answered for {node}")
            self._reply_connections[frame.session] = self._inbox.connection
            opened.proven = True
            opened.on_frame(frame, now)
        except frames.FrameError as error:
            if error.outcome == "unsupported":
                opened.on_bad_peer("INVALID_ARGUMENT", str(error))
            else:
                self._poison(principal, error)

    def _poison(self, principal, error):
        """Section 7: whatever else comes from this node is dropped, its sessions end."""
        self.bad_messages += 1
        self._inbox.poisoned.add(principal)
        self.emit("poisoned", principal=principal, reason=error.reason, message=str(error))
        code = "UNIMPLEMENTED" if error.outcome == "unimplemented" else "INTERNAL"
        for opened, _, node in self._sessions.values():
            if node == principal:
                opened.on_bad_peer(code, str(error))

    def run(self, feeds, deadline_seconds=3600.0):
        """Polls until every feed has an outcome. Returns False at the deadline."""
        end = time.monotonic() + deadline_seconds
        while True:
            now = time.monotonic()
            for feed in feeds:
                feed.step(now)
            if all(feed.outcome for feed in feeds):
                self.poll(0)  # hands an ABORT to the I/O thread's queue before anybody closes
                return True
            if now >= end:
                return False
            busy = any(opened.can_send for opened, _, _ in self._sessions.values())
            self.poll(0 if busy else POLL_SECONDS)

    def close(self):
        for outbox in self._outboxes.values():
            outbox.close()
        self._inbox.close()
        self._context.term()


class PartitionFeed:
    """Feeds one partition to the end, over as many sessions as it takes: section 6.

    `lookup()` returns a NodeInfo. A broken connection is followed by another lookup and, if `resume`,
    by a new session. `results` are record batches; `rows_refed` counts rows that had been sent before.
    `behind`: another feed, whose session the node has to know before this one begins.
    """

    def __init__(self, feeder, lookup, request, source, resume=True, limits=None, tamper=None, behind=None):
        self.outcome = None
        self.results = []
        self.rows_refed = 0
        self.sessions = 0
        self.acked_row = 0
        self.rows = None
        self._feeder = feeder
        self._lookup = lookup
        self._request = request
        self._source = source
        self._resume = resume
        self._limits = limits or sessions.Limits()
        self._tamper = tamper
        self._behind = behind
        self._session = None
        self._node = None
        self._next_lookup = 0.0
        self._progress_at = None

    @property
    def accepted(self):
        """True while a session has got its first CREDIT."""
        return self._session is not None and self._session.accepted

    @property
    def _queued(self):
        """The node has answered its OPEN, with CREDIT or WAIT."""
        return bool(self.outcome) or self._session is not None and (self._session.accepted or self._session.waited)

    def step(self, now):
        if self.outcome or self._behind is not None and not self._behind._queued:
            return
        if self._progress_at is None:
            self._progress_at = now
        if self._session is None:
            if now >= self._next_lookup:
                self._look_up(now)
            return
        if self._session.outcome:
            self._after_session(now)

    def _look_up(self, now):
        node = self._lookup()
        self._next_lookup = now + LOOKUP_INTERVAL_SECONDS
        if node.state == "running":
            self._open(node)
        elif node.state == "finished":
            self._end("terminated", "OK", "the node has finished")
        elif node.state == "failed":
            self._end("failed", "ABORTED", node.cause)
        elif now - self._progress_at >= self._limits.feed_timeout:
            self._end("timeout", "DEADLINE_EXCEEDED", f"the node is {node.state}")

    def _open(self, node):
        resume = self._request.mode == "train" and self._source.deterministic
        # Another attempt knows nothing of the one before.
        if self._node is not None and node.nonce != self._node.nonce:
            self.rows_refed += self.acked_row if resume else 0
            resume = False
        first_row = self.acked_row if resume else 0
        if self.sessions:
            self._feeder.emit("resume", partition=self._request.partition, first_row=first_row)
        self.results = []
        self.sessions += 1
        self._node = node
        self._session = self._feeder.open(node, self._request, first_row, self._source, self._limits, self._tamper)

    def _after_session(self, now):
        ended = self._session
        self._session = None
        if ended.acked_row > self.acked_row or ended.results:
            self._progress_at = now
        self.acked_row = ended.acked_row
        self.results = ended.results
        self.rows = ended.end_row
        revoked = ended.outcome.kind == "revoked"
        again = ended.outcome.kind in ("lost", "unavailable") or ended.outcome.code == "UNAVAILABLE"
        # A node attempt that took an old port says FAILED_PRECONDITION or knows another key.
        elsewhere = not ended.accepted and ended.outcome.code in ("FAILED_PRECONDITION", "UNAUTHENTICATED")
        if self._resume and elsewhere:
            again = self._lookup() != self._node
        if not revoked and not (self._resume and again):
            self._end(ended.outcome.kind, ended.outcome.code, ended.outcome.message)
        elif now - self._progress_at >= self._limits.feed_timeout:
            self._end("timeout", "DEADLINE_EXCEEDED", ended.outcome.message)
        else:
            restart = self.acked_row if self._request.mode == "train" and self._source.deterministic else 0
            self.rows_refed += max(0, ended.next_row - max(restart, ended.open_message.first_row))
            self._tamper = None
            self._next_lookup = now + LOOKUP_INTERVAL_SECONDS

    def _end(self, kind, code, message):
        self.outcome = sessions.Outcome(kind, code, message)
        fields = {"kind": kind, "code": code, "message": message, "sessions": self.sessions}
        fields |= {"rows": self.rows, "acked": self.acked_row, "refed": self.rows_refed}
        fields["result_rows"] = sum(batch.num_rows for batch in self.results)
        self._feeder.emit("end", partition=self._request.partition, **fields)


def feed_partition(feeder, lookup, request, source, **options):
    """Feeds one partition, resuming after disconnects. Returns the ended PartitionFeed."""
    feed = PartitionFeed(feeder, lookup, request, source, **options)
    feeder.run([feed])
    return feed


# --- program --------------------------------------------------------------------------------------


def _parse_arguments(arguments):
    parser = argparse.ArgumentParser(prog="feeder", description="Feeds numbered rows to a node.")
    where = parser.add_argument_group("node")
    where.add_argument("--endpoint", help="the node's data endpoint, as lookup gives it")
    where.add_argument("--key", default="", help="the node's key")
    where.add_argument("--nonce", default="", help="the node's nonce")
    where.add_argument(
        "--lookup-file",
        help="instead: a JSON file with state, endpoint, key, nonce, cause, read at each lookup",
    )
    where.add_argument("--curve", default="", help="the node's CURVE endpoint, instead of --endpoint")
    where.add_argument("--curve-key", default="", help="the node's public CURVE key")
    where.add_argument("--principal", default="", help="feeder/<hex>; random when it is not given")
    where.add_argument("--reply", choices=("ipc", "tcp"), default="ipc", help="which reply endpoint OPEN names")
    what = parser.add_argument_group("feed")
    what.add_argument("--mode", choices=("train", "inference"), default="train")
    what.add_argument("--queue", default="input")
    what.add_argument("--feed-id", default="", help="random when it is not given")
    what.add_argument("--data-epoch", type=int, default=0)
    what.add_argument("--feeder-attempt", type=int, default=0)
    what.add_argument("--partition", type=int, default=0, help="number of the first partition")
    what.add_argument("--partitions", type=int, default=1, help="how many are fed side by side")
    what.add_argument("--rows", type=int, required=True, help="rows of each partition")
    what.add_argument("--batch-rows", type=int, default=100)
    what.add_argument("--columns", default=sources.DEFAULT_COLUMNS, help="name:type,...; see sources.py")
    what.add_argument("--null-every", type=int, default=0)
    what.add_argument(
        "--cut-at",
        type=int,
        action="append",
        default=[],
        metavar="BUFFER",
        help="begin a body part at this buffer",
    )
    how = parser.add_argument_group("behaviour")
    how.add_argument(
        "--no-resume",
        action="store_true",
        help="a broken connection ends the feed, as it always does with --endpoint",
    )
    how.add_argument("--feed-timeout", type=float, default=600.0, metavar="SECONDS")
    how.add_argument("--deadline", type=float, default=3600.0, metavar="SECONDS", help="for the whole run")
    how.add_argument("--pause-after-rows", type=int, metavar="ROWS")
    how.add_argument("--pause-seconds", type=float, default=1.0)
    how.add_argument("--abort-after-rows", type=int, metavar="ROWS", help="ABORT(CANCELLED)")
    how.add_argument("--exit-after-rows", type=int, metavar="ROWS", help="die as if killed, exit code 9")
    how.add_argument(
        "--misbehave",
        choices=sorted(misbehave.KINDS),
        default="",
        metavar="KIND",
        help="; ".join(f"{k}: {v}" for k, v in misbehave.KINDS.items()),
    )
    how.add_argument("--misbehave-at", type=int, default=0, metavar="BATCH")
    out = parser.add_argument_group("output")
    out.add_argument(
        "--check-results",
        choices=("echo", "none"),
        default="none",
        help="echo: results have to equal the rows",
    )
    out.add_argument("--print-results", action="store_true", help="one event per result batch with its rows")
    parsed = parser.parse_args(arguments)
    if bool(parsed.endpoint) + bool(parsed.curve) + bool(parsed.lookup_file) != 1:
        parser.error("give one of --endpoint, --curve and --lookup-file")
    return parsed


def _print_event(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


def _lookup_from(arguments):
    def lookup():
        if not arguments.lookup_file:
            return NodeInfo(
                "running",
                arguments.endpoint,
                arguments.key,
                arguments.nonce,
                curve=arguments.curve,
                curve_key=arguments.curve_key,
            )
        try:
            with open(arguments.lookup_file, encoding="utf-8") as file:
                value = json.load(file)
        except (OSError, ValueError):
            return NodeInfo("restarting")
        return NodeInfo(**{name: value[name] for name in NodeInfo.__dataclass_fields__ if name in value})

    return lookup


def _report_results(arguments, feed, source, partition, emit):
    """Prints and checks what came back. True when nothing was wrong."""
    good = True
    row = 0
    for batch in feed.results:
        if arguments.print_results:
            columns = {name: arrow_body.plain_values(batch.column(name)) for name in batch.schema.names}
            emit("rows", partition=partition, first_row=row, columns=columns)
        if arguments.check_results == "echo":
            expected = source.slice(row, batch.num_rows)
            same = all(found.equals(wanted) for found, wanted in zip(batch.columns, expected.columns))
            if not same or batch.schema.names != expected.schema.names:
                emit("wrong_result", partition=partition, first_row=row, rows=batch.num_rows)
                good = False
        row += batch.num_rows
    return good


def _holder(arguments, feeder, lookup, schema):
    """A feed of its own that keeps the queue's turn, so that no session behind it gets CREDIT."""
    partition = arguments.partition + arguments.partitions
    source = sources.NumberedRows(schema, partition, 2, 1)
    request = FeedRequest(secrets.token_hex(8), arguments.queue, arguments.mode, partition)
    limits = sessions.Limits(arguments.feed_timeout, pause_after_rows=1, pause_seconds=HOLD_SECONDS)
    return PartitionFeed(feeder, lookup, request, source, resume=False, limits=limits)


def main(arguments=None, emit=_print_event):
    arguments = _parse_arguments(arguments)
    schema = sources.parse_columns(arguments.columns)
    feeder = Feeder(arguments.principal, arguments.reply, emit, bool(arguments.curve))
    emit(
        "start",
        principal=feeder.principal,
        pid=os.getpid(),
        reply=feeder.reply_address.endpoint,
        curve_key=feeder.curve_keys.public,
    )
    feed_id = arguments.feed_id or secrets.token_hex(8)
    lookup = _lookup_from(arguments)
    feeds = {}
    holder = _holder(arguments, feeder, lookup, schema) if arguments.misbehave == "send-before-credit" else None
    for partition in range(arguments.partition, arguments.partition + arguments.partitions):
        source = sources.NumberedRows(
            schema, partition, arguments.rows, arguments.batch_rows, arguments.null_every, arguments.cut_at
        )
        request = FeedRequest(
            feed_id, arguments.queue, arguments.mode, partition, arguments.data_epoch, arguments.feeder_attempt
        )
        limits = sessions.Limits(
            arguments.feed_timeout,
            arguments.pause_after_rows,
            arguments.pause_seconds,
            arguments.abort_after_rows,
            arguments.exit_after_rows,
        )
        tamper = misbehave.Misbehaviour(arguments.misbehave, arguments.misbehave_at)
        resume = bool(arguments.lookup_file) and not arguments.no_resume
        feed = PartitionFeed(feeder, lookup, request, source, resume, limits, tamper, holder)
        feeds[partition] = (feed, source)
    all_feeds = [feed for feed, _ in feeds.values()] + ([holder] if holder else [])
    in_time = feeder.run(all_feeds, arguments.deadline)
    good = in_time
    for partition, (feed, source) in feeds.items():
        good = _report_results(arguments, feed, source, partition, emit) and good
        good = good and feed.outcome.ok
    emit("finish", ok=good, bad_messages=feeder.bad_messages, deadline_exceeded=not in_time)
    feeder.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
