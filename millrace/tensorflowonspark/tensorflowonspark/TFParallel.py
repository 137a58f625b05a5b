"""Programs that run beside each other and do not know of each other."""

import logging

from tensorflowonspark import TFSparkNode, util

logger = logging.getLogger(__name__)


def run(sc, map_fn, tf_args, num_executors, use_barrier=True):
    """Runs map_fn(tf_args, ctx) in `num_executors` tasks of Spark, and returns when all have ended. ctx has their
    numbers and nothing of a cluster.

    use_barrier: all of them start together, or none (Spark's barrier mode, which says after a while that they do not
    fit).
    """
    default_fs = sc._jsc.hadoopConfiguration().get("fs.defaultFS")
    if default_fs.startswith("file://") and len(default_fs) > len("file://"):
        default_fs = default_fs.removesuffix("/")

    def run_one(indices):
        from pyspark import BarrierTaskContext

        (index,) = indices
        tasks = [task.address for task in BarrierTaskContext.get().getTaskInfos()] if use_barrier else []
        num_gpus = TFSparkNode.requested_gpus(tf_args)
        util.single_node_env(1 if num_gpus is None else num_gpus, index, tasks)
        context = TFSparkNode.TFNodeContext(index, defaultFS=default_fs)
        context.num_workers = num_executors
        map_fn(tf_args, context)
        return []

    nodes = sc.parallelize(range(num_executors), num_executors)
    (nodes.barrier() if use_barrier else nodes).mapPartitions(run_one).collect()
