"""The digits on Spark: train on four fifths of the images, predict the others.

    spark-submit --jars millrace-spark.jar --py-files millrace.zip digits_spark.py NODE DIGITS_CSV

The nodes (one parameter server, a chief, an evaluator, a worker) take four executors.
"""

import argparse
import os
import sys

from millrace import Cluster, FailureOptions, InputMode, NodeProgram, RestartPolicy
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

_PIXELS = 64


def read_digits(spark, path):
    """id, label, image: an array of 64 floats."""
    header = ", ".join(["id bigint", "label bigint"] + [f"p{i} float" for i in range(_PIXELS)])
    table = spark.read.csv("file://" + os.path.abspath(path), schema=header, header=True)
    return table.select("id", "label", F.array(*[f"p{i}" for i in range(_PIXELS)]).alias("image"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node", help="digits_node")
    parser.add_argument("data", help="digits.csv")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--max-restarts", type=int, default=0, help="of a node that fails, the ps excepted")
    arguments = parser.parse_args()

    spark = SparkSession.builder.appName("digits").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    rows = read_digits(spark, arguments.data)
    # Every fifth row is held out; the evaluator reads the same ones from the file.
    train = rows.where(F.col("id") % 5 != 0).repartition(arguments.partitions).cache()
    held_out = rows.where(F.col("id") % 5 == 0)

    program = NodeProgram.file(arguments.node, "--strategy=ps", "--data=" + os.path.abspath(arguments.data))
    # The parameter server's memory is the model.
    failure = FailureOptions(
        restart=RestartPolicy(max_restarts=arguments.max_restarts),
        restart_by_job={"ps": RestartPolicy(max_restarts=0)},
    )
    with Cluster.run(
        spark, program, 4, num_ps=1, master_node="chief", eval_node=True, input_mode=InputMode.FEED, failure=failure
    ) as cluster:
        print("running: " + ", ".join(f"{node.job_name}:{node.task_index}" for node in cluster.cluster_info))
        result = cluster.train(train, num_epochs=arguments.epochs, end_of_feed=True)
        print(f"trained on {result.rows} rows, exactly once: {result.exactly_once}")
        predictions = cluster.inference(held_out, "id bigint, prediction bigint")
        right = predictions.join(held_out, "id").where("prediction = label").count()
    accuracy = right / held_out.count()
    print(f"accuracy: {accuracy:.2f}")
    spark.stop()
    return 0 if accuracy > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
