"""A PySpark application with programs in the style of TensorFlowOnSpark; run by python_test.py.

    tensorflowonspark_checks.py LIBRARY PACKAGE PACKAGE TFRECORD_FILE...
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import time

from eventually import wait_for
from millrace import MillraceError
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext
from tensorflowonspark import TFCluster, TFParallel, dfutil, reservation
from tensorflowonspark.pipeline import HasBatchSize, HasSteps, Namespace, TFEstimator, TFModel, TFParams

_ARGS = argparse.Namespace(batch_size=16, rate=0.05, folder="results")
_SLOPE = 3.0


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def _told(folder):
    """What the nodes have written; the folder is empty then."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))}
    for path in pathlib.Path(folder).glob("*.json"):
        path.unlink()
    return found


def _tell(args, ctx, what):
    """To the driver's folder, where a relative path leads."""
    path = ctx.absolute_path(f"{args.folder}/{ctx.job_name}-{ctx.task_index}.json")
    pathlib.Path(path.replace("file://", "")).write_text(json.dumps(what))


def main_fun(args, ctx):
    from tensorflowonspark import TFNode

    slope, count = 0.0, 0
    tf_feed = TFNode.DataFeed(ctx.mgr, False)
    while not tf_feed.should_stop():
        batch = tf_feed.next_batch(args.batch_size)
        for x, y in batch:
            slope += args.rate * (y - slope * x) * x
            count += 1
    _tell(args, ctx, {"slope": slope, "count": count, "workers": ctx.num_workers, "jobs": sorted(ctx.cluster_spec)})


def a_program_trains_over_an_rdd(spark, folder):
    sc = spark.sparkContext
    rdd = sc.parallelize(range(1000), 4).map(lambda i: (i % 10 / 10, _SLOPE * (i % 10) / 10))
    cluster = TFCluster.run(
        sc, main_fun, _ARGS, 2, num_ps=0, input_mode=TFCluster.InputMode.SPARK, master_node="chief"
    )
    expect([node["job_name"] for node in cluster.cluster_info] == ["chief", "worker"], cluster.cluster_info)
    expect(all(node["port"] > 0 and node["host"] for node in cluster.cluster_info), cluster.cluster_info)
    expect(cluster.cluster_meta["cluster_template"] == {"chief": [0], "worker": [1]}, cluster.cluster_meta)
    expect((cluster.sc, cluster.num_executors, cluster.queues) == (sc, 2, ["input", "output", "error"]), "attributes")
    expect(cluster.nodeRDD.collect() == [0, 1] and cluster.tensorboard_url() is None, "attributes")
    cluster.train(rdd, num_epochs=2)
    cluster.shutdown(grace_secs=1)
    told = _told(folder)
    expect(sorted(told) == ["chief-0", "worker-0"], told)
    expect(sum(each["count"] for each in told.values()) == 2000, told)
    expect(all(each["jobs"] == ["chief", "worker"] and each["workers"] == 2 for each in told.values()), told)
    expect(all(abs(each["slope"] - _SLOPE) < 0.1 for each in told.values() if each["count"] > 500), told)


def _square(args, ctx):
    tf_feed = ctx.get_data_feed(train_mode=False)
    while not tf_feed.should_stop():
        batch = tf_feed.next_batch(10)
        tf_feed.batch_results([x * x for [x] in batch])


def inference_is_one_to_one_and_in_order(spark, folder):
    sc = spark.sparkContext
    rdd = sc.parallelize([[x] for x in range(1000)], 10)
    cluster = TFCluster.run(sc, _square, {}, 2, 0, input_mode=TFCluster.InputMode.SPARK)
    out = cluster.inference(rdd)
    expect(out.collect() == [x * x for x in range(1000)], "the squares, in order")
    expect(out.sum() == sum(x * x for x in range(1000)), "each action feeds again")
    frame = spark.range(10)
    expect(cluster.inference(frame).collect() == [x * x for x in range(10)], "rows of a DataFrame are elements too")
    cluster.shutdown()


def _one_by_one(args, ctx):
    """Trains and answers through one feed, an element at a time, as a generator for tf.data does."""
    tf_feed = ctx.get_data_feed()
    seen = 0
    while not tf_feed.should_stop():
        for element in tf_feed.next_batch(1):
            if element[0] == "train":
                seen += 1
            else:
                tf_feed.batch_results([(seen, element)])


