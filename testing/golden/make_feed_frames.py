"""Writes feed_frames.json: one example of every feed frame, and frames that must be refused.

  make_feed_frames.py --output feed_frames.json     # write the golden file
  make_feed_frames.py --doc docs/feed_protocol.md   # write its "Byte examples" section anew

Every value is fixed, so each run writes the same bytes (with the pyarrow that
testing/reference_peer/requirements.txt pins).  See README.md for what the members mean.
"""

import argparse
import json
import struct
import sys

import pyarrow as pa

import arrow_body
import frames
import logins
import render_doc

FEEDER_SESSION = 0x1F2E3D4C5B6A7988
INFERENCE_SESSION = 0x0102030405060708

# --- sample data ----------------------------------------------------------------------------------


def _float32_list(rows):
    return pa.array(rows, pa.list_(pa.float32(), 3))


def sample_batches():
    """(name, record batch, cuts), one batch per schema of the golden file."""
    integers = pa.record_batch(
        {
            "i8": pa.array([-128, 127, 0], pa.int8()),
            "u8": pa.array([0, 255, 7], pa.uint8()),
            "i16": pa.array([-32768, 32767, None], pa.int16()),
            "u16": pa.array([0, 65535, 7], pa.uint16()),
            "i32": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
            "u32": pa.array([0, 2**32 - 1, 7], pa.uint32()),
            "i64": pa.array([-(2**53), 2**53, None], pa.int64()),
            "u64": pa.array([0, 2**53, 7], pa.uint64()),
        }
    )
    floats = pa.record_batch(
        {
            "f32": pa.array([0.5, -1.25, None, 16777216.0], pa.float32()),
            "f64": pa.array([0.1, None, -2.5e-300, 1e300], pa.float64()),
        }
    )
    texts = pa.record_batch(
        {
            "text": pa.array(["", "row", None, "Zeile \u00fc\u20ac\U0001f600"], pa.utf8()),
            "bytes": pa.array([b"\x00\xff", None, b"", b"MRF1"], pa.binary()),
        }
    )
    lists = pa.record_batch(
        {
            "vector": _float32_list([[1.0, 2.0, 3.0], None, [-0.5, None, 0.25]]),
            "numbers": pa.array([[1, 2], [], None], pa.list_(pa.int32())),
        }
    )
    training = pa.record_batch(
        {
            "id": pa.array([10, 11, 12, 13], pa.int64()),
            "label": pa.array([True, False, None, True], pa.bool_()),
            "name": pa.array(["a", "bc", None, "def"], pa.utf8()),
        }
    )
    empties = pa.record_batch(
        {
            "text": pa.array(["", ""], pa.utf8()),
            "null": pa.array([None, None], pa.binary()),
            "numbers": pa.array([[], []], pa.list_(pa.int32())),
        }
    )
    moments = pa.record_batch(
        {
            "date32": pa.array([0, -1, None, 2932896], pa.date32()),
            "date64": pa.array([0, -86400000, None, 253402214400000], pa.date64()),
            "s": pa.array([0, -(2**40), None, 2**40], pa.timestamp("s")),
            "ms": pa.array([0, -1, None, 2**53], pa.timestamp("ms", "UTC")),
            "us": pa.array([0, -1, None, 2**53], pa.timestamp("us", "Europe/Berlin")),
            "ns": pa.array([0, -1, None, 2**53], pa.timestamp("ns", "+05:30")),
        }
    )
    large = pa.record_batch(
        {
            "text": pa.array(["", "row", None, "Zeile \u00fc\u20ac\U0001f600"], pa.large_utf8()),
            "bytes": pa.array([b"\x00\xff", None, b"", b"MRF1"], pa.large_binary()),
            "numbers": pa.array([[1, None], [], None, [2]], pa.large_list(pa.int16())),
        }
    )
    point = pa.struct([pa.field("x", pa.float64(), nullable=False), pa.field("tags", pa.list_(pa.utf8()))])
    structs = pa.record_batch(
        {
            "point": pa.array(
                [{"x": 0.5, "tags": ["a", None, "bc"]}, {"x": -1.0, "tags": None}, {"x": 2.0, "tags": []}], point
            ),
            "pair": pa.array(
                [{"left": {"n": 1}, "right": True}, None, {"left": None, "right": False}],
                pa.struct([("left", pa.struct([("n", pa.int8())])), ("right", pa.bool_())]),
            ),
        }
    )
    nested = pa.record_batch(
        {
            "image": pa.array(
                [[[1.0, 2.0], [3.0, 4.0]], [[5.0, None], [7.0, 8.0]], None], pa.list_(pa.list_(pa.float32(), 2), 2)
            ),
            "words": pa.array([["a", "\u00fc"], None, ["", None, "def"]], pa.list_(pa.utf8())),
            "rows": pa.array([[[1], []], [], [None, [2, 3]]], pa.list_(pa.list_(pa.int32()))),
            "named": pa.array([["x", "y"], ["", None], None], pa.list_(pa.utf8(), 2)),
            "points": pa.array(
                [[{"x": 1, "y": None}], None, [{"x": 2, "y": b"\xff"}, None]],
                pa.list_(pa.struct([("x", pa.int64()), ("y", pa.binary())])),
            ),
        }
    )
    half_values = pa.py_buffer(struct.pack("<3e", 0.5, -2.0, 65504.0))
    halves = pa.record_batch({"f16": pa.Array.from_buffers(pa.float16(), 3, [None, half_values])})
    return [
        ("simple", pa.record_batch({"x": pa.array([1, 2], pa.int32())}), ()),
        ("bool", pa.record_batch({"flag": pa.array([True, None, False, True, True, False, True, True, None])}), ()),
        ("integers", integers, ()),
        ("floats", floats, ()),
        ("texts", texts, ()),
        ("lists", lists, ()),
        ("training", training, (1, 3, 6)),
        ("empties", empties, ()),
        ("moments", moments, ()),
        ("large", large, ()),
        ("structs", structs, ()),
        ("nested", nested, (5, 9)),
        ("halves", halves, ()),
    ]


