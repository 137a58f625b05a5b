"""The application of the benchmark spark_skew: measures, and writes a line of JSON for each call of train."""

import argparse
import json
import time

from millrace import Cluster, InputMode, NodeProgram
from pyspark.sql import SparkSession

_BATCH_ROWS = 64  # of spark_skew_node


def numbers(text):
    return [int(number) for number in text.split(",")]


def measure(spark, arguments, ratio):
    pace = _BATCH_ROWS * 1e6 / arguments.step_us * (1 + 1 / ratio)
    rows = int(arguments.seconds * pace)
    program = NodeProgram.file(arguments.node, str(arguments.step_us), str(ratio))
    with Cluster.run(spark, program, 2, input_mode=InputMode.FEED) as cluster:
        for rep in range(-1, arguments.reps):  # one that does not count
            for partitions in arguments.partitions:
                df = spark.range(0, rows, 1, partitions).selectExpr("id AS x", "repeat('a', 248) AS pad")
                began = time.perf_counter()
                result = cluster.train(df)
                seconds = time.perf_counter() - began
                if result.rows != rows or not result.exactly_once:
                    raise AssertionError(f"{result} of {rows}")
                if rep >= 0:
                    figure = {"ratio": ratio, "partitions": partitions, "seconds": seconds, "ideal": rows / pace}
                    print("FIGURE " + json.dumps(figure), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node")
    parser.add_argument("--ratios", type=numbers)
    parser.add_argument("--partitions", type=numbers)
    parser.add_argument("--step-us", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--reps", type=int)
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("spark_skew").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).repartition(2).count()  # executors are there
    for ratio in arguments.ratios:
        measure(spark, arguments, ratio)
    spark.stop()


if __name__ == "__main__":
    main()
