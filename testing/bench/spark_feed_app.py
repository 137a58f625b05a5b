"""The application of the benchmark spark_feed: measures, and writes a line of JSON for each figure."""

import argparse
import contextlib
import functools
import json
import os
import pathlib
import signal
import tempfile
import threading
import time

from millrace import Cluster, FeedOptions, InputMode, MillraceError, NodeProgram
from pyspark.sql import SparkSession

_MIXED = [
    f"IF(id % {3 + k} = 0, NULL, {column}) AS c{k}"
    for k, column in enumerate(
        [
            "id",
            "CAST(id % 1000 AS int)",
            "CAST(id % 100 AS smallint)",
            "id % 2 = 0",
            "id / 7",
            "CAST(id % 1000 / 7 AS float)",
            "concat('name-', id % 5000)",
            "uuid()",
            "date_add(DATE '2020-01-01', CAST(id % 1000 AS int))",
            "timestamp_seconds(1600000000 + id)",
        ]
    )
]
# Shape to rows and columns; enough rows that starting a job is little of it.
SHAPES = {
    "a": (6_000_000, ["id AS x"]),
    "b": (400_000, ["transform(sequence(0, 63), k -> CAST((id * 64 + k) % 1000 / 7 AS float)) AS x"]),
    "c": (80_000, ["transform(sequence(0, 783), k -> CAST((id + k) % 256 / 255 AS float)) AS x"]),
    "d": (80_000, ["CAST(repeat(substr('0123456789', 1 + CAST(id % 10 AS int), 1), 3072) AS binary) AS x"]),
    "s": (400_000, [f"CAST((id * 64 + {k}) % 1000 / 7 AS float) AS f{k}" for k in range(64)]),
    "p": (500_000, ["id AS x"]),
    "q": (500_000, ["id AS x"]),
    "t": (1_000_000, ["lpad(CAST(id AS string), 20, 'x') AS x"]),
    "m": (1_000_000, _MIXED),
}
# The same, read from files as they lie; those above are cached.
PARQUET = {"e": "a", "v": "b", "f": "c", "g": "d", "h": "s", "u": "t", "w": "m"}
SHAPES.update({name: SHAPES[of] for name, of in PARQUET.items()})
# Two, one for each node; many small ones show what a task costs.
PARTITIONS = {"p": 5000, "q": 5000}
EPOCHS = {"q": 3}

# Beginnings of the names of threads (the kernel keeps 15 bytes) to the stage that they work for.
THREADS = {
    "Executor task l": "task",  # scan and copy: what a scan takes is told apart by the way without a sink
    "iothread": "wire",
    "reaper": "wire",
    "millrace-feed-h": "wire",
    "GC Thread": "gc",
    "G1 ": "gc",
    "VM Thread": "gc",
    "C1 CompilerThre": "compiler",
    "C2 CompilerThre": "compiler",
}


def tell(**figure):
    print("FIGURE " + json.dumps(figure), flush=True)


def processes():
    """Pid to command line."""
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), pathlib.Path(entry.path, "cmdline").read_bytes().decode("utf-8", "replace")


def is_node(command, program):
    # Executors run a copy of it.
    return os.path.basename(command.split("\0")[0]) == os.path.basename(program)


def node_pids(program):
    return [pid for pid, command in processes() if is_node(command, program)]


class CpuMeter:
    """CPU seconds of executors, their Python workers and nodes, by stage."""

    def __init__(self, application, program):
        self._application = application
        self._program = program
        self._ticks = os.sysconf("SC_CLK_TCK")

    def _stage(self, command, thread):
        if is_node(command, self._program):
            return "node"
        if self._application in command:
            return next((stage for name, stage in THREADS.items() if thread.startswith(name)), "other")
        return "python" if "pyspark.daemon" in command else None

    def _stat(self, folder):
        stat = pathlib.Path(folder, "stat").read_text(encoding="utf-8", errors="replace")
        user, system = stat.rpartition(")")[2].split()[11:13]
        return stat[stat.index("(") + 1 : stat.rindex(")")], (int(user) + int(system)) / self._ticks

    def read(self):
        """Thread to its process, its stage and its seconds so far; minus the process: of threads that have ended."""
        totals = {}
        for pid, command in processes():
            if self._stage(command, "") is None:
                continue
            with contextlib.suppress(OSError):
                _, ended = self._stat(f"/proc/{pid}")
                for thread in os.scandir(f"/proc/{pid}/task"):
                    with contextlib.suppress(OSError):  # it ends just now
                        name, seconds = self._stat(thread.path)
                        totals[int(thread.name)] = (pid, self._stage(command, name), seconds)
                        ended -= seconds
                # In an executor those that wrote to a Python worker.
                totals[-pid] = (pid, self._stage(command, "Executor task l"), ended)
        return totals