# --- description of what a frame says -------------------------------------------------------------


def describe_type(kind):
    names = {
        pa.float16(): "float16",
        pa.float32(): "float32",
        pa.float64(): "float64",
        pa.utf8(): "utf8",
        pa.large_utf8(): "large_utf8",
        pa.bool_(): "bool",
        pa.date32(): "date32",
        pa.date64(): "date64",
    }
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<{describe_type(kind.value_type)}, {kind.list_size}>"
    if pa.types.is_list(kind):
        return f"list<{describe_type(kind.value_type)}>"
    if pa.types.is_large_list(kind):
        return f"large_list<{describe_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{field.name}: {describe_type(field.type)}' for field in kind.fields)}>"
    if pa.types.is_timestamp(kind):
        return f"timestamp[{kind.unit}, {kind.tz}]" if kind.tz else f"timestamp[{kind.unit}]"
    return names.get(kind, str(kind))


def describe_schema(schema):
    return {"fields": [{"name": f.name, "type": describe_type(f.type), "nullable": f.nullable} for f in schema]}


def describe_batch(batch, schema):
    record_batch = batch.record_batch(schema)
    layout = arrow_body.parse_layout(batch.message)
    return {
        "first_row": batch.first_row,
        "rows": batch.rows,
        "nodes": [[node.length, node.null_count] for node in layout.nodes],
        "buffers": [[entry.offset, entry.length] for entry in layout.buffers],
        "columns": {
            name: arrow_body.plain_values(column)
            for name, column in zip(record_batch.schema.names, record_batch.columns)
        },
    }


def _describe_message(message, schema):
    if isinstance(message, frames.Schema):
        return describe_schema(message.schema)
    if isinstance(message, frames.Batch):
        return describe_batch(message, schema)
    if isinstance(message, frames.Placed):
        names = ("offset", "length", "first_row", "rows")
        return {name: getattr(message, name) for name in names}
    if isinstance(message, frames.Open):
        return json.loads(message.frame(1, 0).metadata)
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def _hex_parts(parts):
    return [bytes(part).hex() for part in parts]


def _describe_header(frame):
    return {
        "version": frame.version,
        "type": frame.type,
        "type_name": frames.FrameType(frame.type).name if not frame.ignored else "",
        "flags": frame.flags,
        "session": f"{frame.session:016x}",
        "seq": frame.seq,
        "metadata_length": len(frame.metadata),
    }


# --- good frames ----------------------------------------------------------------------------------


class _Golden:
    """Collects the entries of the file."""

    def __init__(self):
        self.good = []
        self.malformed = []
        self.schemas = {}

    def add(self, name, receiver, message, session, seq, schema_name=""):
        self.add_frame(name, receiver, message.frame(session, seq), schema_name)

    def add_frame(self, name, receiver, frame, schema_name=""):
        parts = frame.parts()
        decoded = frames.Frame.from_parts(parts, receiver)
        message = frames.decode(decoded)
        entry = {"name": name, "receiver": receiver, "header": _describe_header(decoded)}
        if isinstance(message, frames.Batch):
            entry["schema"] = schema_name
            entry["credit_bytes"] = decoded.credit_bytes
        if message is not None:
            entry["message"] = _describe_message(message, self.schemas.get(schema_name))
        entry["parts"] = _hex_parts(parts)
        self.good.append(entry)

    def refuse(self, name, receiver, parts, reason, outcome="bad_frame", schema_name=""):
        entry = {"name": name, "receiver": receiver, "outcome": outcome, "reason": reason}
        if schema_name:
            entry["schema"] = schema_name
        entry["parts"] = _hex_parts(parts)
        self.malformed.append(entry)


def sample_open(**changes):
    value = {
        "feed_id": "9f3c2a7be01d4c55",
        "queue": "input",
        "mode": "train",
        "partition": 3,
        "data_epoch": 0,
        "feeder_attempt": 0,
        "node_nonce": "5b0c9e1f22d3a4b6",
        "first_row": 0,
        "result_limit": 0,
        "reply": {"endpoint": "ipc://@millrace-0c2d", "challenge": "f00d" * 8},
    }
    value.update(changes)
    return value


def _open_frame(value, session=FEEDER_SESSION):
    data = json.dumps(value, separators=(",", ":")).encode()
    return frames.Frame(frames.FrameType.OPEN, session, 0, data)


