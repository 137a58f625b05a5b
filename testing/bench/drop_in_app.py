"""The application of the benchmark drop_in: a program for TensorFlowOnSpark, whichever package has that name."""

import argparse
import json
import os
import pathlib
import signal
import threading
import time

from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster

_NODES = 2
_BATCH = 1024
# Rows for the faster one and for the original, and what a row is.
_SHAPES = {
    "ints": (2_000_000, 100_000, lambda i: i),
    "64 floats": (200_000, 40_000, lambda i: [float((i * 64 + k) % 1000) / 7 for k in range(64)]),
    "3 KB bytes": (200_000, 40_000, lambda i: bytes([i & 255]) * 3072),
}


def tell(name, value):
    print("FIGURE " + json.dumps({"name": name, "value": value}), flush=True)


def consume(args, ctx):
    pathlib.Path(args.folder, f"node-{ctx.executor_id}").write_text(str(os.getpid()))
    feed = ctx.get_data_feed()
    count = 0
    while not feed.should_stop():
        count += len(feed.next_batch(_BATCH))
    written = pathlib.Path(args.folder, f"counted-{ctx.executor_id}")
    written.write_text(str(count))
    written.rename(pathlib.Path(args.folder, f"count-{ctx.executor_id}"))


def square(args, ctx):
    feed = ctx.get_data_feed(train_mode=False)
    while not feed.should_stop():
        batch = feed.next_batch(_BATCH)
        if batch:
            feed.batch_results([x * x for x in batch])


def start(spark, args, function):
    for path in [*pathlib.Path(args.folder).glob("count-*"), *pathlib.Path(args.folder).glob("node-*")]:
        path.unlink()
    begun = time.perf_counter()
    cluster = TFCluster.run(
        spark.sparkContext, function, args, _NODES, num_ps=0, input_mode=TFCluster.InputMode.SPARK
    )
    return cluster, time.perf_counter() - begun


def rows_used(args):
    """What the nodes have counted, which the original may not have ended when its shutdown has returned."""
    deadline = time.monotonic() + 60
    while len(counts := list(pathlib.Path(args.folder).glob("count-*"))) < _NODES and time.monotonic() < deadline:
        time.sleep(0.05)
    return sum(int(path.read_text()) for path in counts)


def stop(cluster):
    begun = time.perf_counter()
    cluster.shutdown(timeout=120)
    return time.perf_counter() - begun


def cached(spark, rows, make):
    parts = 4
    rdd = spark.sparkContext.parallelize(range(parts), parts).flatMap(
        lambda part: (make(i) for i in range(rows * part // parts, rows * (part + 1) // parts))
    )
    rdd.cache().count()
    return rdd


def rates(spark, args, original):
    """Of train and inference."""
    for name, (many, few, make) in _SHAPES.items():
        rows = int((few if original else many) * args.scale)
        rdd = cached(spark, rows, make)
        cluster, _ = start(spark, args, consume)
        for rep in range(-1, args.reps):  # one that does not count
            begun = time.perf_counter()
            cluster.train(rdd, 1)
            if rep >= 0:
                tell(f"train {name}", rows / (time.perf_counter() - begun))
        stop(cluster)
        used = rows_used(args)
        if used != rows * (args.reps + 1):
            raise AssertionError(f"{used} of {rows * (args.reps + 1)} rows of {name}")
        rdd.unpersist(True)
    rows = int((100_000 if original else 1_000_000) * args.scale)
    table = spark.range(0, rows, 1, 4).selectExpr("id", "id / 7 AS x", "CAST(id % 10 AS int) AS label").cache()
    table.count()
    data = table.rdd if original else table
    cluster, _ = start(spark, args, consume)
    for rep in range(-1, args.reps):
        begun = time.perf_counter()
        cluster.train(data, 1)
        if rep >= 0:
            tell("train DataFrame", rows / (time.perf_counter() - begun))
    stop(cluster)
    rows = int((50_000 if original else 1_000_000) * args.scale)
    rdd = cached(spark, rows, lambda i: i)
    cluster, _ = start(spark, args, square)
    for rep in range(-1, args.reps):
        begun = time.perf_counter()
        if cluster.inference(rdd).count() != rows:
            raise AssertionError("inference is not one to one")
        if rep >= 0:
            tell("inference ints", rows / (time.perf_counter() - begun))
    stop(cluster)


def starts(spark, args):
    for rep in range(args.reps + 1):
        cluster, seconds = start(spark, args, consume)
        tell("start" if rep else "first start", seconds)
        cluster.train(spark.sparkContext.parallelize(range(_NODES), _NODES), 1)
        tell("shutdown", stop(cluster))


def failure(spark, args):
    """Last: the original stops the SparkContext."""
    rdd = cached(spark, 1_000_000, lambda i: i)
    cluster, _ = start(spark, args, consume)
    killed = []

    def kill():
        pid = pathlib.Path(args.folder, "node-0")
        while not pid.exists() or not pid.read_text():
            time.sleep(0.05)
        time.sleep(1)
        os.kill(int(pid.read_text()), signal.SIGKILL)
        killed.append(time.perf_counter())

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        cluster.train(rdd, 1000, feed_timeout=args.feed_timeout)
    except Exception as error:
        killer.join()
        tell("error after SIGKILL", time.perf_counter() - killed[0])
        print(f"the error: {str(error).splitlines()[0]}", flush=True)
    os._exit(0)  # the original's shutdown() would wait


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--scale", type=float)
    parser.add_argument("--reps", type=int)
    parser.add_argument("--feed-timeout", type=int)
    args = parser.parse_args()
    spark = SparkSession.builder.appName("drop_in").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.sparkContext.parallelize(range(1000), 4).repartition(2).count()  # executors are there
    original = not hasattr(TFCluster.TFCluster, "close")
    starts(spark, args)
    rates(spark, args, original)
    failure(spark, args)


if __name__ == "__main__":
    main()
