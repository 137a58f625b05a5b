"""A Spark application that does nothing: it keeps its executors until SIGTERM, or its JVM is gone."""

import json
import os
import signal
import sys

from pyspark import SparkConf, SparkContext


def end(*_):
    raise SystemExit(0)


context = SparkContext(conf=SparkConf().setAppName("waiting"))
signal.signal(signal.SIGTERM, end)
print(json.dumps({"id": context.applicationId, "ui": context.uiWebUrl, "pid": os.getpid()}), flush=True)
try:
    sys.stdin.read()
finally:
    context.stop()