def add_good(golden):
    golden.add_frame("open_train", "node", _open_frame(sample_open()))
    golden.add_frame("open_resume", "node", _open_frame(sample_open(first_row=4096, feeder_attempt=2, data_epoch=1)))
    inference = sample_open(mode="inference", queue="predict", result_limit=16 << 20)
    golden.add_frame("open_inference", "node", _open_frame(inference, INFERENCE_SESSION))
    curve = {
        "endpoint": "tcp://198.51.100.7:40123",
        "challenge": "",
        "curve_key": "0123456789abcdefghijklmnopqrstuvwxyzABCD",
    }
    golden.add_frame("open_curve", "node", _open_frame(sample_open(reply=curve)))
    shared = sample_open(shared_memory=True)
    shared["reply"] = shared.pop("reply")  # comes last
    golden.add_frame("open_shared_memory", "node", _open_frame(shared))
    golden.add_frame("open_unknown_members", "node", _open_frame(sample_open(later={"a": [[[[1]]]]}, note="\u00fc{[")))
    first_rows = {"training": 100}
    for seq, (name, record_batch, cuts) in enumerate(sample_batches()):
        golden.schemas[name] = record_batch.schema
        golden.add(f"schema_{name}", "node", frames.Schema(record_batch.schema), FEEDER_SESSION, 1)
        batch = frames.Batch.from_record_batch(first_rows.get(name, 0), record_batch)
        golden.add(f"batch_{name}", "node", batch, FEEDER_SESSION, 2 + seq, name)
        if cuts:
            batch = frames.Batch.from_record_batch(first_rows.get(name, 0), record_batch, cuts)
            golden.add(f"batch_{name}_in_parts", "node", batch, FEEDER_SESSION, 2 + seq, name)
    golden.add("end_partition", "node", frames.EndPartition(104), FEEDER_SESSION, 20)
    golden.add("end_partition_empty", "node", frames.EndPartition(0), FEEDER_SESSION, 1)
    golden.add("abort", "node", frames.Abort("CANCELLED", "the task was killed"), FEEDER_SESSION, 21)
    golden.add("blocked", "node", frames.Blocked(9 << 20), FEEDER_SESSION, 3)
    golden.add("result_credit", "node", frames.ResultCredit(21 << 20), INFERENCE_SESSION, 4)
    golden.add("revoke", "node", frames.Revoke(2**63 - 1), FEEDER_SESSION, 21)
    golden.add("revoke_unless_begun", "node", frames.Revoke(0), FEEDER_SESSION, 21)
    golden.add("mapped", "node", frames.Mapped("", True), FEEDER_SESSION, 1)
    reason = "/proc/4711/fd/17: Permission denied"
    golden.add("mapped_not", "node", frames.Mapped(reason), FEEDER_SESSION, 1)
    simple = frames.Batch.from_record_batch(0, sample_batches()[0][1])
    body_bytes = sum(len(part) for part in simple.body)
    placed = frames.Placed(4096, body_bytes, simple.first_row, simple.rows, simple.message)
    golden.add("placed_simple", "node", placed, FEEDER_SESSION, 3)
    golden.add("credit", "feeder", frames.Credit(8 << 20, 0), FEEDER_SESSION, 0)
    golden.add("credit_above_4_gib", "feeder", frames.Credit(5 << 30, (5 << 30) - 4096), FEEDER_SESSION, 1)
    golden.add("received", "feeder", frames.Received(104), FEEDER_SESSION, 2)
    golden.add("ack", "feeder", frames.Ack(104), FEEDER_SESSION, 3)
    golden.add("schema_result", "feeder", frames.Schema(golden.schemas["floats"]), INFERENCE_SESSION, 1)
    floats = next(batch for name, batch, _ in sample_batches() if name == "floats")
    golden.add("result", "feeder", frames.Result.from_record_batch(0, floats, (1,)), INFERENCE_SESSION, 2, "floats")
    golden.add("done_train", "feeder", frames.Done(104, 0), FEEDER_SESSION, 4)
    golden.add("done_inference", "feeder", frames.Done(4, 4), INFERENCE_SESSION, 3)
    golden.add("wait", "feeder", frames.Wait(2, 17), INFERENCE_SESSION, 0)
    golden.add("terminated", "feeder", frames.Terminated("the program called Terminate(\"input\")"), FEEDER_SESSION, 4)
    in_hand = frames.Terminated("the cluster is shutting down", row=64)
    golden.add("terminated_in_hand", "feeder", in_hand, FEEDER_SESSION, 4)
    no_queue = frames.Error("NOT_FOUND", "no queue \"inptu\"; there are: input, predict")
    golden.add("error", "feeder", no_queue, FEEDER_SESSION, 0)
    golden.add("revoked", "feeder", frames.Revoked(64), FEEDER_SESSION, 3)
    segment = frames.Segment(4711, 17, 4096 + (256 << 20), "9f3c2a7be01d4c555b0c9e1f22d3a4b6")
    golden.add("segment", "feeder", segment, FEEDER_SESSION, 0)
    golden.add("room", "feeder", frames.Room(4096, 16 << 20), FEEDER_SESSION, 2)
    lent = frames.PlacedResult(8192, body_bytes, simple.first_row, simple.rows, simple.message)
    golden.add("placed_result", "feeder", lent, INFERENCE_SESSION, 3)
    optional = frames.Frame(200, FEEDER_SESSION, 5, b"from a later version", flags=frames.FLAG_OPTIONAL)
    golden.add_frame("unknown_optional_to_node", "node", optional)
    golden.add_frame("unknown_optional_to_feeder", "feeder", optional)