def spent(before, after):
    """CPU seconds by stage between two readings."""
    stages = {}
    for thread, (pid, stage, seconds) in after.items():
        if thread in before:
            seconds -= before[thread][2]
        if thread < 0:
            # Of those that ended meanwhile what they had before is known.
            seconds -= sum(was[2] for tid, was in before.items() if tid > 0 and was[0] == pid and tid not in after)
        stages[stage] = stages.get(stage, 0.0) + max(0.0, seconds)
    return {stage: round(seconds, 3) for stage, seconds in stages.items() if seconds > 0}


def held(pid):
    """What a process has: resident MB, threads, descriptors."""
    lines = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    files = len(os.listdir(f"/proc/{pid}/fd"))
    return {"mb": int(status["VmRSS"].split()[0]) / 1024, "threads": int(status["Threads"]), "files": files}


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


def scan(df, epochs):
    for _ in range(epochs):
        noop(df)


def feed(cluster, df, rows, epochs):
    expect_rows(cluster.train(df, num_epochs=epochs).rows, rows)


def echo(cluster, df):
    noop(cluster.inference(df, "y bigint"))


class Bench:
    def __init__(self, spark, arguments, folder):
        self.spark = spark
        self.folder = folder
        self.reps = arguments.reps
        self.scale = arguments.scale
        self.only_millrace = arguments.only_millrace
        self.program = arguments.node
        self.meter = CpuMeter(spark.sparkContext.applicationId, arguments.node)

    def start(self, shared_memory=False):
        program = NodeProgram.file(self.program)
        feed = FeedOptions(shared_memory=shared_memory)
        return Cluster.run(self.spark, program, 2, input_mode=InputMode.FEED, feed=feed)

    def measure(self, shape, rows, ways):
        """Each way in turns, after two rounds that do not count: compilers need so long."""
        for rep in range(-2, self.reps):
            for name, run in ways.items():
                before = self.meter.read()
                seconds = timed(run)
                if rep >= 0:
                    tell(shape=shape, way=name, rows=rows, seconds=seconds, cpu=spent(before, self.meter.read()))

    def frame(self, shape):
        rows, columns = SHAPES[shape]
        rows = int(rows * self.scale)
        batch = 10_000 if PARQUET.get(shape, shape) in "astm" else 1000
        self.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", batch)
        df = self.spark.range(0, rows, 1, PARTITIONS.get(shape, 2)).selectExpr(*columns)
        if shape in PARTITIONS:
            return df, rows  # as it is: a cache of so many blocks would be measured instead
        if shape in PARQUET:
            path = os.path.join(self.folder, shape)
            df.write.parquet(path)
            df = self.spark.read.parquet(path)
            expect_rows(df.count(), rows)
            return df, rows
        df.cache()
        expect_rows(df.count(), rows)
        return df, rows

    def turns(self):
        """From run to running, and the end, of one cluster after another."""
        for rep in range(self.reps + 1):
            began = time.perf_counter()
            cluster = self.start()
            tell(shape="-", way="run" if rep else "first run", rows=0, seconds=time.perf_counter() - began)
            tell(shape="-", way="shutdown", rows=0, seconds=timed(cluster.shutdown))

    def kills(self):
        """SIGKILL of a node while rows stream in, until train() has failed."""
        df = self.spark.range(0, 100_000, 1, 2).selectExpr("id AS x").cache()
        df.count()
        for _ in range(self.reps):
            cluster = self.start()
            killed = []

            def kill():
                time.sleep(1)
                os.kill(node_pids(self.program)[0], signal.SIGKILL)
                killed.append(time.perf_counter())

            killer = threading.Thread(target=kill)
            killer.start()
            try:
                cluster.train(df, num_epochs=1000)
                raise AssertionError("a killed node went unnoticed")
            except MillraceError as error:
                failed = time.perf_counter()
                if "SIGKILL" not in str(error):
                    raise
            killer.join()
            tell(shape="-", way="failure", rows=0, seconds=failed - killed[0])
            with contextlib.suppress(MillraceError):
                cluster.shutdown()
        df.unpersist()

    def feeds(self, clusters, shapes):
        """`clusters`: by the name of the way that feeds them."""
        kept = None
        for shape in shapes:
            df, rows = self.frame(shape)
            epochs = EPOCHS.get(shape, 1)
            ways = {} if self.only_millrace else {"noop scan": functools.partial(scan, df, epochs)}
            if not self.only_millrace and shape not in PARTITIONS:
                ways["mapInArrow"] = lambda: expect_rows(
                    sum(r.n for r in df.mapInArrow(count_arrow, "n long").collect()), rows
                )
                ways["mapInPandas"] = lambda: expect_rows(
                    sum(r.n for r in df.mapInPandas(count_pandas, "n long").collect()), rows
                )
            for name, cluster in clusters.items():
                ways[name] = functools.partial(feed, cluster, df, rows * epochs, epochs)
            self.measure(shape, rows * epochs, ways)
            if shape == "a":
                kept = (df, rows)
            else:
                df.unpersist(True)
        return kept

    def echo(self, clusters, df, rows):
        ways = {"mapInArrow": lambda: noop(df.mapInArrow(echo_arrow, "y long"))}
        for name, cluster in clusters.items():
            cluster.end_feed()
            ways[name] = functools.partial(echo, cluster, df)
        self.measure("echo of a", rows, ways)

    def memory(self, shapes, seconds, pause):
        """What executors, their agents and nodes hold while rows go through shared memory for so long."""
        cluster = self.start(shared_memory=True)
        frames = [self.frame(shape) for shape in shapes]
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            for df, rows in frames:
                feed(cluster, df, rows, 1)
            for pid, command in processes():
                java = os.path.basename(command.split("\0")[0]) == "java"
                way = "node" if is_node(command, self.program) else "executor" if java else "agent"
                if way == "node" or self.spark.sparkContext.applicationId in command:
                    with contextlib.suppress(OSError):
                        tell(shape="memory", way=way, rows=0, seconds=passed, pid=pid, **held(pid))
            time.sleep(pause)
        cluster.shutdown()


