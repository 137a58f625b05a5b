"""frames.py against the golden file, and the limits that are too large to be in it."""

import json
import pathlib
import struct
import unittest

import pyarrow as pa

import arrow_body
import frames

GOLDEN = json.loads(pathlib.Path("testing/golden/feed_frames.json").read_text(encoding="utf-8"))


def _parts(entry):
    return [bytes.fromhex(part) for part in entry["parts"]]


def _decode(entry):
    frame = frames.Frame.from_parts(_parts(entry), entry["receiver"])
    return frame, frames.decode(frame)


def _schemas():
    schemas = {}
    for entry in GOLDEN["frames"]:
        if entry["name"].startswith("schema_"):
            schemas[entry["name"].removeprefix("schema_")] = _decode(entry)[1].schema
    return schemas


class GoldenFramesTest(unittest.TestCase):
    def setUp(self):
        self.schemas = _schemas()

    def test_headers_are_read_as_described(self):
        for entry in GOLDEN["frames"]:
            with self.subTest(entry["name"]):
                frame, _ = _decode(entry)
                header = entry["header"]
                self.assertEqual(frame.type, header["type"])
                self.assertEqual(frame.flags, header["flags"])
                self.assertEqual(f"{frame.session:016x}", header["session"])
                self.assertEqual(frame.seq, header["seq"])
                self.assertEqual(len(frame.metadata), header["metadata_length"])

    def test_every_type_has_an_example(self):
        self.assertLessEqual(set(frames.FrameType), {entry["header"]["type"] for entry in GOLDEN["frames"]})

    def test_frames_are_written_as_they_were_read(self):
        for entry in GOLDEN["frames"]:
            with self.subTest(entry["name"]):
                frame, message = _decode(entry)
                self.assertEqual(frame.parts(), _parts(entry))
                # Unknown members of an OPEN are not kept.
                if message is not None and entry["name"] != "open_unknown_members":
                    self.assertEqual(message.frame(frame.session, frame.seq).parts(), _parts(entry))

    def test_plain_messages_say_what_is_described(self):
        for entry in GOLDEN["frames"]:
            _, message = _decode(entry)
            if message is None or isinstance(message, (frames.Open, frames.Schema, frames.Batch)):
                continue
            with self.subTest(entry["name"]):
                said = {name: value for name, value in vars(message).items() if not isinstance(value, bytes)}
                self.assertEqual(said, entry["message"])

    def test_batches_hold_the_rows_described(self):
        for entry in GOLDEN["frames"]:
            frame, message = _decode(entry)
            if not isinstance(message, frames.Batch):
                continue
            with self.subTest(entry["name"]):
                expected = entry["message"]
                batch = message.record_batch(self.schemas[entry["schema"]])
                self.assertEqual((message.first_row, message.rows), (expected["first_row"], expected["rows"]))
                columns = {name: arrow_body.plain_values(batch.column(name)) for name in batch.schema.names}
                self.assertEqual(columns, expected["columns"])
                self.assertEqual(frame.credit_bytes, entry["credit_bytes"])

    def test_malformed_frames_are_refused(self):
        for entry in GOLDEN["malformed"]:
            with self.subTest(entry["name"]):
                with self.assertRaises(frames.FrameError) as caught:
                    _, message = _decode(entry)
                    message.record_batch(self.schemas[entry["schema"]])
                self.assertEqual(caught.exception.outcome, entry["outcome"])
                self.assertEqual(caught.exception.reason, entry["reason"])

    def test_no_prefix_of_a_batch_is_accepted(self):
        entry = next(e for e in GOLDEN["frames"] if e["name"] == "batch_training")
        frame, _ = _decode(entry)
        schema = self.schemas["training"]
        for size in range(len(frame.metadata)):
            cut = frames.Frame(frame.type, frame.session, frame.seq, frame.metadata[:size], frame.body)
            with self.assertRaises(frames.FrameError, msg=f"{size} bytes"):
                frames.decode(frames.Frame.from_parts(cut.parts(), "node")).record_batch(schema)

    def test_no_flipped_byte_of_the_metadata_raises_anything_else(self):
        entry = next(e for e in GOLDEN["frames"] if e["name"] == "batch_lists")
        frame, _ = _decode(entry)
        schema = self.schemas["lists"]
        for at in range(len(frame.metadata)):
            for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
                metadata = frame.metadata[:at] + bytes([value]) + frame.metadata[at + 1 :]
                damaged = frames.Frame(frame.type, frame.session, frame.seq, metadata, frame.body)
                try:
                    frames.decode(frames.Frame.from_parts(damaged.parts(), "node")).record_batch(schema)
                except frames.FrameError:
                    pass


class LimitsTest(unittest.TestCase):
    def _refused(self, reason, metadata, kind=frames.FrameType.SCHEMA):
        frame = frames.Frame(kind, 1, 1, metadata)
        with self.assertRaises(frames.FrameError) as caught:
            frames.decode(frames.Frame.from_parts(frame.parts(), "node"))
        self.assertEqual(caught.exception.reason, reason)

    def test_a_schema_above_16_mib_is_refused(self):
        self._refused("schema_size", struct.pack("<Ii", 0xFFFFFFFF, 16 << 20) + bytes(16 << 20))

    def test_65537_columns_are_refused(self):
        schema = pa.schema([pa.field("c", pa.int8())] * 65537)
        self._refused("columns", arrow_body.write_schema(schema))

    def test_nesting_of_32_is_accepted_and_33_refused(self):
        kind = pa.int8()
        for _ in range(31):
            kind = pa.list_(kind)
        accepted = arrow_body.write_schema(pa.schema([("deep", kind)]))
        self.assertEqual(len(arrow_body.read_schema(accepted)), 1)
        self._refused("nesting", arrow_body.write_schema(pa.schema([("deep", pa.list_(kind))])))

    def test_json_of_64_kib_and_nesting_8_is_accepted(self):
        text = b'{"code":"CANCELLED","message":"","deep":' + b"[" * 7 + b"]" * 7 + b"}"
        frame = frames.Frame(frames.FrameType.ABORT, 1, 1, text + b" " * ((64 << 10) - len(text)))
        self.assertEqual(frames.decode(frame), frames.Abort("CANCELLED", ""))
        self._refused("json_size", frame.metadata + b" ", frames.FrameType.ABORT)
        self._refused("json_nesting", text.replace(b"[]", b"[[]]"), frames.FrameType.ABORT)

    def test_parts_may_be_cut_before_any_buffer(self):
        batch = pa.record_batch({"a": [1, None, 3], "b": ["x", "yy", None], "c": [[1.5], [], None]})
        for cut in range(9):
            for other in range(cut, 9):
                message, parts = arrow_body.cut_batch(batch, (cut, other))
                again = arrow_body.read_batch(message, parts, batch.schema, 3)
                self.assertTrue(again.equals(batch), (cut, other))


if __name__ == "__main__":
    unittest.main()