# --- frames to refuse -----------------------------------------------------------------------------


def _header(
    kind, metadata_length, session=FEEDER_SESSION, seq=0, magic=b"MRF1", version=frames.VERSION, flags=0, zero=0
):
    return frames.HEADER.pack(magic, version, kind, flags, session, seq, metadata_length, zero)


def refuse_headers(golden):
    credit = struct.pack("<QQ", 4096, 0)
    good = _header(16, 16)

    def refuse(name, header, reason, outcome="bad_frame"):
        golden.refuse(name, "feeder", [header, credit], reason, outcome)

    refuse("header_empty", b"", "header_size")
    refuse("header_of_31_bytes", good[:31], "header_size")
    refuse("header_of_33_bytes", good + b"\0", "header_size")
    refuse("magic_of_another_protocol", _header(16, 16, magic=b"MRF2"), "magic")
    refuse("magic_lower_case", _header(16, 16, magic=b"mrf1"), "magic")
    refuse("magic_reversed", _header(16, 16, magic=b"1FRM"), "magic")
    refuse("version_0", _header(16, 16, version=0), "version")
    refuse("version_1", _header(16, 16, version=1), "version", "unimplemented")
    refuse("version_3", _header(16, 16, version=3), "version", "unimplemented")
    refuse("version_255", _header(16, 16, version=255), "version", "unimplemented")
    refuse("type_0", _header(0, 16), "type")
    refuse("type_200_not_optional", _header(200, 16), "type")
    refuse("flags_with_an_unknown_bit", _header(16, 16, flags=2), "flags")
    refuse("flags_high_byte", _header(16, 16, flags=0x8000), "flags")
    refuse("last_field_not_zero", _header(16, 16, zero=1), "reserved")
    refuse("session_0", _header(16, 16, session=0), "session")
    refuse("metadata_shorter_than_given", _header(16, 17), "metadata_length")
    refuse("metadata_longer_than_given", _header(16, 15), "metadata_length")
    refuse("metadata_of_4_gib_given", _header(16, 0xFFFFFFFF), "metadata_length")
    refuse("metadata_not_given_but_there", _header(16, 0), "metadata_length")
    golden.refuse("metadata_given_but_not_there", "feeder", [good], "metadata_length")
    golden.refuse("metadata_part_empty", "feeder", [_header(16, 0), b""], "metadata_length")
    golden.refuse("body_part_on_credit", "feeder", [good, credit, b"12345678"], "parts")
    placed = frames.Frame(10, FEEDER_SESSION, 1, bytes(48))
    golden.refuse("body_part_on_placed", "node", [*placed.parts(), b"12345678"], "parts")
    lent = frames.Frame(27, FEEDER_SESSION, 1, bytes(48))
    golden.refuse("body_part_on_placed_result", "feeder", [*lent.parts(), b"12345678"], "parts")
    golden.refuse("body_part_on_open", "node", [*_open_frame(sample_open()).parts(), b""], "parts")
    golden.refuse("credit_to_the_node", "node", [good, credit], "direction")
    golden.refuse("open_to_the_feeder", "feeder", _open_frame(sample_open()).parts(), "direction")
    golden.refuse("result_to_the_node", "node", frames.Frame(19, FEEDER_SESSION, 1, b"x" * 16).parts(), "direction")


def refuse_binary_metadata(golden):
    sizes = [(4, "end_partition", "node", 8), (16, "credit", "feeder", 16), (17, "received", "feeder", 8)]
    sizes += [(6, "blocked", "node", 8), (7, "result_credit", "node", 8), (8, "revoke", "node", 8)]
    sizes += [(18, "ack", "feeder", 8), (20, "done", "feeder", 16), (21, "wait", "feeder", 16)]
    sizes += [(24, "revoked", "feeder", 8), (26, "room", "feeder", 16)]
    for kind, name, receiver, size in sizes:
        for wrong in (0, size - 1, size + 1):
            frame = frames.Frame(kind, FEEDER_SESSION, 1, bytes(wrong))
            golden.refuse(f"{name}_of_{wrong}_bytes", receiver, frame.parts(), "metadata_size")
    for wrong in (15, 31):  # what names the body is cut, and what stands before the message
        frame = frames.Frame(10, FEEDER_SESSION, 1, bytes(wrong))
        golden.refuse(f"placed_of_{wrong}_bytes", "node", frame.parts(), "metadata_size")
        frame = frames.Frame(27, FEEDER_SESSION, 1, bytes(wrong))
        golden.refuse(f"placed_result_of_{wrong}_bytes", "feeder", frame.parts(), "metadata_size")