def measure(bench, arguments):
    if arguments.memory:
        bench.memory(arguments.shapes.split(","), arguments.memory, arguments.pause)
        return
    if not arguments.only_millrace and not arguments.only_feeds:
        bench.turns()
        bench.kills()
    if arguments.only_millrace:
        clusters = {"Millrace over CURVE": bench.start()}
    else:
        clusters = {"Millrace": bench.start(), "Millrace, shared": bench.start(shared_memory=True)}
    kept = bench.feeds(clusters, arguments.shapes.split(",") if arguments.shapes else [])
    if kept and not arguments.only_millrace:
        bench.echo(clusters, *kept)
    for cluster in clusters.values():
        cluster.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node")
    parser.add_argument("--shapes", default="a,b,c,d,s,t,m,e,v,f,g,h,u,w,p")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only-millrace", action="store_true", help="the feed alone")
    parser.add_argument("--only-feeds", action="store_true", help="no starts, ends and failures of clusters")
    parser.add_argument("--memory", type=float, default=0, help="for so many seconds, and nothing else")
    parser.add_argument("--pause", type=float, default=0, help="seconds between its calls")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("spark_feed").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).repartition(2).count()  # executors are there
    with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
        measure(Bench(spark, arguments, folder), arguments)
    spark.stop()


if __name__ == "__main__":
    main()
