"""Millrace: clusters of programs that are fed. A node's side of it:

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

And a driver's:

    import millrace

    with millrace.Cluster.run("train.py", num_executors=4, input_mode=millrace.InputMode.FEED) as cluster:
        cluster.train(table, num_epochs=5, end_of_feed=True)      # of Arrow, Polars, DuckDB, pandas
        for batch in cluster.inference(test):                     # record batches of pyarrow, as they come
            save(batch)

On Spark, whose DataFrames it is fed then: millrace.Cluster.run(spark, millrace.NodeProgram.file("node"), 4, ...).

It needs Millrace's libraries and Python's standard library; NumPy, PyTorch, Arrow and PySpark come in when they are
asked for.
"""

from millrace.batch import Batch, Column
from millrace.cluster import Cluster, TrainResult
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
from millrace.inference import InferenceResult
from millrace.local_cluster import LocalCluster
from millrace.node import KeyValue, Node, NodeTls, run_node
from millrace.options import (
    Agents,
    ClusterObserver,
    ClusterOptions,
    FailureOptions,
    FeedOptions,
    InputMode,
    LocalOptions,
    NodeInfo,
    NodeOptions,
    NodeProgram,
    NodeRestart,
    QuarantinePolicy,
    RestartPolicy,
    Sidecar,
    SparkOptions,
)
from millrace.source import Source
from millrace.spark_cluster import SparkCluster, spark_jar

__all__ = [
    "AbortedError",
    "Agents",
    "Batch",
    "CancelledError",
    "Cluster",
    "ClusterObserver",
    "ClusterOptions",
    "Column",
    "DeadlineExceededError",
    "FailedPreconditionError",
    "FailureOptions",
    "Feed",
    "FeedOptions",
    "InferenceResult",
    "InputMode",
    "InvalidArgumentError",
    "KeyValue",
    "LocalCluster",
    "LocalOptions",
    "MillraceError",
    "Node",
    "NodeInfo",
    "NodeOptions",
    "NodeProgram",
    "NodeRestart",
    "NodeTls",
    "NotFoundError",
    "QuarantinePolicy",
    "ResourceExhaustedError",
    "RestartPolicy",
    "Sidecar",
    "Source",
    "SparkCluster",
    "SparkOptions",
    "TrainResult",
    "UnavailableError",
    "run_node",
    "spark_jar",
]
__version__ = "0.2.0"