def refuse_json(golden):
    def refuse(name, data, reason, kind=1, receiver="node", outcome="bad_frame"):
        golden.refuse(name, receiver, frames.Frame(kind, FEEDER_SESSION, 0, data).parts(), reason, outcome)

    text = json.dumps(sample_open(), separators=(",", ":")).encode()
    refuse("open_without_metadata", b"", "json")
    refuse("open_garbage", bytes(range(256)), "json")
    refuse("open_truncated", text[:-1], "json")
    refuse("open_with_text_behind_it", text + b"x", "json")
    refuse("open_array", b"[" + text + b"]", "json")
    refuse("open_null", b"null", "json")
    refuse("open_not_utf8", text.replace(b"input", b"inp\xfft"), "json")
    refuse("open_nan", text.replace(b'"partition":3', b'"partition":NaN'), "json")
    deep = json.dumps(sample_open(), separators=(",", ":"))[:-1] + ',"later":' + "[" * 64 + "]" * 64 + "}"
    refuse("open_nested_64_deep", deep.encode(), "json_nesting")
    refuse("open_over_64_kib", json.dumps(sample_open(note="x" * 65536)).encode(), "json_size")
    for member in sample_open():
        value = sample_open()
        del value[member]
        outcome = "bad_frame" if member == "reply" else "refused"
        refuse(f"open_without_{member}", json.dumps(value).encode(), "json_member", outcome=outcome)
    for member in ("endpoint", "challenge"):
        value = sample_open()
        del value["reply"][member]
        refuse(f"open_without_reply_{member}", json.dumps(value).encode(), "json_member")
    wrong = [
        ("open_partition_negative", {"partition": -1}),
        ("open_partition_fraction", {"partition": 1.5}),
        ("open_partition_text", {"partition": "3"}),
        ("open_partition_true", {"partition": True}),
        ("open_first_row_null", {"first_row": None}),
        ("open_first_row_negative", {"first_row": -(2**63)}),
        ("open_queue_number", {"queue": 1}),
        ("open_mode_unknown", {"mode": "predict"}),
        ("open_feed_id_empty", {"feed_id": ""}),
        ("open_shared_memory_number", {"shared_memory": 1}),
        ("open_inference_with_first_row", {"mode": "inference", "first_row": 5}),
    ]
    for name, change in wrong:
        refuse(name, json.dumps(sample_open(**change)).encode(), "json_member", outcome="refused")
    refuse("open_reply_text", json.dumps(sample_open(reply="ipc://@millrace-0c2d")).encode(), "json_member")
    refuse("mapped_without_reason", b"{}", "json_member", 9)
    refuse("mapped_results_number", b'{"reason":"","results":1}', "json_member", 9)
    refuse("segment_without_id", b'{"pid":1,"fd":2,"bytes":8192}', "json_member", 25, "feeder")
    refuse("segment_pid_text", b'{"pid":"1","fd":2,"bytes":8192,"id":"a"}', "json_member", 25, "feeder")
    refuse("abort_garbage", b"{code", "json", 5)
    refuse("abort_without_code", b'{"message":"x"}', "json_member", 5)
    refuse("error_without_code", b'{"message":"x"}', "json_member", 23, "feeder")
    refuse("error_without_message", b'{"code":"INTERNAL"}', "json_member", 23, "feeder")
    refuse("terminated_without_message", b"{}", "json_member", 22, "feeder")
    refuse("terminated_row_negative", b'{"message":"x","row":-1}', "json_member", 22, "feeder")
    refuse("terminated_row_text", b'{"message":"x","row":"64"}', "json_member", 22, "feeder")
    refuse("error_garbage", b"\x00\x01\x02", "json", 23, "feeder")


def _with_i32(data, position, value):
    return data[:position] + struct.pack("<i", value) + data[position + 4 :]


def _with_i64(data, position, value):
    return data[:position] + struct.pack("<q", value) + data[position + 8 :]


def _encapsulation_damage(message):
    """(name, bytes) of everything that can be wrong around a flatbuffer."""
    length = len(message) - 8
    return [
        ("of_7_bytes", message[:7]),
        ("only_the_prefix", message[:8]),
        ("truncated", message[:-8]),
        ("with_8_bytes_behind_it", message + bytes(8)),
        ("without_continuation", message[4:]),
        ("continuation_wrong", b"\xff\xff\xff\xfe" + message[4:]),
        ("length_0", _with_i32(message, 4, 0)),
        ("length_negative", _with_i32(message, 4, -1)),
        ("length_smallest", _with_i32(message, 4, -(2**31))),
        ("length_8_too_long", _with_i32(message, 4, length + 8)),
        ("length_largest", _with_i32(message, 4, 2**31 - 1)),
    ]


def _flatbuffer_damage(message):
    """(name, bytes) of flatbuffers that a verifier refuses."""
    root = 8 + struct.unpack_from("<I", message, 8)[0]
    return [
        ("flatbuffer_zeros", message[:8] + bytes(len(message) - 8)),
        ("flatbuffer_ones", message[:8] + b"\xff" * (len(message) - 8)),
        ("root_outside", _with_i32(message, 8, len(message))),
        ("root_far_outside", _with_i32(message, 8, 0x7FFFFFF0)),
        ("vtable_outside", _with_i32(message, root, 0x7FFFFFF0)),
        ("vtable_before_the_message", _with_i32(message, root, root)),
        ("vtable_behind_the_message", _with_i32(message, root, -len(message))),
    ]


def refuse_schemas(golden):
    def refuse(name, data, reason):
        golden.refuse(name, "node", frames.Frame(2, FEEDER_SESSION, 1, data).parts(), reason)

    message = arrow_body.write_schema(golden.schemas["training"])
    refuse("schema_without_metadata", b"", "encapsulation")
    for name, data in _encapsulation_damage(message):
        refuse(f"schema_{name}", data, "encapsulation")
    for name, data in _flatbuffer_damage(message):
        refuse(f"schema_{name}", data, "flatbuffer")
    batch_message, _ = arrow_body.cut_batch(sample_batches()[0][1])
    refuse("schema_holds_a_record_batch", batch_message, "flatbuffer")
    deep = pa.int8()
    for _ in range(40):
        deep = pa.list_(deep)
    refuse("schema_nested_41_deep", arrow_body.write_schema(pa.schema([("deep", deep)])), "nesting")


