"""A PySpark application whose nodes are ranks of PyTorch's DistributedDataParallel; run by python_test.py.

    ddp_checks.py NODE PACKAGE LIBRARY
"""

import array
import contextlib
import functools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

from eventually import wait_for
from millrace import Cluster, FailureOptions, InputMode, MillraceError, NodeProgram, RestartPolicy
from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = (250_000, 1, 200_003, 90_000, 160_000, 123_457, 176_542)
_ROWS = 1_000_003
_EPOCHS = 3
_BATCH = 4096
# Small ones, so that every rank has some.
_SMALL = (9_000, 3_000, 1, 12_002, 5_000, 8_000, 7_000) * 3
_WEIGHTS = (1, 2, 3, 4)
_HEARD_S = 1  # the others know that one was killed; longer by as much as other programs take of the processors


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def _rows(spark, partitions):
    """Of these sizes; y follows from x."""
    starts = [sum(partitions[:i]) for i in range(len(partitions))]
    ids = [spark.range(start, start + size, 1, 1) for start, size in zip(starts, partitions)]
    x = [f"CAST(pmod(id * {step}, 1009) / 1009 - 0.5 AS FLOAT)" for step in (7, 61, 353, 811)]
    rows = functools.reduce(DataFrame.union, ids).selectExpr("id", f"array({', '.join(x)}) AS x")
    expect(rows.rdd.getNumPartitions() == len(partitions), rows.rdd.getNumPartitions())
    y = " + ".join(f"{weight} * x[{i}]" for i, weight in enumerate(_WEIGHTS))
    return rows.selectExpr("id", "x", f"CAST({y} AS FLOAT) AS y")


def _run(spark, ranks, folder, batch, *arguments, **options):
    node, package, library = sys.argv[1:4]
    env = {"PYTHONPATH": package, "MILLRACE_LIBRARY": library}
    command = ["-s", "-P", "-B", node, folder, batch, *arguments]
    program = NodeProgram.path(sys.executable, *command, env=env)
    return Cluster.run(spark, program, ranks, input_mode=InputMode.FEED, **options)


def _read(folder, name):
    """What a node tells, when it does."""
    path = pathlib.Path(folder, f"{name}.json")
    wait_for(path.exists, path.name)
    return json.loads(path.read_text())


def _told(folder, ranks):
    """By all ranks, which must agree on it."""
    told = [_read(folder, f"worker:{rank}") for rank in range(ranks)]
    expect(all(each == told[0] for each in told), told)
    expect(all(abs(a - b) < 1 for a, b in zip(told[0]["weights"], _WEIGHTS)), f"it has learned {told[0]}")
    return told[0]


def _check_counts(result, steps, ranks, batch, partitions, epochs=1):
    """Every row that was fed was used or dropped: fewer of a rank than two partitions and a batch."""
    rows = sum(partitions) * epochs
    used = steps * batch * ranks
    expect((result.rows, result.dropped_rows, result.repeated_rows) == (used, rows - used, 0), (steps, result))
    expect(sorted(result.equal_nodes) == [f"worker:{rank}" for rank in range(ranks)], result)
    dropped_by_rank = [dropped for dropped, _ in result.equal_nodes.values()]
    expect(sum(dropped_by_rank) == result.dropped_rows, result)
    expect(max(dropped_by_rank) < 2 * max(partitions) + batch, result)


def _check_epochs(result, folder, ranks):
    told = _told(folder, ranks)
    _check_counts(result, told["steps"], ranks, _BATCH, _PARTITIONS, _EPOCHS)
    expect(told["used"] == result.rows and told["most"] <= _EPOCHS, f"no row more than once in an epoch: {told}")
    print(f"INFO {ranks} ranks: {told['steps']} steps, {result}", flush=True)


def _others_take():
    """How many threads of others want to run, for each processor; to be asked while this application does nothing."""
    wanting = []
    for _ in range(50):
        time.sleep(0.01)
        # "20.00 18.34 5.05 3/456 123457": three threads run or want to, this one among them.
        running = pathlib.Path("/proc/loadavg").read_text(encoding="ascii").split()[3]
        wanting.append(int(running.partition("/")[0]) - 1)
    return max(0, statistics.mean(wanting)) / os.cpu_count()


def two_ranks_take_equally_many_steps(spark, folder):
    with _run(spark, 2, folder, _BATCH, "learns", _ROWS) as cluster:
        result = cluster.train(_rows(spark, _PARTITIONS), num_epochs=_EPOCHS, end_of_feed=True)
    _check_epochs(result, folder, 2)


def four_ranks_take_equally_many_steps_and_one_that_is_killed_is_everybodys_error(spark, folder):
    others = _others_take()
    with contextlib.closing(_run(spark, 4, folder, _BATCH, "learns_and_is_killed", _ROWS)) as cluster:
        result = cluster.train(_rows(spark, _PARTITIONS), num_epochs=_EPOCHS, end_of_feed=True)
        try:
            cluster.train(_rows(spark, [8 * _BATCH] * 32), queue="output")
            expect(False, "no error")
        except MillraceError as error:
            heard = {"the driver": (time.time(), str(error))}
            expect(error.node == "worker:1", error)
        heard |= {f"worker:{rank}": _read(folder, f"worker:{rank} heard") for rank in (0, 2, 3)}
    _check_epochs(result, folder, 4)
    limit = _HEARD_S * (1 + max(others, _others_take()))
    killed_at = _read(folder, "killed")
    for who, (heard_at, error) in heard.items():
        expect("worker:1" in error and "SIGKILL" in error, error)
        took = f"{heard_at - killed_at:.2f} of {limit:.2f} s"
        expect(heard_at - killed_at < limit, f"{who}: {took}")
        print(f"INFO {who} knew that worker:1 had ended after {took}: {error}", flush=True)


def ranks_that_are_started_again_go_on_and_use_each_row_once(spark, folder):
    batch = 256
    again = FailureOptions(restart=RestartPolicy(1, initial_backoff=0.01))
    with _run(spark, 2, folder, batch, "resumes", failure=again) as cluster:
        result = cluster.train(_rows(spark, _SMALL), end_of_feed=True)
    told = _told(folder, 2)
    expect(told["first"] == 4, f"it went on after the last step that both had a checkpoint of: {told}")
    _check_counts(result, told["steps"], 2, batch, _SMALL)
    ids = array.array("q")
    for rank in range(2):
        for step in range(1, told["steps"] + 1):
            ids.frombytes(pathlib.Path(folder, f"ids {rank}, {step}").read_bytes())
    expect(len(ids) == len(set(ids)) == result.rows, f"{len(ids)} rows, {len(set(ids))} of them different: {result}")
    print(f"INFO went on: {told['steps']} steps, {result}", flush=True)


def main():
    spark = SparkSession.builder.appName("millrace ddp").getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    spark.conf.set("spark.sql.unionOutputPartitioning", "false")  # Spark 4 makes one partition of several single ones
    for check in (
        two_ranks_take_equally_many_steps,
        four_ranks_take_equally_many_steps_and_one_that_is_killed_is_everybodys_error,
        ranks_that_are_started_again_go_on_and_use_each_row_once,
    ):
        with tempfile.TemporaryDirectory() as folder:
            check(spark, folder)
        print(f"CHECK {check.__name__} ok", flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
