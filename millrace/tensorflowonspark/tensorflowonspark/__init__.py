"""TensorFlowOnSpark's modules, on clusters of Millrace: what programs import of version 2.2.5.

    from tensorflowonspark import TFCluster

    cluster = TFCluster.run(sc, main_fun, args, num_executors, num_ps=0, input_mode=TFCluster.InputMode.SPARK)
    cluster.train(rdd, num_epochs=3)
    cluster.shutdown()

It needs the package `millrace`, and TensorFlow only where a program uses it.
"""

import logging

# Programs count on it: they log by the root logger, and so do we.
logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s (%(threadName)s-%(process)d) %(message)s")

__version__ = "2.2.5"  # of what programs see
