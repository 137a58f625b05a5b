"""The application of the benchmark spark_feed: measures, and writes a line of JSON for each figure."""

import argparse
import json
import time

from millrace import InputMode, MillraceCluster, NodeProgram
from pyspark.sql import SparkSession

# Shape to rows and columns.
SHAPES = {
    "a": (2_000_000, ["id AS x"]),
    "b": (200_000, ["transform(sequence(0, 63), k -> CAST((id * 64 + k) % 1000 / 7 AS float)) AS x"]),
    "c": (50_000, ["transform(sequence(0, 783), k -> CAST((id + k) % 256 / 255 AS float)) AS x"]),
    "d": (50_000, ["CAST(repeat(substr('0123456789', 1 + CAST(id % 10 AS int), 1), 3072) AS binary) AS x"]),
    "s": (200_000, [f"CAST((id * 64 + {k}) % 1000 / 7 AS float) AS f{k}" for k in range(64)]),
}


def tell(**figure):
    print("FIGURE " + json.dumps(figure), flush=True)


def timed(what):
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def count_arrow(batches):
    import pyarrow

    yield pyarrow.RecordBatch.from_pydict({"n": [sum(batch.num_rows for batch in batches)]})


def count_pandas(frames):
    import pandas

    yield pandas.DataFrame({"n": [sum(len(frame) for frame in frames)]})


def echo_arrow(batches):
    import pyarrow
    import pyarrow.compute

    for batch in batches:
        x = batch.column(0)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.compute.multiply(x, x)], ["y"])


def expect_rows(result, rows):
    if result != rows:
        raise AssertionError(f"{result} rows came of {rows}")


def noop(df):
    df.write.format("noop").mode("overwrite").save()


def measure(shape, rows, ways, reps):
    """Each way in turns, after one round that does not count."""
    for rep in range(-1, reps):
        for name, run in ways.items():
            seconds = timed(run)
            if rep >= 0:
                tell(shape=shape, way=name, rows=rows, seconds=seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node")
    parser.add_argument("--shapes", default="a,b,c,d,s")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("spark_feed").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).repartition(2).count()  # executors are there

    cluster = None
    for rep in range(arguments.reps + 1):
        if cluster is not None:
            tell(shape="-", way="shutdown", rows=0, seconds=timed(cluster.shutdown))
        began = time.perf_counter()
        cluster = MillraceCluster.run(spark, NodeProgram.file(arguments.node), 2, input_mode=InputMode.FEED)
        tell(shape="-", way="run" if rep else "first run", rows=0, seconds=time.perf_counter() - began)

    echo_data = None
    for shape in arguments.shapes.split(","):
        rows, columns = SHAPES[shape]
        rows = int(rows * arguments.scale)
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 10_000 if shape in "as" else 1000)
        df = spark.range(0, rows, 1, 2).selectExpr(*columns).cache()
        expect_rows(df.count(), rows)
        ways = {
            "noop scan": lambda: noop(df),
            "mapInArrow": lambda: expect_rows(sum(r.n for r in df.mapInArrow(count_arrow, "n long").collect()), rows),
            "mapInPandas": lambda: expect_rows(
                sum(r.n for r in df.mapInPandas(count_pandas, "n long").collect()), rows
            ),
            "Millrace": lambda: expect_rows(cluster.train(df).rows, rows),
        }
        measure(shape, rows, ways, arguments.reps)
        if shape == "a":
            echo_data = (df, rows)
        else:
            df.unpersist()
    cluster.end_feed()
    if echo_data:
        df, rows = echo_data
        ways = {
            "mapInArrow": lambda: noop(df.mapInArrow(echo_arrow, "y long")),
            "Millrace": lambda: noop(cluster.inference(df, "y bigint")),
        }
        measure("echo of a", rows, ways, arguments.reps)
    tell(shape="-", way="shutdown", rows=0, seconds=timed(cluster.shutdown))
    spark.stop()


if __name__ == "__main__":
    main()
