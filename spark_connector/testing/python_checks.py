"""A PySpark application that uses the package `millrace`; run by python_test.py.

    python_checks.py NODE
"""

import os
import pathlib
import signal
import sys
import threading
import time

from eventually import wait_for
from millrace import (
    Cluster,
    FailureOptions,
    FeedOptions,
    InputMode,
    MillraceError,
    NodeOptions,
    NodeProgram,
    QuarantinePolicy,
    RestartPolicy,
    Sidecar,
)
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import udf
from pyspark.streaming import StreamingContext

_SOON = FailureOptions(stop_grace=1)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def trains_and_answers(spark, node):
    with Cluster.run(
        spark,
        NodeProgram.file(node, "sum", env={"SOME_VARIABLE": "some value"}),
        num_executors=2,
        input_mode=InputMode.FEED,
        reservation_timeout=400,
        env={"ANOTHER": "1"},
        node=NodeOptions(
            gpus_by_job={"worker": 0},
            log_bytes_per_second=1000,
            sidecars=[Sidecar("sleeper", "/bin/sh", ["-c", "exec sleep $LENGTH"], env={"LENGTH": "600"})],
        ),
        feed=FeedOptions(queues=["input", "output"], budget_bytes=1 << 20, shared_memory=True),
        failure=FailureOptions(
            restart=RestartPolicy(max_restarts=1, window=600),
            restart_by_job={"worker": RestartPolicy()},
            quarantine=QuarantinePolicy(failures=2),
        ),
    ) as cluster:
        nodes = [info.address for info in cluster.cluster_info]
        expect(cluster.cluster_spec == {"worker": nodes}, cluster.cluster_spec)
        expect(cluster.spark_context is spark.sparkContext, "its SparkContext")
        expect(repr(cluster).endswith(f"/{pathlib.Path(node).name}, 2 running>"), repr(cluster))
        expect(cluster.node_rdd.getNumPartitions() >= 1, "the RDD of its nodes")
        expect([info.state for info in cluster.cluster_info] == ["running"] * 2, cluster.cluster_info)
        expect(cluster.input_mode is InputMode.FEED and cluster.num_executors == 2, "attributes")
        expect(cluster.queues == ["input", "output"] and ":" in cluster.server_address, "attributes")
        data = spark.range(0, 1000, 1, 4).withColumnRenamed("id", "x")
        result = cluster.train(data, num_epochs=2, end_of_feed=True)
        expect((result.rows, result.terminated, result.exactly_once) == (2000, False, True), result)
        expect(result.elapsed > 0, result)
        out = cluster.inference(data, "y bigint, sum bigint, rank bigint")
        expect(type(out) is type(data) and out.columns == ["y", "sum", "rank"], out)
        rows = out.collect()
        expect([row.y for row in rows] == [i * i for i in range(1000)], "the squares, in order")
        expect({(row["rank"], row["sum"]) for row in rows} != set(), "sums")
        again = cluster.inference(data, out.schema).where("y < 100").count()
        expect(again == 10, again)


def failures_are_errors(spark, node):
    cluster = Cluster.run(
        spark.sparkContext, NodeProgram.file(node, "fail_at", "7"), 1, input_mode=InputMode.FEED, failure=_SOON
    )
    try:
        cluster.train(spark.range(20).withColumnRenamed("id", "x"))
        expect(False, "no error")
    except MillraceError as error:
        expect(error.node == "worker:0" and "row 7 is too much" in error.message, repr(error))
        expect(any("cannot bear row 7" in line for line in error.stderr_lines), error.stderr_lines)
    cluster.close()


def a_function_that_raises_is_told_as_on_every_spark(spark, node):
    cluster = Cluster.run(spark, NodeProgram.file(node, "sum"), 1, input_mode=InputMode.FEED, failure=_SOON)

    @udf("bigint")
    def raises(_):
        raise ValueError("cannot bear this")

    try:
        cluster.train(spark.range(20).select(raises("id").alias("x")))
        expect(False, "no error")
    except MillraceError as error:
        expect(error.code == "ABORTED" and "cannot bear this" in error.message, repr(error))
    cluster.close()


