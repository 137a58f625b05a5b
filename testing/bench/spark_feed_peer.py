"""TensorFlowOnSpark beside Millrace, for the benchmark spark_feed with --peer.

Rows of a cached RDD into nodes that take and forget them: InputMode.SPARK, the peer's own way to train.
"""

import argparse
import json
import logging
import time

from pyspark import SparkConf, SparkContext
from tensorflowonspark import TFCluster

# Shape to rows and what makes one; few, for each is a pickle.
SHAPES = {
    "a": (100_000, lambda i: i),
    "b": (50_000, lambda i: [float((i * 64 + k) % 1000) / 7 for k in range(64)]),
    "c": (15_000, lambda i: [float((i + k) % 256) / 255 for k in range(784)]),
    "d": (40_000, lambda i: bytes([i & 255]) * 3072),
}


def take(arguments, context):
    feed = context.get_data_feed(True)
    while not feed.should_stop():
        feed.next_batch(arguments["batch"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default="a,b,c,d")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    spark = SparkContext(conf=SparkConf().setAppName("spark_feed_peer").set("spark.locality.wait", "30s"))
    spark.setLogLevel("ERROR")
    spark.parallelize(range(1000), 2).map(lambda i: (i, i)).groupByKey().count()  # executors are there
    for shape in arguments.shapes.split(","):
        if shape not in SHAPES:
            continue
        rows, make = SHAPES[shape]
        rows = int(rows * arguments.scale)
        data = spark.parallelize(range(rows), 2).map(make).cache()
        data.count()
        TFCluster.tf_status.clear()
        cluster = TFCluster.run(spark, take, {"batch": 1024}, 2, 0, input_mode=TFCluster.InputMode.SPARK)
        for _ in range(arguments.reps):
            began = time.perf_counter()
            cluster.train(data, 1)
            seconds = time.perf_counter() - began
            print("FIGURE " + json.dumps({"shape": shape, "way": "peer", "rows": rows, "seconds": seconds}), flush=True)
        cluster.shutdown(timeout=120)
        data.unpersist()
    spark.stop()


if __name__ == "__main__":
    main()