def refuse_types(golden):
    """Schemas in order, of something that is not carried: they end their session, and no more."""

    def refuse(name, schema, reason="type"):
        frame = frames.Frame(2, FEEDER_SESSION, 1, arrow_body.write_schema(schema))
        golden.refuse(f"schema_{name}", "node", frame.parts(), reason, "unsupported")

    dense = pa.dense_union([pa.field("a", pa.int8())])
    kinds = [
        ("a_dictionary", pa.dictionary(pa.int8(), pa.utf8())),
        ("null", pa.null()),
        ("time32", pa.time32("ms")),
        ("time64", pa.time64("us")),
        ("duration", pa.duration("us")),
        ("interval", pa.month_day_nano_interval()),
        ("decimal128", pa.decimal128(10, 2)),
        ("fixed_size_binary", pa.binary(16)),
        ("map", pa.map_(pa.utf8(), pa.int8())),
        ("union", dense),
        ("run_end_encoded", pa.run_end_encoded(pa.int32(), pa.int8())),
        ("utf8_view", pa.string_view()),
        ("list_of_size_0", pa.list_(pa.int8(), 0)),
        ("lists_of_2_to_32_values", pa.list_(pa.list_(pa.int8(), 2**16), 2**16)),
        ("struct_without_fields", pa.struct([])),
        ("struct_with_one_name_twice", pa.struct([("a", pa.int8()), ("a", pa.int8())])),
    ]
    for name, kind in kinds:
        reason = "names" if name.endswith("twice") else "type"
        refuse(f"with_{name}", pa.schema([("column", kind)]), reason)
    refuse("with_a_map_in_a_list", pa.schema([("column", pa.list_(pa.map_(pa.utf8(), pa.int8())))]))
    refuse("with_one_name_twice", pa.schema([("a", pa.int8()), ("a", pa.int8())]), "names")


class _BatchDamage:
    """Refused BATCH frames that are made by patching one sample batch."""

    def __init__(self, golden, schema_name, cuts=()):
        self._golden = golden
        self._schema_name = schema_name
        record_batch = next(batch for name, batch, _ in sample_batches() if name == schema_name)
        self.rows = record_batch.num_rows
        self.message, self.body = arrow_body.cut_batch(record_batch, cuts)
        self.layout = arrow_body.parse_layout(self.message)

    def refuse(self, name, reason, message=None, body=None, rows=None, metadata=None):
        if metadata is None:
            prefix = struct.pack("<QII", 0, self.rows if rows is None else rows, 0)
            metadata = prefix + (self.message if message is None else message)
        frame = frames.Frame(3, FEEDER_SESSION, 2, metadata, self.body if body is None else body)
        self._golden.refuse(f"batch_{name}", "node", frame.parts(), reason, schema_name=self._schema_name)

    def node(self, name, index, reason, length=None, null_count=None):
        node = self.layout.nodes[index]
        message = self.message
        if length is not None:
            message = _with_i64(message, node.position, length)
        if null_count is not None:
            message = _with_i64(message, node.position + 8, null_count)
        self.refuse(name, reason, message)

    def buffer(self, name, index, reason, offset=None, length=None):
        entry = self.layout.buffers[index]
        message = self.message
        if offset is not None:
            message = _with_i64(message, entry.position, offset)
        if length is not None:
            message = _with_i64(message, entry.position + 8, length)
        self.refuse(name, reason, message)

    def patched_body(self, name, index, reason, form, values, at=0):
        """Overwrites values of buffer `index`, which lies in part 0."""
        body = bytearray(self.body[0])
        struct.pack_into(form, body, self.layout.buffers[index].offset + at, *values)
        self.refuse(name, reason, body=[bytes(body), *self.body[1:]])


HUGE = [
    ("2_to_31", 2**31),
    ("2_to_60", 2**60),
    ("2_to_61", 2**61),
    ("2_to_61_plus_1", 2**61 + 1),
    ("2_to_63_minus_1", 2**63 - 1),
]
NEGATIVE = [("minus_1", -1), ("minus_8", -8), ("minus_2_to_63", -(2**63))]


