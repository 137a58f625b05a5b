"""The node program of cluster_test.py: what it does is its first argument."""

import os
import sys

import millrace


def double(node):
    """Counts what it is fed, then answers with twice the id."""
    rows = sum(batch.num_rows for batch in node.feed(batch=50))
    node.metric("rows", rows, rows)
    feed = node.feed(batch=7, mode="inference")
    for batch in feed:
        feed.results({"doubled": [2 * i for i in batch["id"].to_pylist()]})


def echo(node):
    """Answers with the rows themselves, one by one, but for what is negative."""
    feed = node.feed(batch=1, mode="inference")
    for batch in feed:
        if batch["id"].to_pylist() < [0]:
            raise RuntimeError("a negative row")
        feed.results(batch)


def stay(node):
    """Does not end by itself."""
    for _ in node.feed():
        pass
    print("the feed has ended", flush=True)
    node.wait_for_stop()


def fail(node):
    next(node.feed(batch=1))
    print("about to divide", file=sys.stderr, flush=True)
    return 1 / 0


def fail_once(node):
    if node.attempt == 0:
        next(node.feed(mode="inference"))
        raise RuntimeError("the first attempt")
    feed = node.feed(mode="inference")
    for batch in feed:
        gpus = os.environ["CUDA_VISIBLE_DEVICES"]
        feed.results({"attempt": [node.attempt] * batch.num_rows, "gpus": [gpus] * batch.num_rows})


def name_columns(node):
    feed = node.feed(mode="inference")
    for batch in feed:
        feed.results({"columns": [" ".join(batch)] * batch.num_rows})


def train_together(node):
    """Meets all other nodes in each step: one that takes a step more waits in vain."""
    rows = steps = 0
    for batch in node.feed(batch=16, equal=sys.argv[2]):
        assert batch.num_rows == 16, batch
        ids = batch["id"].numpy()
        assert (ids >= 0).all(), ids
        ids[:] = -1  # its own memory: rows that come once more are as they were
        steps += 1
        rows += batch.num_rows
        node.barrier(f"step {steps}", timeout=60)
    node.metric("steps", rows, steps)


if __name__ == "__main__":
    programs = {
        "double": double,
        "echo": echo,
        "stay": stay,
        "fail": fail,
        "fail_once": fail_once,
        "name_columns": name_columns,
        "train_together": train_together,
    }
    millrace.run_node(programs[sys.argv[1]])