def one_feed_serves_training_and_inference(spark, folder):
    sc = spark.sparkContext
    cluster = TFCluster.run(sc, _one_by_one, {}, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    began = time.monotonic()
    cluster.train(sc.parallelize([("train", i) for i in range(20000)], 2), 1)
    print(f"INFO next_batch(1): {20000 / (time.monotonic() - began):.0f} elements/s", flush=True)
    elements = [("ask", i) for i in range(2000)]
    answers = cluster.inference(sc.parallelize(elements, 2)).collect()
    expect([element for _, element in answers] == elements, "each element, in order")
    expect({seen for seen, _ in answers} == {20000}, "after training")
    cluster.shutdown()


def _fails(args, ctx):
    tf_feed = ctx.get_data_feed(train_mode=False)
    while not tf_feed.should_stop():
        batch = tf_feed.next_batch(10)
        if batch:
            tf_feed.batch_results(batch)
            if args["when"] == "during":
                raise Exception("FAKE exception during feeding")
    if args["when"] == "late":
        time.sleep(1)
        raise Exception("FAKE exception after feeding")
    ctx.mgr.get_queue("error").put("FAKE traceback")


def exceptions_reach_the_driver(spark, folder):
    sc = spark.sparkContext
    rdd = sc.parallelize(range(1000), 10)
    for when, words in (
        ("during", "FAKE exception during feeding"),
        ("late", "FAKE exception after feeding"),
        ("queue", "FAKE traceback"),
    ):
        cluster = TFCluster.run(sc, _fails, {"when": when}, 2, 0, input_mode=TFCluster.InputMode.SPARK)
        try:
            cluster.inference(rdd, feed_timeout=60).count()
            expect(when != "during", "no error of the action")
            cluster.shutdown(grace_secs=5)
            expect(False, "no error of the shutdown")
        except Exception as error:
            found = MillraceError.of(error)
            expect(found is not None and words in found.message, error)
        cluster.close()
        expect(sc.parallelize([1]).count() == 1, "the SparkContext goes on")


def _takes_some(args, ctx):
    tf_feed = ctx.get_data_feed()
    taken = 0
    while not tf_feed.should_stop() and taken < 50:
        taken += len(tf_feed.next_batch(10))
    tf_feed.terminate()
    _tell(args, ctx, {"taken": taken, "state": str(ctx.mgr.get("state"))})


def a_program_ends_its_feed(spark, folder):
    sc = spark.sparkContext
    rdd = sc.parallelize(range(100000), 10)
    cluster = TFCluster.run(sc, _takes_some, _ARGS, 2, 0, input_mode=TFCluster.InputMode.SPARK)
    cluster.train(rdd)
    cluster.train(rdd)
    cluster.shutdown()
    told = _told(folder)
    expect([each for each in told.values()] == [{"taken": 50, "state": "'terminating'"}] * 2, told)


def _is_somewhere(args, ctx):
    if ctx.job_name == "ps":
        time.sleep(3600)
    _tell(
        Namespace({"folder": "results"}),
        ctx,
        {
            "argv": sys.argv,
            "config": json.loads(os.environ.get("TF_CONFIG", "{}")).get("task"),
            "gpus": os.environ["CUDA_VISIBLE_DEVICES"],
            "port": None if ctx.tmp_socket is None else ctx.tmp_socket.getsockname()[1],
            "address": ctx.cluster_spec[ctx.job_name][ctx.task_index],
        },
    )
    if ctx.tmp_socket is not None:
        ctx.release_port()
        assert ctx.tmp_socket is None


def nodes_that_read_their_own_data_end_by_themselves(spark, folder):
    sc = spark.sparkContext
    cluster = TFCluster.run(sc, _is_somewhere, ["a program", "--flag"], 2, num_ps=1)
    cluster.shutdown()
    told = _told(folder)
    expect(sorted(told) == ["worker-0"], told)
    expect(told["worker-0"]["argv"] == ["a program", "--flag"], told)
    expect(told["worker-0"]["config"] is None, "TF_CONFIG is for clusters with a chief")
    expect((told["worker-0"]["gpus"], told["worker-0"]["port"]) == ("", None), told)
    cluster = TFCluster.run(sc, _is_somewhere, {}, 2, 0, master_node="chief", release_port=False)
    cluster.shutdown(timeout=-1)
    told = _told(folder)
    expect(told["chief-0"]["config"] == {"type": "chief", "index": 0}, told)
    for each in told.values():
        expect(each["address"].endswith(f":{each['port']}"), told)


def streams_are_fed(spark, folder):
    sc = spark.sparkContext
    cluster = TFCluster.run(sc, _takes_some, _ARGS, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    stream = StreamingContext(sc, 0.5)
    cluster.train(stream.queueStream([sc.parallelize(range(first, first + 30), 2) for first in (0, 30, 60)]))
    stream.start()
    cluster.shutdown(stream)
    told = _told(folder)
    expect(told["worker-0"]["taken"] == 50, told)
    expect(sc.parallelize([1]).count() == 1, "the SparkContext goes on")


def a_client_ends_a_stream(spark, folder):
    sc = spark.sparkContext
    cluster = TFCluster.run(sc, main_fun, _ARGS, 1, 0, input_mode=TFCluster.InputMode.SPARK)
    stream = StreamingContext(sc, 0.5)
    fed = []
    batches = stream.queueStream([sc.parallelize([(0.5, 1.5)] * 30, 2) for _ in range(100)])
    batches.foreachRDD(lambda rdd: fed.append(rdd.count()))
    cluster.train(batches)
    stream.start()
    wait_for(lambda: len(fed) > 2, "batches")
    client = reservation.Client(cluster.cluster_meta["server_addr"])
    expect(client.request_stop() == "OK", "the server's answer")
    client.close()
    cluster.shutdown(stream)
    count = _told(folder)["worker-0"]["count"]
    expect(count > 0 and count % 30 == 0 and count < 3000, count)
    expect(sc.parallelize([1]).count() == 1, "the SparkContext goes on")


def _is_alone(args, ctx):
    path = pathlib.Path(args["folder"], f"alone-{ctx.executor_id}.json")
    path.write_text(json.dumps({"workers": ctx.num_workers, "gpus": os.environ["CUDA_VISIBLE_DEVICES"]}))


def programs_run_beside_each_other(spark, folder):
    for use_barrier in (True, False):
        TFParallel.run(spark.sparkContext, _is_alone, {"folder": folder}, 2, use_barrier=use_barrier)
        told = _told(folder)
        expect(told == {f"alone-{i}": {"workers": 2, "gpus": ""} for i in range(2)}, told)


def _sums(args, ctx):
    tf_feed = ctx.get_data_feed(input_mapping=args.input_mapping)
    total = rows = 0
    while not tf_feed.should_stop():
        batch = tf_feed.next_batch(args.batch_size)
        total += sum(x * y[0] for x, y in zip(batch["x"], batch["y_"]))
        rows += len(batch["x"])
    _tell(args, ctx, {"total": total, "rows": rows, "steps": args.steps})


def an_estimator_trains_on_a_dataframe(spark, folder):
    class Foo(TFParams, HasBatchSize, HasSteps):
        def __init__(self, args):
            super().__init__()
            self.args = args

    merged = Foo(Namespace({"a": 1})).setBatchSize(10).setSteps(100).merge_args_params()
    expect(merged == Namespace({"a": 1, "batch_size": 10, "steps": 100}), merged)
    expect("a" in merged and "b" not in merged and Namespace(["--x"]).argv == ["--x"], merged)
    frame = spark.createDataFrame([(float(i), [2.0], "unused") for i in range(100)], ["col1", "col2", "other"])
    estimator = (
        TFEstimator(_sums, {"folder": "results"})
        .setInputMapping({"col2": "y_", "col1": "x"})
        .setClusterSize(2)
        .setEpochs(3)
        .setSteps(7)
        .setExportDir("somewhere")
    )
    model = estimator.fit(frame)
    expect(isinstance(model, TFModel) and model.getExportDir() == "somewhere", model)
    told = _told(folder)
    expect(sum(each["rows"] for each in told.values()) == 300, told)
    expect(sum(each["total"] for each in told.values()) == 3 * 2 * sum(range(100)), told)
    expect({each["steps"] for each in told.values()} == {7}, told)


def dataframes_become_tfrecord_files_and_come_back(spark, folder):
    columns = (
        "text string, int bigint, ints array<bigint>, double double, doubles array<double>, bytes binary, "
        "flag boolean, texts array<string>"
    )
    rows = [
        ("text \u00fc", -1, [2, 1 << 62, -(1 << 63)], -1.5, [-2.5, 0.5], bytearray(b"\xff\0"), True, ["a", ""]),
        ("", 0, [], 0.0, [], bytearray(), False, []),
        ("null", None, [7], 1e30, [1.0], bytearray(b"x"), True, ["b"]),
    ]
    saved = spark.createDataFrame(rows, columns).repartition(2)
    files = str(pathlib.Path(folder).parent / "tfrecords")
    dfutil.saveAsTFRecords(saved, files)
    expect(len(list(pathlib.Path(files).glob("part-*"))) == 2, "a file for each partition")
    loaded = dfutil.loadTFRecords(spark.sparkContext, files, binary_features=["bytes"])
    expect(loaded.schema["bytes"].dataType.simpleString() == "binary", loaded.schema)
    found = {row.text: row for row in loaded.collect()}
    expect(len(found) == 3, found)
    for text, integer, ints, double, doubles, data, flag, texts in rows:
        row = found[text]
        expect((row.int, row.ints, row.doubles, row.texts, row.flag) == (integer, ints, doubles, texts, int(flag)), row)
        expect(bytes(row.bytes) == bytes(data) and abs(row.double - double) <= abs(double) * 1e-6, row)
    expect(dfutil.isLoadedDF(loaded) and not dfutil.isLoadedDF(saved), "which DataFrame was loaded")
    expect(not dfutil.isLoadedDF(loaded.filter("int = 0")), "another one")
    try:
        dfutil.saveAsTFRecords(spark.sql("SELECT map(1, 2) AS m"), files + "-2")
        expect(False, "no error")
    except Exception as error:
        expect("Unsupported dtype: map<int,int>" in str(error), error)


def files_of_tensorflow_are_read(spark, folder):
    for file in sys.argv[4:]:
        files = pathlib.Path(folder).parent / f"of-{pathlib.Path(file).stem}"
        files.mkdir()
        copy = shutil.copy(file, files)
        rows = dfutil.loadTFRecords(spark.sparkContext, str(files), binary_features=["image"]).orderBy("id").collect()
        expect([row.id for row in rows] == [0, 1, 2], rows)
        expect(all(row.extremes == [-(1 << 63), (1 << 63) - 1, -1, 0, 127, 128] for row in rows), rows)
        expect([bytes(row.image) for row in rows] == [b"\xff\x00" * i for i in range(3)], rows)
        expect([row.name for row in rows] == [f"row {i} \u00fc" for i in range(3)], rows)
        expect([row.tags for row in rows] == [[f"tag {k}" for k in range(i)] for i in range(3)], rows)
        expect([row.x for row in rows] == [[i, i + 0.5] for i in range(3)], rows)
        expect([row.score for row in rows] == [0.0, None, 0.5], rows)
        if "none" in copy:
            data = bytearray(pathlib.Path(copy).read_bytes())
            data[40] ^= 1
            pathlib.Path(copy).write_bytes(data)
            try:
                dfutil.loadTFRecords(spark.sparkContext, str(files))
                expect(False, "no error")
            except Exception as error:
                expect("record 0 at byte 0: its checksum is wrong: the file is damaged" in str(error), error)


def nothing_is_left(spark, folder):
    """Processes of functions, and the files in which they lay. The last agents may be ending."""

    def running():
        found = []
        for process in pathlib.Path("/proc").iterdir():
            try:
                place, command = os.readlink(process / "cwd"), (process / "cmdline").read_bytes()
            except OSError:
                continue
            if place.startswith(os.path.dirname(folder)) and b"millrace._spark_function" in command:
                found.append(command)
        return found

    wait_for(lambda: not running(), "the ends of processes")
    wait_for(lambda: not list(pathlib.Path(folder).parent.rglob("millrace-function-*")), "the ends of files")


def another_context_has_the_jar_too(spark, folder):
    """The JVM of this process keeps the classes of the first one."""
    spark.stop()
    spark = _session()
    cluster = TFCluster.run(spark.sparkContext, main_fun, _ARGS, 1, num_ps=0, input_mode=TFCluster.InputMode.SPARK)
    cluster.train(spark.sparkContext.parallelize([(0.5, 1.5)] * 10, 1), 1)
    cluster.shutdown()
    expect(_told(folder)["worker-0"]["count"] == 10, "rows")
    spark.stop()


def _session():
    spark = (
        SparkSession.builder.appName("tensorflowonspark")
        .config("spark.executorEnv.MILLRACE_LIBRARY", sys.argv[1])
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    return spark


def main():
    spark = _session()
    folder = os.path.abspath("results")
    os.makedirs(folder)
    for check in (
        a_program_trains_over_an_rdd,
        inference_is_one_to_one_and_in_order,
        one_feed_serves_training_and_inference,
        exceptions_reach_the_driver,
        a_program_ends_its_feed,
        nodes_that_read_their_own_data_end_by_themselves,
        streams_are_fed,
        a_client_ends_a_stream,
        programs_run_beside_each_other,
        an_estimator_trains_on_a_dataframe,
        dataframes_become_tfrecord_files_and_come_back,
        files_of_tensorflow_are_read,
        nothing_is_left,
        another_context_has_the_jar_too,
    ):
        check(spark, folder)
        print(f"CHECK {check.__name__} ok", flush=True)


if __name__ == "__main__":
    main()
