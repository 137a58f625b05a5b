"""A PySpark application that feeds RDDs of Python objects to nodes whose program is a function; run by python_test.py.

    python_rdd_checks.py LIBRARY PACKAGE
"""

import pathlib
import sys
import time

from eventually import wait_for
from millrace import Cluster, ClusterObserver, FailureOptions, InputMode, MillraceError, RestartPolicy
from pyspark import RDD
from pyspark.sql import Row, SparkSession
from pyspark.streaming import StreamingContext

_SOON = FailureOptions(stop_grace=1)


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def _run(spark, function, nodes=2, **options):
    options = {"input_mode": InputMode.FEED, "failure": _SOON, **options}
    return Cluster.run(spark, function, nodes, env={"MILLRACE_LIBRARY": sys.argv[1]}, **options)


def _answers_all(node):
    """Trains, then says for each element of inference what it is."""
    seen = [element for batch in node.feed(batch=64) for element in batch.objects()]
    feed = node.feed(batch=10, mode="inference")
    for batch in feed:
        feed.object_results([(node.rank, len(seen), element) for element in batch.objects()])


def elements_are_fed_and_answered_one_by_one(spark, _):
    context = spark.sparkContext
    elements = [{"id": i, "point": (i, [float(i)] * 3), "none": None} for i in range(1000)]
    rdd = context.parallelize(elements, 4)
    with _run(spark, _answers_all) as cluster:
        result = cluster.train(rdd, num_epochs=2, end_of_feed=True)
        expect((result.rows, result.exactly_once, result.terminated) == (2000, True, False), result)
        out = cluster.inference(rdd)
        expect(isinstance(out, RDD) and out.getNumPartitions() == 4, out)
        rows = out.collect()
        expect([row[2] for row in rows] == elements, "each element, in order")
        counts = {rank: seen for rank, seen, _ in rows}
        expect(sum(counts.values()) == 2000, counts)
        expect(out.map(lambda row: row[2]["id"]).sum() == sum(range(1000)), "an action feeds again")
        expect([row[2] for row in out.take(3)] == elements[:3], "an action that stops early")


def _prints(node):
    print(f"rank {node.rank} says hello")
    print(f"rank {node.rank} has a warning", file=sys.stderr)


def what_nodes_print_is_in_the_logs_of_executors(spark, _):
    """Where Spark's pages show what tasks print."""
    with _run(spark, _prints, input_mode=InputMode.DIRECT):
        pass

    def printed(name):
        files = pathlib.Path.cwd().glob(f"work-*/*/*/{name}")
        return [line for file in files for line in file.read_text(errors="replace").splitlines()]

    for rank in range(2):
        wait_for(lambda: f"worker:{rank}: rank {rank} says hello" in printed("stdout"), "stdout")
        wait_for(lambda: f"worker:{rank}: rank {rank} has a warning" in printed("stderr"), "stderr")


def _tells(node):
    print(f"rank {node.rank} says hello")
    node.metric("loss", 3, 0.5 + node.rank)


def observers_hear_of_nodes(spark, _):
    lines, metrics, slots = [], [], []

    def heard():
        running = {node.name for node in slots if node.state == "running"}
        return len(lines) == 2 and len(metrics) == 2 and running == {"worker:0", "worker:1"}

    observer = ClusterObserver(
        on_output=lambda *told: lines.append(told),
        on_metric=lambda *told: metrics.append(told),
        on_slot=slots.append,
    )
    with _run(spark, _tells, input_mode=InputMode.DIRECT, observer=observer):
        wait_for(heard, "what nodes tell")
    expect(sorted(lines) == [(f"worker:{rank}", f"rank {rank} says hello") for rank in range(2)], lines)
    expect(sorted(metrics) == [(f"worker:{rank}", "loss", 3, 0.5 + rank) for rank in range(2)], metrics)
    expect(all(node.host and node.pid for node in slots if node.state == "running"), slots)
    try:
        _run(spark, _tells, observer=ClusterObserver(on_restart=print))
        expect(False, "no error")
    except TypeError as error:
        expect("on Spark has no option observer.on_restart" in str(error), error)


def _how_many(node):
    """Answers every element with the number of those in its batch."""
    list(node.feed())
    feed = node.feed(batch=3, mode="inference")
    for batch in feed:
        feed.object_results([(batch.num_rows, element) for element in batch.objects()])


def rdds_of_every_form_are_fed(spark, package):
    context = spark.sparkContext
    text = pathlib.Path(package).parent / "lines.txt"
    text.write_text("one\ntwo\n\u00fc\n", encoding="utf-8")
    numbers = context.parallelize(range(10), 2)
    forms = {
        "numbers": (numbers, list(range(10))),
        "computed": (numbers.map(lambda x: (x, str(x))), [(x, str(x)) for x in range(10)]),
        "cached": (numbers.map(lambda x: -x).cache(), [-x for x in range(10)]),
        "text": (context.textFile(str(text), 1), ["one", "two", "\u00fc"]),
        "rows": (spark.createDataFrame([(1, "a"), (2, "b")], "x int, y string").rdd, [Row(x=1, y="a"), Row(2, "b")]),
        "pairs": (numbers.zip(numbers), [(x, x) for x in range(10)]),
        "union": (numbers.union(numbers.zip(numbers)), list(range(10)) + [(x, x) for x in range(10)]),
        "without elements": (context.parallelize([], 2), []),
        "without partitions": (context.emptyRDD(), []),
    }
    with _run(spark, _how_many) as cluster:
        for name, (rdd, elements) in forms.items():
            expect(cluster.train(rdd).rows == len(elements), name)
        cluster.end_feed()
        for name, (rdd, elements) in forms.items():
            rows = cluster.inference(rdd).collect()
            expect([element for _, element in rows] == elements, f"{name}: {rows}")
        batches = [size for size, _ in cluster.inference(numbers).collect()]
        expect(batches == [3, 3, 3, 2, 2] * 2, f"batches of elements, short at a partition's end: {batches}")


