"""The node of the benchmark python_feed: python_feed_node.cc in Python.

python_feed_node.py ROWS
"""

import statistics
import sys
import time

import millrace


def _last(column):
    """The last number of a column: what a program does to find its rows."""
    return column.numpy().item(-1)


def _last_byte(column):
    return pyarrow.array(column)[-1].as_buffer()[-1]


def main(node):
    calls = []
    total = 0.0
    touch = None
    feed = node.feed(batch=int(sys.argv[1]))
    while True:
        began = time.perf_counter_ns()
        batch = next(feed, None)
        if batch is None:
            break
        calls.append(time.perf_counter_ns() - began)
        touch = touch or (_last_byte if next(iter(batch.values())).type == "binary" else _last)
        for column in batch.values():
            total += touch(column)
    # Most batches lie in rows that were there, so the median is what such a call costs.
    node.metric("next_us", 0, statistics.median(calls) / 1000)
    assert total >= 0, "these are other rows"


if __name__ == "__main__":
    import pyarrow

    millrace.run_node(main)
