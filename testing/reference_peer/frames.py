"""Frames of the feed protocol, version 2: encoding and decoding of every type.

Written from docs/feed_protocol.md alone; section numbers below are that page's.

  parts = Credit(limit=1 << 20, released=0).frame(session=7, seq=0).parts()
  frame = Frame.from_parts(parts, receiver="feeder")      # sections 2 and 3, raises FrameError
  message = decode(frame)                                 # Credit(limit=1048576, released=0)

Batch and Result keep their Arrow bytes until `record_batch(schema)` is called, which checks them as
section 7 asks.  Everything here is a pure function of its arguments.
"""

import dataclasses
import enum
import json
import struct

import arrow_body

MAGIC = b"MRF1"
VERSION = 2
FLAG_OPTIONAL = 1
MAX_JSON_BYTES = 64 << 10
MAX_JSON_NESTING = 8
U64_MAX = (1 << 64) - 1

HEADER = struct.Struct("<4sBBHQQII")
HEADER_BYTES = 32
assert HEADER.size == HEADER_BYTES

GRPC_CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS "
    "PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED "
    "INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
).split()


class FrameType(enum.IntEnum):
    OPEN = 1
    SCHEMA = 2
    BATCH = 3
    END_PARTITION = 4
    ABORT = 5
    BLOCKED = 6
    RESULT_CREDIT = 7
    REVOKE = 8
    MAPPED = 9
    PLACED = 10
    CREDIT = 16
    RECEIVED = 17
    ACK = 18
    RESULT = 19
    DONE = 20
    WAIT = 21
    TERMINATED = 22
    ERROR = 23
    REVOKED = 24
    SEGMENT = 25
    ROOM = 26
    PLACED_RESULT = 27


_TO_NODE = {kind for kind in FrameType if kind < FrameType.CREDIT}
_TO_FEEDER = (set(FrameType) - _TO_NODE) | {FrameType.SCHEMA}
_WITH_BODY = {FrameType.BATCH, FrameType.RESULT}


class FrameError(Exception):
    """A frame that its receiver must not use.

    `outcome` is what becomes of it: "bad_frame" (section 7: poisons the principal), "refused" (section 3:
    an OPEN with a mistake, which is answered; `reply` says where), "unimplemented"
    (section 2: another version) or "unsupported" (section 3: a schema of other types; it ends the
    session). `reason` is a stable word for tests, the text is for people. `session` is
    the header's, where another version has to be answered.
    """

    def __init__(self, reason, text, outcome="bad_frame", session=0, reply=None):
        super().__init__(text)
        self.reply = reply
        self.reason = reason
        self.outcome = outcome
        self.session = session


@dataclasses.dataclass
class Frame:
    """One multipart message with its header fields. `body` is empty unless BATCH or RESULT."""

    type: int
    session: int
    seq: int
    metadata: bytes = b""
    body: list = dataclasses.field(default_factory=list)
    flags: int = 0
    version: int = VERSION

    def header(self):
        return HEADER.pack(
            MAGIC, self.version, self.type, self.flags, self.session, self.seq, len(self.metadata), 0
        )

    def parts(self):
        metadata = [self.metadata] if self.metadata else []
        return [self.header(), *metadata, *self.body]

    @property
    def ignored(self):
        """True for a frame of an unknown type that says OPTIONAL: only its seq counts."""
        return self.type not in FrameType._value2member_map_

    @property
    def credit_bytes(self):
        """What section 5 counts: metadata and body parts."""
        return len(self.metadata) + sum(len(part) for part in self.body)

    @classmethod
    def from_parts(cls, parts, receiver):
        """Checks header and parts. `receiver` is "node" or "feeder". Raises FrameError."""
        header = bytes(parts[0]) if parts else b""
        if len(header) != HEADER_BYTES:
            raise FrameError("header_size", f"a header of {len(header)} bytes")
        magic, version, kind, flags, session, seq, metadata_length, zero = HEADER.unpack(header)
        if magic != MAGIC:
            raise FrameError("magic", f"magic {magic.hex()}")
        if version == 0:
            raise FrameError("version", "version 0")
        if version != VERSION:
            raise FrameError("version", f"version {version}, this peer speaks {VERSION}", "unimplemented", session)
        if flags & ~FLAG_OPTIONAL:
            raise FrameError("flags", f"flags {flags:#x}")
        if zero:
            raise FrameError("reserved", "the last header field is not zero")
        if session == 0:
            raise FrameError("session", "session 0")
        frame = cls(kind, session, seq, flags=flags, version=version)
        frame._take_parts(parts, metadata_length)
        if frame.ignored:
            if not flags & FLAG_OPTIONAL:
                raise FrameError("type", f"unknown type {kind}")
            return frame
        if kind not in (_TO_NODE if receiver == "node" else _TO_FEEDER):
            raise FrameError("direction", f"{FrameType(kind).name} came to the {receiver}")
        if frame.body and kind not in _WITH_BODY:
            raise FrameError("parts", f"{FrameType(kind).name} with body parts")
        return frame

    def _take_parts(self, parts, metadata_length):
        if metadata_length:
            if len(parts) < 2 or len(parts[1]) != metadata_length:
                size = len(parts[1]) if len(parts) > 1 else "no"
                raise FrameError("metadata_length", f"{metadata_length} given, {size} bytes there")
            self.metadata = bytes(parts[1])
            self.body = list(parts[2:])
        else:
            if len(parts) > 1:
                raise FrameError("metadata_length", "0 given, but there are more parts")
            self.body = []