class _Own:
    """Of this program, and with a function that nothing but PySpark's own pickles carry."""

    def __init__(self, value):
        self.value = lambda: value


def _values(node):
    list(node.feed())
    feed = node.feed(batch=4, mode="inference")
    for batch in feed:
        feed.object_results([each if isinstance(each, int) else each.value() for each in batch.objects()])


def elements_may_be_of_the_programs_own_classes(spark, _):
    numbers = spark.sparkContext.parallelize(range(20), 2)
    mixed = numbers.map(lambda x: _Own(-x) if x % 3 == 0 else x)
    with _run(spark, _values) as cluster:
        expect(cluster.train(mixed, end_of_feed=True).rows == 20, "rows")
        found = cluster.inference(mixed).collect()
        expect(found == [-x if x % 3 == 0 else x for x in range(20)], found)


def functions_carry_what_they_use(spark, _):
    """Variables of the driver, functions of its main program, and modules that Spark sends."""
    added = {"by": 5}

    def add(node):
        feed = node.feed(mode="inference")
        for batch in feed:
            wait_for(lambda: True, "a module of --py-files")
            feed.object_results([element + added["by"] for element in batch.objects()])

    with _run(spark, add, 1) as cluster:
        cluster.end_feed()
        answers = cluster.inference(spark.sparkContext.parallelize([1, 2], 1)).collect()
        expect(answers == [6, 7], "the driver's variable")


def _fails(node):
    for batch in node.feed(batch=10):
        if 13 in batch.objects():
            raise ValueError("thirteen is no number")


def _fails_once(node):
    for batch in node.feed(batch=10):
        if node.attempt == 0 and 13 in batch.objects():
            raise ValueError("thirteen is no number")


def errors_of_functions_reach_the_driver(spark, _):
    rdd = spark.sparkContext.parallelize(range(100), 2)
    with _run(spark, _fails) as cluster:
        try:
            cluster.train(rdd)
            expect(False, "no error")
        except MillraceError as error:
            expect("ValueError: thirteen is no number (python_rdd_checks.py:" in str(error), error)
            expect(error.node.startswith("worker:"), error.node)
        cluster.close()
    with _run(spark, _fails_once, failure=FailureOptions(RestartPolicy(1), stop_grace=1)) as cluster:
        result = cluster.train(rdd)
        expect(result.rows == 100 and not result.exactly_once, result)


def an_element_that_cannot_be_made_is_the_users_error(spark, _):
    rdd = spark.sparkContext.parallelize(range(4), 2).map(lambda x: 1 // (x - 2))
    with _run(spark, _how_many) as cluster:
        try:
            cluster.train(rdd)
            expect(False, "no error")
        except Exception as error:
            expect("ZeroDivisionError" in str(error), error)
        expect(cluster.train(spark.sparkContext.parallelize(range(4), 2)).rows == 4, "the cluster goes on")


def streams_are_fed(spark, _):
    context = spark.sparkContext
    with _run(spark, _answers_all) as cluster:
        stream = StreamingContext(context, 0.5)
        fed = []
        batches = [context.parallelize(range(first, first + 10), 2) for first in (0, 10)]
        stream.queueStream(batches).foreachRDD(lambda rdd: fed.append(cluster.train(rdd).rows))
        stream.start()
        wait_for(lambda: sum(fed) == 20, "the batches of a stream")
        stream.stop(stopSparkContext=False, stopGraceFully=True)
        expect(set(fed) <= {0, 10}, fed)


def wrong_use_is_told(spark, _):
    rdd = spark.sparkContext.parallelize([1], 1)
    frame = spark.range(1)
    lock = __import__("threading").Lock()
    for call, words in (
        (lambda cluster: cluster.inference(frame), "inference on a DataFrame needs the columns"),
        (lambda cluster: cluster.inference(rdd, "x bigint"), "they have no result_schema"),
        (lambda cluster: cluster.train([1]), "a list cannot be fed on Spark"),
        (lambda cluster: cluster.train(frame), "these rows are no Python objects but columns: id"),
    ):
        with _run(spark, _answers_all, 1) as cluster:
            try:
                call(cluster)
                expect(False, f"no error: {words}")
            except MillraceError as error:
                expect(words in str(error), error)
            cluster.close()
    try:
        _run(spark, lambda node: lock.acquire())
        expect(False, "no error")
    except Exception as error:
        expect("pickle" in str(error), error)


def nothing_is_left_of_functions(_, package):
    """The files that functions lay in. The last agents may be ending."""
    folder = pathlib.Path(package).parent
    deadline = time.monotonic() + 60
    while left := list(folder.rglob("millrace-function-*")):
        expect(time.monotonic() < deadline, left)
        time.sleep(0.1)


def main():
    spark = SparkSession.builder.appName("millrace python rdds").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    for check in (
        elements_are_fed_and_answered_one_by_one,
        what_nodes_print_is_in_the_logs_of_executors,
        observers_hear_of_nodes,
        rdds_of_every_form_are_fed,
        elements_may_be_of_the_programs_own_classes,
        functions_carry_what_they_use,
        errors_of_functions_reach_the_driver,
        an_element_that_cannot_be_made_is_the_users_error,
        streams_are_fed,
        wrong_use_is_told,
        nothing_is_left_of_functions,
    ):
        check(spark, sys.argv[2])
        print(f"CHECK {check.__name__} ok", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
