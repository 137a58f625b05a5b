"""The numbers in the table of limits of docs/feed_protocol.md are those of the code."""

import os
import re
import unittest

# Where the page itself lies: sources of all packages are there.
ROOT = os.path.dirname(os.path.realpath(os.path.join(
    os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace", "README.md")))

# Of each row, the constants of each number in its second column; more than one where the code has it twice.
ROWS = {
    "one part of a message": [["feed/wire/zmq_socket.h kMaxMessageBytes"]],
    "BATCH, RESULT: metadata and body": [["feed/wire/frame.h kMaxBatchBytes"]],
    "SCHEMA": [
        ["feed/wire/frame.h kMaxSchemaMetadataSize", "feed/ipc/ipc.h kMaxSchemaMessageBytes"],
        ["millrace/schema.h kMaxColumns"],
        ["millrace/schema.h kMaxNesting"],
    ],
    "JSON metadata": [["feed/wire/frame.h kMaxJsonMetadataSize"], ["feed/wire/frame.h kMaxJsonMetadataDepth"]],
    "rows of a batch; any number in a frame": [
        ["feed/wire/frame.h kMaxFrameRows", "feed/ipc/ipc.h kMaxBatchRows"],
        ["feed/wire/frame.cc kMaxInt64"],
    ],
    "a principal": [["feed/wire/zmq_socket.cc kMaxPrincipalBytes"]],
    "reply endpoints of a principal, at one node": [["feed/receiver/receiver_loop.cc kMaxLinksPerPrincipal"]],
    "open sessions of a principal, at one node": [["feed/receiver/receiver_core.cc kMaxSessionsPerPrincipal"]],
    "poisoned principals, at one node": [["feed/receiver/receiver_loop.cc kMaxPoisoned"]],
    "feeders announced to a node": [["feed/receiver/receiver_loop.cc kMaxAnnounced"]],
    "feeders announced to a coordinator": [["core/coordinator/server/feed_control.cc kMaxFeeders"]],
    "a feed that holds up others and brings nothing": [["feed/receiver/receiver_core.cc kTurnPatience"]],
    "ended feeds that a queue remembers": [["feed/receiver/receive_queue.cc kMaxEndedFeeds"]],
    "feeds open at a coordinator": [["core/coordinator/state/feed_ledger.h kMaxFeeds"]],
    "partitions of a feed, all epochs": [["core/coordinator/state/feed_ledger.h kMaxPartitions"]],
}
UNITS = {"": 1, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "bytes": 1, "s": 1}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def constant(where):
    """The value of a constant of C++; a duration's in seconds."""
    path, name = where.split()
    value = re.search(rf"\bconstexpr [\w:]+ {name} = ([^;]+);", read(path))
    if value is None:
        raise AssertionError(f"{path} defines no {name}")
    text = value[1].replace("'", "").replace("INT64_MAX", "((1 << 63) - 1)")
    text = re.sub(r"\w+\{(\d+)\}", r"\1", text)
    text = re.sub(r"absl::Seconds\((\d+)\)", r"\1", text)
    if not re.fullmatch(r"[\d\s()<*+-]+", text):
        raise AssertionError(f"{where} is {value[1]}, which this test cannot read")
    return eval(text)  # of digits and operators alone


def numbers(cell):
    """The numbers in a cell: "16 MiB", "65,536 columns", "2^31-1"."""
    for base, power, less, number, unit in re.findall(
            r"(2)\^(\d+)(-1)?|(\d[\d,]*)(?: (GiB|MiB|KiB|bytes|s)\b)?", cell):
        yield int(base) ** int(power) + int(less or 0) if base else int(number.replace(",", "")) * UNITS[unit]


class FeedLimitsTest(unittest.TestCase):
    def test_the_pages_limits_are_the_codes(self):
        table = read("docs/feed_protocol.md").split("**Limits.**")[1].split("\n## ")[0]
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()
                if line.startswith("| ")][2:]
        self.assertEqual([row[0] for row in rows], list(ROWS))
        for what, limit, _ in rows:
            with self.subTest(what):
                constants = [{constant(where) for where in of} for of in ROWS[what]]
                self.assertEqual([{number} for number in numbers(limit)], constants)

    def test_numbers_are_read_as_people_do(self):
        self.assertEqual(list(numbers("16 MiB, 65,536 columns, 32 deep; 2^31-1; 2^20; 10 s")),
                         [16 << 20, 65536, 32, 2**31 - 1, 1 << 20, 10])


if __name__ == "__main__":
    unittest.main()
