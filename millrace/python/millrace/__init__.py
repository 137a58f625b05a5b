"""Millrace: clusters of programs that are fed. This package is a node's side of it.

    import millrace

    def main(node):
        for batch in node.feed(batch=256, columns={"image": "x", "label": "y"}):
            x, y = batch["x"].torch(), batch["y"].torch()    # the received memory itself
            loss = step(x, y)
            node.metric("loss", step_number, loss)
        feed = node.feed(batch=256, mode="inference")
        for batch in feed:
            feed.results({"id": batch["id"], "p": predict(batch["image"].torch())})

    millrace.run_node(main)

It needs libmillrace.so and Python's standard library; NumPy, PyTorch and Arrow come in when they are asked for.
"""

from millrace.batch import Batch, Column
from millrace.error import (
    AbortedError,
    CancelledError,
    DeadlineExceededError,
    FailedPreconditionError,
    InvalidArgumentError,
    MillraceError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from millrace.feed import Feed
from millrace.node import KeyValue, Node, run_node

__all__ = [
    "AbortedError",
    "Batch",
    "CancelledError",
    "Column",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "Feed",
    "InvalidArgumentError",
    "KeyValue",
    "MillraceError",
    "Node",
    "NotFoundError",
    "ResourceExhaustedError",
    "UnavailableError",
    "run_node",
]
__version__ = "0.1.0"
