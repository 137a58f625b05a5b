"""The section "Byte examples" of docs/feed_protocol.md, made from the golden file."""

import struct

HEADING = "## 12. Byte examples"

# One frame of each type, in the order of section 3.
EXAMPLES = [
    "open_train",
    "schema_simple",
    "batch_simple",
    "batch_training_in_parts",
    "end_partition",
    "abort",
    "blocked",
    "result_credit",
    "revoke",
    "mapped",
    "placed_simple",
    "credit",
    "received",
    "ack",
    "result",
    "done_inference",
    "wait",
    "terminated",
    "error",
    "revoked",
    "segment",
    "room",
]

_INTRODUCTION = """\
These are frames of `testing/golden/feed_frames.json`, under the names that they have there, with \
at most 32 bytes of each stretch. The left column is the offset within the part. A test compares \
this section with that file; `testing/golden/make_feed_frames.py --doc` writes it.
"""

_LINE_BYTES = 16


def _line(offset, data, note):
    text = f"{offset:04x}  {data.hex(' ')}"
    return f"{text:<53}  {note}".rstrip()


def _stretch(start, data, note, text=False):
    """Lines for `data`, which begins at offset `start` of its part."""
    lines = []
    shown = data if len(data) <= 3 * _LINE_BYTES else data[: 2 * _LINE_BYTES]
    for at in range(0, len(shown), _LINE_BYTES):
        piece = shown[at : at + _LINE_BYTES]
        remark = note if at == 0 else ""
        if text:
            remark = piece.decode("ascii", errors="replace")
        lines.append(_line(start + at, piece, remark))
    if len(shown) < len(data):
        lines.append(f"....  {len(data) - len(shown)} more bytes")
    return lines


def _header_lines(entry, part):
    header = entry["header"]
    kind = f"version {header['version']}, type {header['type']}, flags {header['flags']}"
    first = f"MRF1, {kind}, session 0x{header['session']}"
    return [
        _line(0, part[:16], first),
        _line(16, part[16:], f"seq {header['seq']}, metadata_length {header['metadata_length']}, zero"),
    ]


def _encapsulated_lines(start, data, what):
    length = struct.unpack_from("<i", data, 4)[0]
    lines = [_line(start, data[:8], f"0xFFFFFFFF, length {length}")]
    return lines + _stretch(start + 8, data[8:], f"flatbuffer: {what}")


def _metadata_lines(entry, data):
    kind = entry["header"]["type_name"]
    message = entry["message"]
    if kind in ("BATCH", "RESULT"):
        lines = [
            _line(0, data[:8], f"first_row {message['first_row']}"),
            _line(8, data[8:16], f"rows {message['rows']}, zero"),
        ]
        return lines + _encapsulated_lines(16, data[16:], "Message with a RecordBatch")
    if kind in ("PLACED", "PLACED_RESULT"):
        lines = [
            _line(0, data[:8], f"offset {message['offset']}"),
            _line(8, data[8:16], f"length {message['length']}"),
            _line(16, data[16:24], f"first_row {message['first_row']}"),
            _line(24, data[24:32], f"rows {message['rows']}, zero"),
        ]
        return lines + _encapsulated_lines(32, data[32:], "Message with a RecordBatch")
    if kind == "SCHEMA":
        fields = ", ".join(f"{field['name']}: {field['type']}" for field in message["fields"])
        return _encapsulated_lines(0, data, f"Message with a Schema, {fields}")
    if data[:1] == b"{":
        return _stretch(0, data, "", text=True)
    return [_line(8 * i, data[8 * i : 8 * i + 8], f"{name} {value}") for i, (name, value) in enumerate(message.items())]


def _body_lines(entry, parts):
    """Each body part, with the buffers of the batch that lie in it."""
    lines = []
    start = 0
    for number, part in enumerate(parts):
        lines.append(f"part {2 + number}: body offset {start}, {len(part)} bytes")
        for offset, length in entry["message"]["buffers"]:
            if length and start <= offset < start + len(part):
                at = offset - start
                lines += _stretch(at, part[at : at + length], f"buffer at {offset}, {length} bytes")
        start += (len(part) + 7) // 8 * 8
    return lines


def _example(entry):
    parts = [bytes.fromhex(part) for part in entry["parts"]]
    lines = [f"**{entry['header']['type_name']}** (`{entry['name']}`)", "```"]
    lines += ["part 0: header", *_header_lines(entry, parts[0])]
    lines += ["part 1: metadata", *_metadata_lines(entry, parts[1])]
    if len(parts) > 2:
        lines += _body_lines(entry, parts[2:])
    return "\n".join([*lines, "```"])


def render(golden):
    """The whole section, from its heading to the newline that ends the page."""
    by_name = {entry["name"]: entry for entry in golden["frames"]}
    examples = [_example(by_name[name]) for name in EXAMPLES]
    return "\n".join([HEADING, "", _INTRODUCTION, "\n\n".join(examples)]) + "\n"


def section_of(page):
    """The section as it stands in the page, "" when there is none. It is the page's last."""
    at = page.find(HEADING)
    return page[at:] if at >= 0 else ""


def replace_section(page, golden):
    old = section_of(page)
    kept = page[: len(page) - len(old)].rstrip("\n")
    return kept + "\n\n" + render(golden)
