"""A real Spark of a round's own, and the application that drives its cluster; ends when that does.

    spark_driver --folder=FOLDER --executors=N --commands=FIFO

The application's stdout is this program's. Where there is no Spark, one line says so:

    chaos unavailable REASON
"""

import argparse
import ctypes
import os
import pathlib
import signal
import sys

from spark_cluster import SparkCluster, SparkUnavailable, jvm_options

_PR_SET_PDEATHSIG = 1
_MAIN_CLASS = "io.millrace.spark.chaos.ChaosApplication"
_EXECUTOR_MEMORY = "512m"
_RUNFILES = pathlib.Path(__file__).parents[2]


class _Spark(SparkCluster):
    def environment(self):
        # Executors are killed as often as the round likes.
        return super().environment() | {"SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1"}


def main():
    parser = argparse.ArgumentParser(description="Runs Spark, and the application of a round.")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="for all that is Spark's")
    parser.add_argument("--executors", type=int, required=True, help="of one core each")
    parser.add_argument("--commands", required=True, help="a FIFO, from which the application reads what it is to do")
    parser.add_argument("--touched-heaps", action="store_true", help="of their full size from the beginning")
    arguments = parser.parse_args()
    # The kernel ends what this process has started, and executors end without their worker.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        return _run(arguments)
    except SparkUnavailable as why:
        print(f"chaos unavailable {why}", flush=True)
        return 0


def _run(arguments):
    temporary = arguments.folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    with _Spark(arguments.folder, cores=arguments.executors, version="3_5") as spark:
        heap = f" -Xms{_EXECUTOR_MEMORY} -XX:+AlwaysPreTouch" if arguments.touched_heaps else ""
        options = f"{jvm_options(spark.home)} -Djava.io.tmpdir={temporary}{heap}"
        names = ["spark_connector/java/libchaos_application.jar", "spark_connector/millrace-spark.jar"]
        jars = [_RUNFILES / name for name in names]
        code, output = spark.run(
            _MAIN_CLASS,
            [jar.resolve() for jar in jars],
            [arguments.commands],
            conf={
                "spark.driver.memory": _EXECUTOR_MEMORY,
                "spark.executor.memory": _EXECUTOR_MEMORY,
                "spark.driver.extraJavaOptions": options,
                "spark.executor.extraJavaOptions": options,
                # A task whose executor is killed is tried again, as often as that is done.
                "spark.task.maxFailures": "1000",
            },
            executors=arguments.executors,
            environment={
                name: os.environ[name] for name in ("MILLRACE_AGENT", "MILLRACE_GPU_HELPER") if name in os.environ
            },
            stdout=sys.stdout,
        )
        if code != 0:
            print(f"the application ended with {code}:\n{output[-20_000:]}", file=sys.stderr)
        return code


if __name__ == "__main__":
    sys.exit(main())