def an_interrupt_ends_train_and_nothing_else(spark, node):
    """While no job runs that PySpark could cancel: the rows are with the nodes, which have yet to use them."""
    context = spark.sparkContext
    cluster = Cluster.run(spark, NodeProgram.file(node, "slow", "500"), 2, input_mode=InputMode.FEED, failure=_SOON)
    context.setJobGroup("interrupted", "is told of the caller's group")
    sent = []

    def are_sent():
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup("interrupted")]
        return jobs and all(job.status == "SUCCEEDED" for job in jobs)

    def interrupt():
        wait_for(are_sent, "the end of the jobs that feed")
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        result = cluster.train(spark.range(2000).withColumnRenamed("id", "x"))
        expect(False, f"no interrupt: {result}")
    except KeyboardInterrupt:
        expect(time.monotonic() - sent[0] < 20, "it came late")
    thread.join()
    context.setLocalProperty("spark.jobGroup.id", None)
    result = cluster.train(spark.range(10).withColumnRenamed("id", "x"))
    expect(result.rows == 10, result)
    cluster.close()


def dstreams_are_fed(spark, node):
    """Until the program stops reading or has ended, which ends the stream, and not the SparkContext."""
    context = spark.sparkContext
    # One partition each, of which the program takes 7 rows at a time: of the last ten it leaves some unread, or none.
    for last in ("22", "29"):
        cluster = Cluster.run(
            spark, NodeProgram.file(node, "stop_reading_at", last), 1, input_mode=InputMode.FEED, failure=_SOON
        )
        stream = StreamingContext(context, 1)
        batches = [context.parallelize([Row(x=row) for row in range(first, first + 10)], 1) for first in (0, 10, 20)]
        expect(cluster.train(stream.queueStream(batches)) is None, "a stream has no result yet")
        stream.start()
        late = threading.Event()
        watch = threading.Timer(400, lambda: (late.set(), stream.stop(stopSparkContext=False)))
        watch.start()
        cluster.shutdown(stream)
        watch.cancel()
        expect(not late.is_set(), f"the stream did not end after row {last}, the program's last one")
        expect(cluster.programs_have_ended, "a property")
        expect(spark.range(3).count() == 3, "the SparkContext is as good as before")


def streams_are_fed(spark, node):
    folder = pathlib.Path(node).parent
    cluster = Cluster.run(
        spark,
        NodeProgram.file(node, "slow", "200"),
        2,
        input_mode=InputMode.FEED,
        failure=FailureOptions(stop_timeout=20),
    )
    rows = str(folder / "batches")
    spark.range(0, 70, 1, 2).withColumnRenamed("id", "x").write.parquet(rows)
    query = (
        spark.readStream.schema("x bigint")
        .parquet(rows)
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(cluster.train_batches())
        .start()
    )
    query.processAllAvailable()
    fed = sum(progress["numInputRows"] for progress in query.recentProgress)
    expect(fed == 70, query.recentProgress)
    # Stopped in the middle of a batch.
    spark.range(0, 7000, 1, 2).withColumnRenamed("id", "x").write.mode("append").parquet(rows)
    tracker = spark.sparkContext.statusTracker()
    wait_for(tracker.getActiveJobsIds, "the job of the batch")
    query.stop()
    expect(query.exception() is None, query.exception())
    cluster.close()


def wrong_use_is_told(spark, node):
    try:
        Cluster.run(spark, node, 1)
        expect(False, "no error")
    except ValueError as error:
        expect("NodeProgram.file" in str(error), error)
    try:
        Cluster.run(spark, NodeProgram.file(node), 1, cluster_file=False)
        expect(False, "no error")
    except TypeError as error:
        expect("on Spark has no option 'cluster_file'" in str(error), error)
    try:
        Cluster.run(spark, NodeProgram.file(node), 1, feed=FeedOptions(curve_only=True))
        expect(False, "no error")
    except TypeError as error:
        expect("on Spark has no option feed.curve_only" in str(error), error)
    for program, data, code in (
        (NodeProgram.file("/nonexistent/node"), None, "NOT_FOUND"),
        (NodeProgram.file(node, "sum"), [1], "INVALID_ARGUMENT"),
        (NodeProgram.file(node, "sum"), spark.sql("SELECT 1.5BD AS price"), "INVALID_ARGUMENT"),
    ):
        cluster = None
        try:
            cluster = Cluster.run(spark, program, 1, input_mode=InputMode.FEED, failure=_SOON)
            cluster.train(data)
            expect(False, "no error")
        except MillraceError as error:
            expect(error.code == code, repr(error))
        finally:
            if cluster is not None:
                cluster.close()


def main():
    spark = SparkSession.builder.appName("millrace python").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    for check in (
        trains_and_answers,
        failures_are_errors,
        a_function_that_raises_is_told_as_on_every_spark,
        an_interrupt_ends_train_and_nothing_else,
        dstreams_are_fed,
        streams_are_fed,
        wrong_use_is_told,
    ):
        check(spark, sys.argv[1])
        print(f"CHECK {check.__name__} ok", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
