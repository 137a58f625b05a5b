"""A PySpark application that looks at its clusters through the real TensorBoard; run by python_test.py.

    tensorboard_checks.py LIBRARY PACKAGE PACKAGE
"""

import json
import os
import pathlib
import sys
import time
import urllib.request

import millrace
from eventually import wait_for
from pyspark.sql import SparkSession
from tensorflowonspark import TFCluster

_STEPS = 3


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def _write_loss(folder, run):
    """As TensorFlow's and PyTorch's writers do."""
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(os.path.join(folder, run))
    for step in range(_STEPS):
        value = summary_pb2.Summary.Value(tag="loss", simple_value=1.0 / (step + 1))
        summary = summary_pb2.Summary(value=[value])
        writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))
    writer.close()


def _until_seen(folder):
    deadline = time.monotonic() + 300
    while not os.path.exists(os.path.join(folder, "seen")):
        expect(time.monotonic() < deadline, "nobody has seen the curve")
        time.sleep(0.1)


def _get(url, path):
    with urllib.request.urlopen(url + path, timeout=30) as answer:
        return json.load(answer)


def _has(url, run):
    def runs():
        try:
            return run in _get(url, "/data/runs")
        except OSError:
            return False

    return runs


def _see_loss(url, run):
    wait_for(_has(url, run), f"{url} shows {run}", 120)
    points = _get(url, f"/data/plugin/scalars/scalars?run={run}&tag=loss")
    expect([(step, round(value, 3)) for _, step, value in points] == [(0, 1.0), (1, 0.5), (2, 0.333)], points)


def _is_gone(url):
    try:
        _get(url, "/data/runs")
    except OSError:  # URLError, or a connection that is reset by its end
        return True
    return False


def _train(args, ctx):
    if ctx.job_name == "chief":
        _write_loss(args["folder"], "train")
    _until_seen(args["folder"])


def a_ported_program_shows_its_loss(spark, folder):
    cluster = TFCluster.run(
        spark.sparkContext, _train, {"folder": folder}, 2, 0, tensorboard=True, log_dir=folder, master_node="chief"
    )
    url = cluster.tensorboard_url()
    expect(url is not None, "TensorBoard did not come")
    _see_loss(url, "train")
    pathlib.Path(folder, "seen").touch()
    cluster.shutdown()
    wait_for(lambda: _is_gone(url), "TensorBoard ends with its node")


def a_program_of_ours_shows_its_loss(spark, folder):
    def main(ctx):
        if ctx.task_index == 0:
            _write_loss(folder, "fit")
        _until_seen(folder)

    with millrace.Cluster.run(
        spark, main, num_executors=2, input_mode=millrace.InputMode.DIRECT, tensorboard=True, log_dir=folder
    ) as cluster:
        wait_for(lambda: cluster.tensorboard_url, "the address of TensorBoard", 120)
        url = cluster.tensorboard_url
        _see_loss(url, "fit")
        pathlib.Path(folder, "seen").touch()
        cluster.shutdown()
    wait_for(lambda: _is_gone(url), "TensorBoard ends with its node")


def nobody_waits_for_that_of_a_cluster_that_has_failed(spark, folder):
    def _fails(args, ctx):
        _until_seen(folder)
        raise ValueError("as the check says")

    cluster = TFCluster.run(spark.sparkContext, _fails, {}, 2, 0, tensorboard=True, log_dir=folder)
    pathlib.Path(folder, "seen").touch()
    patience, TFCluster._TENSORBOARD_S = TFCluster._TENSORBOARD_S, 3600  # the test would not end
    try:
        wait_for(lambda: cluster.tensorboard_url() is None, "its end")
    finally:
        TFCluster._TENSORBOARD_S = patience
    try:
        cluster.shutdown()
    except Exception as error:
        expect("as the check says" in str(error), str(error))
    else:
        raise AssertionError("shutdown() says nothing of the failure")


def main():
    spark = SparkSession.builder.config("spark.executorEnv.MILLRACE_LIBRARY", sys.argv[1]).getOrCreate()
    for check in (
        a_ported_program_shows_its_loss,
        a_program_of_ours_shows_its_loss,
        nobody_waits_for_that_of_a_cluster_that_has_failed,
    ):
        folder = os.path.abspath(check.__name__)
        os.makedirs(folder)
        check(spark, folder)
        print(f"CHECK {check.__name__} ok", flush=True)
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
