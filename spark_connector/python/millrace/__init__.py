"""Millrace on Spark, from Python: native node programs on executors, fed by DataFrames.

    cluster = MillraceCluster.run(spark, NodeProgram.file("digits_node"), num_executors=4,
                                  input_mode=InputMode.FEED)
    cluster.train(df, num_epochs=5)
    out = cluster.inference(df, "id bigint, prediction bigint")    # lazy
    cluster.shutdown()

The connector's jar, millrace-spark.jar, has to be on the application's class path (`--jars`).
"""

from millrace.cluster import MillraceCluster, NodeInfo, TrainResult
from millrace.error import MillraceError
from millrace.options import InputMode, NodeProgram, QuarantinePolicy, RestartPolicy, Sidecar

__all__ = [
    "InputMode",
    "MillraceCluster",
    "MillraceError",
    "NodeInfo",
    "NodeProgram",
    "QuarantinePolicy",
    "RestartPolicy",
    "Sidecar",
    "TrainResult",
]
__version__ = "0.1.0"