def refuse_batch_frames(golden):
    damage = _BatchDamage(golden, "training")
    prefix = struct.pack("<QII", 0, damage.rows, 0)
    damage.refuse("without_metadata", "metadata_size", metadata=b"", body=[])
    damage.refuse("metadata_of_15_bytes", "metadata_size", metadata=prefix[:15])
    damage.refuse("only_the_prefix_of_16_bytes", "encapsulation", metadata=prefix)
    damage.refuse("rows_0", "rows", rows=0)
    damage.refuse("rows_2_to_31", "rows", rows=2**31)
    damage.refuse("rows_2_to_32_minus_1", "rows", rows=2**32 - 1)
    damage.refuse("rows_more_than_the_message_says", "node_length", rows=5)
    damage.refuse("rows_fewer_than_the_message_says", "node_length", rows=3)
    damage.refuse("zero_field_not_zero", "reserved", metadata=struct.pack("<QII", 0, 4, 1) + damage.message)
    for name, data in _encapsulation_damage(damage.message):
        damage.refuse(name, "encapsulation", data)
    for name, data in _flatbuffer_damage(damage.message):
        damage.refuse(name, "flatbuffer", data)
    damage.refuse("holds_a_schema", "flatbuffer", arrow_body.write_schema(golden.schemas["training"]))
    vector = damage.layout.nodes[0].position - 4
    damage.refuse("node_vector_huge", "flatbuffer", _with_i32(damage.message, vector, 0x0FFFFFFF))
    damage.refuse("node_vector_wraps", "flatbuffer", _with_i32(damage.message, vector, 0x10000001))
    vector = damage.layout.buffers[0].position - 4
    damage.refuse("buffer_vector_huge", "flatbuffer", _with_i32(damage.message, vector, -1))
    damage.refuse("one_node_too_few", "node_count", _with_i32(damage.message, damage.layout.nodes[0].position - 4, 2))
    too_few = len(damage.layout.buffers) - 1
    damage.refuse("one_buffer_too_few", "buffer_count", _with_i32(damage.message, vector, too_few))
    wide = pa.record_batch({"a": [1], "b": [2], "c": [3], "d": [4]})
    message, body = arrow_body.cut_batch(wide)
    simple = _BatchDamage(golden, "simple")
    simple.refuse("of_another_schema", "node_count", message, body, rows=1)
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    big = pa.record_batch({"x": pa.array([7] * 64, pa.int32())})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, big.schema, options=options) as writer:
        writer.write_batch(big)
    data = sink.getvalue().to_pybytes()[len(arrow_body.write_schema(big.schema)) :]
    length = 8 + struct.unpack_from("<i", data, 4)[0]
    simple.refuse("compressed", "compressed", data[:length], [data[length:-8]], rows=64)


def refuse_nodes(golden):
    damage = _BatchDamage(golden, "training")
    for name, value in HUGE + NEGATIVE:
        damage.node(f"node_length_{name}", 0, "node_length", length=value)
        damage.node(f"null_count_{name}", 2, "null_count", null_count=value)
        message = _with_i64(damage.message, damage.layout.length_position, value)
        damage.refuse(f"length_{name}", "node_length", message)
    damage.node("node_length_above_rows", 1, "node_length", length=5)
    damage.node("node_length_below_rows", 1, "node_length", length=3)
    damage.node("null_count_above_length", 1, "null_count", null_count=5)
    lists = _BatchDamage(golden, "lists")
    for name, value in HUGE + NEGATIVE:
        lists.node(f"list_child_length_{name}", 3, "node_length", length=value)
    lists.node("fixed_size_list_child_too_short", 1, "node_length", length=8)
    lists.node("list_child_shorter_than_its_offsets", 3, "offsets", length=1)
    lists.node("list_child_longer_than_its_buffer", 3, "buffer_size", length=3)
    structs = _BatchDamage(golden, "structs")
    for name, value in HUGE + NEGATIVE + [("above_the_struct", 4), ("below_the_struct", 2)]:
        structs.node(f"struct_field_length_{name}", 1, "node_length", length=value)
    structs.node("struct_null_count_above_length", 4, "null_count", null_count=4)
    nested = _BatchDamage(golden, "nested")
    for name, value in HUGE + NEGATIVE:
        nested.node(f"inner_list_length_{name}", 1, "node_length", length=value)
        nested.node(f"inner_list_null_count_{name}", 6, "null_count", null_count=value)
    nested.node("inner_fixed_size_list_too_short", 2, "node_length", length=11)


def refuse_buffers(golden):
    damage = _BatchDamage(golden, "training")
    values = 1  # the values of the int64 column "id"; 5 and 6 are offsets and data of "name"
    for name, value in HUGE + NEGATIVE:
        damage.buffer(f"buffer_length_{name}", values, "buffer_range", length=value)
    for name, value in HUGE[:3] + [("2_to_63_minus_8", 2**63 - 8)] + NEGATIVE:
        damage.buffer(f"buffer_offset_{name}", values, "buffer_range", offset=value)
    damage.buffer("buffer_end_wraps_64_bits", values, "buffer_range", offset=2**63 - 8, length=2**63 - 1)
    damage.buffer("buffer_end_wraps_to_0", values, "buffer_range", offset=8, length=2**63 - 8)
    damage.buffer("buffer_offset_1", values, "buffer_alignment", offset=1)
    damage.buffer("buffer_offset_4", values, "buffer_alignment", offset=4)
    size = arrow_body.round_up_to_8(len(damage.body[0]))
    damage.buffer("buffer_offset_behind_the_body", values, "buffer_range", offset=size + 8)
    damage.buffer("buffer_one_byte_behind_the_body", values, "buffer_range", offset=size - 32, length=33)
    damage.buffer("buffer_shorter_than_its_values", values, "buffer_size", length=31)
    damage.buffer("validity_shorter_than_the_rows", 2, "buffer_size", length=0)
    damage.buffer("offsets_shorter_than_the_rows", 5, "buffer_size", length=19)
    damage.buffer("data_shorter_than_the_offsets_say", 6, "buffer_size", length=5)
    damage.refuse("body_missing", "buffer_range", body=[])
    damage.refuse("body_empty", "buffer_range", body=[b""])
    damage.refuse("body_truncated", "buffer_range", body=[damage.body[0][:16]])
    data = damage.body[0]
    damage.refuse("part_cut_inside_a_buffer", "buffer_range", body=[data[:16], data[16:]])
    damage.refuse("part_cut_at_an_odd_place", "buffer_range", body=[data[:13], data[13:]])
    in_parts = _BatchDamage(golden, "training", (1, 3, 6))
    in_parts.refuse("last_part_missing", "buffer_range", body=in_parts.body[:-1])
    in_parts.refuse("first_part_missing", "buffer_range", body=in_parts.body[1:])
    in_parts.refuse("parts_swapped", "buffer_range", body=in_parts.body[::-1])