# --- metadata -------------------------------------------------------------------------------------


def _unpack(form, frame):
    form = struct.Struct(form)
    if len(frame.metadata) != form.size:
        raise FrameError("metadata_size", f"{FrameType(frame.type).name} with {len(frame.metadata)} bytes of metadata")
    return form.unpack(frame.metadata)


def _dump_json(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def _json_nesting(text):
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _reject_constant(name):
    raise ValueError(f"{name} is not JSON")


def _load_json(frame):
    """The JSON object of a frame; the outermost object is nesting 1."""
    if len(frame.metadata) > MAX_JSON_BYTES:
        raise FrameError("json_size", f"JSON of {len(frame.metadata)} bytes")
    try:
        text = frame.metadata.decode("utf-8")
        if _json_nesting(text) > MAX_JSON_NESTING:
            raise FrameError("json_nesting", f"JSON nested deeper than {MAX_JSON_NESTING}")
        value = json.loads(text, parse_constant=_reject_constant)
    except ValueError as error:
        raise FrameError("json", str(error)) from error
    if not isinstance(value, dict):
        raise FrameError("json", "not a JSON object")
    return value


def _text(value, name):
    item = value.get(name)
    if not isinstance(item, str):
        raise FrameError("json_member", f"{name} is missing or no string")
    return item


def _count(value, name):
    item = value.get(name)
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= U64_MAX:
        raise FrameError("json_member", f"{name} is missing or no whole number from 0")
    return item


def _flag(value, name):
    item = value.get(name, False)
    if not isinstance(item, bool):
        raise FrameError("json_member", f"{name} is neither true nor false")
    return item


# --- messages, one class per type -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class ReplyAddress:
    """Where the node sends its answers. `curve_key` is empty with PLAIN."""

    endpoint: str
    challenge: str
    curve_key: str = ""


@dataclasses.dataclass(frozen=True)
class Open:
    feed_id: str
    queue: str
    mode: str
    partition: int
    data_epoch: int
    feeder_attempt: int
    node_nonce: str
    first_row: int
    result_limit: int
    reply: ReplyAddress
    shared_memory: bool = False

    def frame(self, session, seq):
        value = dataclasses.asdict(self)
        if self.shared_memory:
            value["reply"] = value.pop("reply")  # comes last
        else:
            del value["shared_memory"]
        if not self.reply.curve_key:
            del value["reply"]["curve_key"]
        return Frame(FrameType.OPEN, session, seq, _dump_json(value))

    @classmethod
    def decode(cls, frame):
        value = _load_json(frame)
        reply = value.get("reply")
        if not isinstance(reply, dict):
            raise FrameError("json_member", "reply is missing or no object")
        address = ReplyAddress(
            _text(reply, "endpoint"),
            _text(reply, "challenge"),
            _text(reply, "curve_key") if "curve_key" in reply else "",
        )
        if not address.endpoint:
            raise FrameError("json_member", "reply.endpoint is empty")
        try:
            return cls._from_members(value, address)
        except FrameError as error:
            raise FrameError(error.reason, str(error), "refused", frame.session, address) from error

    @classmethod
    def _from_members(cls, value, address):
        mode = _text(value, "mode")
        if mode not in ("train", "inference"):
            raise FrameError("json_member", f"mode {mode!r}")
        first_row = _count(value, "first_row")
        if first_row and mode == "inference":
            raise FrameError("json_member", f"first_row {first_row} in inference mode")
        feed_id = _text(value, "feed_id")
        if not feed_id:
            raise FrameError("json_member", "feed_id is empty")
        return cls(
            feed_id=feed_id,
            queue=_text(value, "queue"),
            mode=mode,
            partition=_count(value, "partition"),
            data_epoch=_count(value, "data_epoch"),
            feeder_attempt=_count(value, "feeder_attempt"),
            node_nonce=_text(value, "node_nonce"),
            first_row=first_row,
            result_limit=_count(value, "result_limit"),
            reply=address,
            shared_memory=_flag(value, "shared_memory"),
        )


@dataclasses.dataclass(frozen=True)
class Schema:
    """`schema` is a pyarrow.Schema."""

    schema: object

    def frame(self, session, seq):
        return Frame(FrameType.SCHEMA, session, seq, arrow_body.write_schema(self.schema))

    @classmethod
    def decode(cls, frame):
        try:
            return cls(arrow_body.read_schema(frame.metadata))
        except arrow_body.ArrowBodyError as error:
            raise FrameError(error.reason, str(error), error.outcome) from error


_BATCH_PREFIX = struct.Struct("<QII")


@dataclasses.dataclass(frozen=True)
class Batch:
    """Rows on their way to the node. `message` is the encapsulated RecordBatch message."""

    first_row: int
    rows: int
    message: bytes
    body: list

    TYPE = FrameType.BATCH

    @classmethod
    def from_record_batch(cls, first_row, record_batch, cuts=()):
        message, body = arrow_body.cut_batch(record_batch, cuts)
        return cls(first_row, record_batch.num_rows, message, body)

    def frame(self, session, seq):
        metadata = _BATCH_PREFIX.pack(self.first_row, self.rows, 0) + self.message
        return Frame(self.TYPE, session, seq, metadata, list(self.body))

    @classmethod
    def decode(cls, frame):
        if len(frame.metadata) < _BATCH_PREFIX.size:
            raise FrameError("metadata_size", f"a batch with {len(frame.metadata)} bytes of metadata")
        first_row, rows, zero = _BATCH_PREFIX.unpack_from(frame.metadata)
        if zero:
            raise FrameError("reserved", "the field after rows is not zero")
        if not 1 <= rows <= arrow_body.MAX_ROWS:
            raise FrameError("rows", f"a batch of {rows} rows")
        if first_row + rows > U64_MAX:
            raise FrameError("rows", f"row {first_row} + {rows} rows")
        return cls(first_row, rows, frame.metadata[_BATCH_PREFIX.size :], frame.body)

    def record_batch(self, schema):
        """The rows as a pyarrow.RecordBatch. Raises FrameError when section 7's checks fail."""
        try:
            return arrow_body.read_batch(self.message, self.body, schema, self.rows)
        except arrow_body.ArrowBodyError as error:
            raise FrameError(error.reason, str(error)) from error


@dataclasses.dataclass(frozen=True)
class Result(Batch):
    """Rows on their way back to the feeder, in the form of Batch."""

    TYPE = FrameType.RESULT


class _Binary:
    """Base of the types whose metadata is nothing but u64 fields, in the order of the class."""

    FLAGS = 0

    def frame(self, session, seq):
        values = dataclasses.astuple(self)
        return Frame(self.TYPE, session, seq, struct.pack(f"<{len(values)}Q", *values), flags=self.FLAGS)

    @classmethod
    def decode(cls, frame):
        return cls(*_unpack(f"<{len(dataclasses.fields(cls))}Q", frame))


class _JsonText:
    """Base of the types whose metadata is a flat JSON object of texts."""

    FLAGS = 0

    def frame(self, session, seq):
        return Frame(self.TYPE, session, seq, _dump_json(dataclasses.asdict(self)), flags=self.FLAGS)

    @classmethod
    def decode(cls, frame):
        value = _load_json(frame)
        return cls(*(_text(value, field.name) for field in dataclasses.fields(cls)))


@dataclasses.dataclass(frozen=True)
class EndPartition(_Binary):
    end_row: int
    TYPE = FrameType.END_PARTITION


@dataclasses.dataclass(frozen=True)
class Abort(_JsonText):
    code: str
    message: str
    TYPE = FrameType.ABORT


@dataclasses.dataclass(frozen=True)
class Blocked(_Binary):
    needed: int
    TYPE = FrameType.BLOCKED


@dataclasses.dataclass(frozen=True)
class ResultCredit(_Binary):
    limit: int
    TYPE = FrameType.RESULT_CREDIT


@dataclasses.dataclass(frozen=True)
class Revoke(_Binary):
    max_row: int
    TYPE = FrameType.REVOKE
    FLAGS = FLAG_OPTIONAL


@dataclasses.dataclass(frozen=True)
class Mapped:
    reason: str
    results: bool = False

    def frame(self, session, seq):
        value = dataclasses.asdict(self)
        if not self.results:
            del value["results"]
        return Frame(FrameType.MAPPED, session, seq, _dump_json(value), flags=FLAG_OPTIONAL)

    @classmethod
    def decode(cls, frame):
        value = _load_json(frame)
        return cls(_text(value, "reason"), _flag(value, "results"))


_PLACED_PREFIX = struct.Struct("<QQ")


@dataclasses.dataclass(frozen=True)
class Placed:
    """Rows whose body lies at `offset` of a segment (section 10)."""

    offset: int
    length: int
    first_row: int
    rows: int
    message: bytes
    TYPE = FrameType.PLACED

    def frame(self, session, seq):
        metadata = _PLACED_PREFIX.pack(self.offset, self.length)
        metadata += _BATCH_PREFIX.pack(self.first_row, self.rows, 0) + self.message
        return Frame(self.TYPE, session, seq, metadata)

    @classmethod
    def decode(cls, frame):
        if len(frame.metadata) < _PLACED_PREFIX.size:
            raise FrameError("metadata_size", f"{cls.TYPE.name} with {len(frame.metadata)} bytes of metadata")
        offset, length = _PLACED_PREFIX.unpack_from(frame.metadata)
        rest = dataclasses.replace(frame, metadata=frame.metadata[_PLACED_PREFIX.size :])
        batch = Batch.decode(rest)
        return cls(offset, length, batch.first_row, batch.rows, batch.message)


class PlacedResult(Placed):
    TYPE = FrameType.PLACED_RESULT


@dataclasses.dataclass(frozen=True)
class Credit(_Binary):
    limit: int
    released: int
    TYPE = FrameType.CREDIT


@dataclasses.dataclass(frozen=True)
class Received(_Binary):
    row: int
    TYPE = FrameType.RECEIVED


@dataclasses.dataclass(frozen=True)
class Ack(_Binary):
    row: int
    TYPE = FrameType.ACK


@dataclasses.dataclass(frozen=True)
class Done(_Binary):
    rows_in: int
    rows_out: int
    TYPE = FrameType.DONE


@dataclasses.dataclass(frozen=True)
class Wait(_Binary):
    position: int
    progress: int
    TYPE = FrameType.WAIT


@dataclasses.dataclass(frozen=True)
class Terminated:
    message: str
    row: int = 0  # the program was given those before it; 0, which is not written: as acknowledged
    TYPE = FrameType.TERMINATED

    def frame(self, session, seq):
        row = {"row": self.row} if self.row else {}
        return Frame(self.TYPE, session, seq, _dump_json({"message": self.message, **row}))

    @classmethod
    def decode(cls, frame):
        value = _load_json(frame)
        return cls(_text(value, "message"), _count(value, "row") if "row" in value else 0)


@dataclasses.dataclass(frozen=True)
class Error(_JsonText):
    code: str
    message: str
    TYPE = FrameType.ERROR


@dataclasses.dataclass(frozen=True)
class Revoked(_Binary):
    row: int
    TYPE = FrameType.REVOKED


@dataclasses.dataclass(frozen=True)
class Segment:
    pid: int
    fd: int
    bytes: int
    id: str

    def frame(self, session, seq):
        return Frame(FrameType.SEGMENT, session, seq, _dump_json(dataclasses.asdict(self)), flags=FLAG_OPTIONAL)

    @classmethod
    def decode(cls, frame):
        value = _load_json(frame)
        return cls(_count(value, "pid"), _count(value, "fd"), _count(value, "bytes"), _text(value, "id"))


@dataclasses.dataclass(frozen=True)
class Room(_Binary):
    offset: int
    length: int
    TYPE = FrameType.ROOM
    FLAGS = FLAG_OPTIONAL


_CLASSES = {
    FrameType.OPEN: Open,
    FrameType.SCHEMA: Schema,
    FrameType.BATCH: Batch,
    FrameType.END_PARTITION: EndPartition,
    FrameType.ABORT: Abort,
    FrameType.BLOCKED: Blocked,
    FrameType.RESULT_CREDIT: ResultCredit,
    FrameType.REVOKE: Revoke,
    FrameType.MAPPED: Mapped,
    FrameType.PLACED: Placed,
    FrameType.CREDIT: Credit,
    FrameType.RECEIVED: Received,
    FrameType.ACK: Ack,
    FrameType.RESULT: Result,
    FrameType.DONE: Done,
    FrameType.WAIT: Wait,
    FrameType.TERMINATED: Terminated,
    FrameType.ERROR: Error,
    FrameType.REVOKED: Revoked,
    FrameType.SEGMENT: Segment,
    FrameType.ROOM: Room,
    FrameType.PLACED_RESULT: PlacedResult,
}


def decode(frame):
    """The message of a frame that Frame.from_parts accepted; None when it is to be ignored."""
    if frame.ignored:
        return None
    return _CLASSES[FrameType(frame.type)].decode(frame)