def refuse_values(golden):
    damage = _BatchDamage(golden, "training")
    offsets = 5
    damage.patched_body("offsets_descending", offsets, "offsets", "<i", [2], at=4 * 3)
    damage.patched_body("offset_first_negative", offsets, "offsets", "<i", [-1])
    damage.patched_body("offset_inside_behind_the_data", offsets, "offsets", "<i", [2**31 - 1], at=4 * 2)
    damage.patched_body("offset_last_behind_the_data", offsets, "buffer_size", "<i", [2**31 - 1], at=4 * 4)
    damage.patched_body("offset_last_one_behind_the_data", offsets, "buffer_size", "<i", [7], at=4 * 4)
    damage.patched_body("utf8_lone_continuation", 6, "utf8", "<B", [0x80])
    damage.patched_body("utf8_overlong", 6, "utf8", "<2B", [0xC0, 0xAF], at=1)
    damage.patched_body("utf8_surrogate", 6, "utf8", "<3B", [0xED, 0xA0, 0x80], at=3)
    damage.patched_body("utf8_cut_between_rows", 6, "utf8", "<3B", [0xC3, 0xBC, 0x61])
    lists = _BatchDamage(golden, "lists")
    list_offsets = 4
    lists.patched_body("list_offsets_descending", list_offsets, "offsets", "<i", [3], at=4)
    lists.patched_body("list_offset_negative", list_offsets, "offsets", "<i", [-4])
    lists.patched_body("list_offset_last_huge", list_offsets, "offsets", "<i", [2**31 - 1], at=4 * 3)
    structs = _BatchDamage(golden, "structs")
    structs.patched_body("utf8_in_a_list_in_a_struct", 7, "utf8", "<B", [0xFF])
    structs.patched_body("offsets_descending_in_a_struct", 4, "offsets", "<i", [4], at=4)
    large = _BatchDamage(golden, "large")
    for name, value in HUGE[1:]:
        large.patched_body(f"large_list_offset_{name}", 7, "offsets", "<q", [value], at=8 * 4)
        large.patched_body(f"large_utf8_offset_{name}", 1, "buffer_size", "<q", [value], at=8 * 4)
    for name, value in NEGATIVE:
        large.patched_body(f"large_list_offset_{name}", 7, "offsets", "<q", [value])


def sample_logins():
    key = "0123456789abcdef" * 4
    feeder = "feeder/5b0c9e1f22d3a4b6"
    node = "node/9f3c2a7be01d4c55"
    for count, challenge in ((1, "f00d" * 8), (2**40 + 5, "00" * 16)):
        yield {
            "key": key,
            "feeder": feeder,
            "count": count,
            "feeder_password": logins.feeder_password(key, feeder, count),
            "node": node,
            "challenge": challenge,
            "node_password": logins.node_password(key, challenge, feeder, node),
        }


def make_golden():
    golden = _Golden()
    add_good(golden)
    refuse_headers(golden)
    refuse_binary_metadata(golden)
    refuse_json(golden)
    refuse_schemas(golden)
    refuse_types(golden)
    refuse_batch_frames(golden)
    refuse_nodes(golden)
    refuse_buffers(golden)
    refuse_values(golden)
    return {
        "about": "Feed protocol, version 2: docs/feed_protocol.md. Written by testing/golden/make_feed_frames.py.",
        "frames": golden.good,
        "malformed": golden.malformed,
        "logins": list(sample_logins()),
    }


def to_text(value):
    """The file's text: one line per entry of the lists, so that differences stay readable."""
    lines = ["{", f' "about": {json.dumps(value["about"])},']
    for name, last in (("frames", False), ("malformed", False), ("logins", True)):
        lines.append(f' "{name}": [')
        entries = [json.dumps(entry, separators=(", ", ": ")) for entry in value[name]]
        lines.append(",\n".join("  " + entry for entry in entries))
        lines.append(" ]" if last else " ],")
    lines.append("}")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="the golden file to write")
    parser.add_argument("--doc", help="the page whose section \"Byte examples\" is to be written anew")
    arguments = parser.parse_args()
    value = make_golden()
    if arguments.output:
        with open(arguments.output, "w", encoding="utf-8", newline="\n") as file:
            file.write(to_text(value))
    if arguments.doc:
        with open(arguments.doc, encoding="utf-8") as file:
            page = file.read()
        page = render_doc.replace_section(page, value)
        with open(arguments.doc, "w", encoding="utf-8", newline="\n") as file:
            file.write(page)
    if not arguments.output and not arguments.doc:
        sys.stdout.write(to_text(value))


if __name__ == "__main__":
    main()
