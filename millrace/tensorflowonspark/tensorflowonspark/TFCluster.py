"""Clusters of nodes that run a program's function: run() starts one on Spark's executors."""

import logging
import os
import threading
import time
import urllib.parse

from millrace import Cluster, FailedPreconditionError, FeedOptions, NodeOptions, Sidecar
from millrace import InputMode as _MillraceInputMode

from tensorflowonspark import TFSparkNode, reservation
from tensorflowonspark._elements import inference_queue

logger = logging.getLogger(__name__)

_EPOCHS = 10  # where a program says 0, "until it is done"
_TENSORBOARD_S = 30
_ENDED = ("finished", "failed", "lost")
_POLL_S = 0.2


class InputMode(object):
    """Where nodes get their data from."""

    TENSORFLOW = 0  # they read it
    SPARK = 1  # TFCluster.train and TFCluster.inference feed it


class TFCluster(object):
    """A running cluster: run() makes it.

    Every call that fails raises millrace.MillraceError, whose text names the node that failed first, and what it wrote
    last. The SparkContext and this process go on.
    """

    sc = None
    defaultFS = None
    working_dir = None
    num_executors = None
    nodeRDD = None
    cluster_id = None
    cluster_meta = None
    input_mode = None
    queues = None
    server = None  # a reservation.Server, once train() was given a DStream: a client may ask it to end the stream

    def __init__(self, cluster):
        self._cluster = cluster
        self._has_tensorboard = False
        self._has_evaluator = False
        self._terminated = False  # the programs wanted no more

    @property
    def cluster_info(self):
        """Every node as it is now: a list of dicts."""
        board = urllib.parse.urlsplit(self._cluster.tensorboard_url) if self._has_tensorboard else None
        nodes = self._cluster.cluster_info
        first = _node_of_tensorboard(nodes)
        return [
            {
                "executor_id": node.executor_id,
                "host": node.address.rpartition(":")[0],
                "job_name": node.job_name,
                "task_index": node.task_index,
                "port": int(node.address.rpartition(":")[2] or 0),
                "tb_port": board.port or 0 if board and node == first else 0,
            }
            for node in nodes
        ]

    def train(self, dataRDD, num_epochs=0, feed_timeout=600, qname="input"):
        """Feeds every element `num_epochs` times (0: ten), and returns when the programs have used them, or want no
        more.

        dataRDD: an RDD of any Python objects, a DataFrame, or a DStream, whose batches are fed as they come.
        feed_timeout: seconds without progress.
        """
        assert self.input_mode == InputMode.SPARK, "TFCluster.train() requires InputMode.SPARK"
        assert qname in self.queues, f"Unknown queue: {qname}"
        assert num_epochs >= 0, "num_epochs cannot be negative"
        if hasattr(dataRDD, "foreachRDD"):
            if self.server is None:
                self.server = reservation.Server(1)
                self.cluster_meta["server_addr"] = self.server.start()
            dataRDD.foreachRDD(lambda rdd: self._train(rdd, 1, feed_timeout, qname, True))
        else:
            self._train(dataRDD, num_epochs or _EPOCHS, feed_timeout, qname, self._terminated)

    def _train(self, data, num_epochs, feed_timeout, queue, may_have_ended):
        try:
            result = self._cluster.train(data, num_epochs, feed_timeout, queue)
        except FailedPreconditionError as error:
            if not may_have_ended or not self._cluster.programs_have_ended:
                raise
            logger.info("nothing was fed, as the programs have ended their feeds: %s", error.message)
            return
        self._terminated |= result.terminated

    def inference(self, dataRDD, feed_timeout=600, qname="input"):
        """An RDD of the programs' results, one for each element of an RDD or row of a DataFrame, in order; lazy.
        feed_timeout: seconds without progress."""
        assert self.input_mode == InputMode.SPARK, "TFCluster.inference() requires InputMode.SPARK"
        assert qname in self.queues, f"Unknown queue: {qname}"
        rdd = getattr(dataRDD, "rdd", dataRDD)
        return self._cluster.inference(rdd, None, feed_timeout, inference_queue(qname))

    def shutdown(self, ssc=None, grace_secs=0, timeout=259200):
        """Ends the queues, waits until the functions have returned, and ends parameter servers and evaluator.

        ssc: of a DStream that train() was given; waits for its end first, or until a reservation.Client asks for it
        (request_stop()), or somebody stops it. grace_secs: how long an evaluator may go on
        after the others. Workers are never cut off by it: they have until `timeout`, in seconds; -1 is without end.
        """
        grace = grace_secs if self._has_evaluator else None
        if ssc is not None and self.server is not None:
            threading.Thread(target=_stop_when_asked, args=(ssc, self.server), daemon=True).start()
        try:
            self._cluster.shutdown(ssc, grace=grace, timeout=timeout if timeout > 0 else None)
        finally:
            if self.server is not None:
                self.server.stop()

    def close(self):
        """Ends everything at once; nothing after shutdown(). (Not of TensorFlowOnSpark.)"""
        self._cluster.close()

    def tensorboard_url(self):
        """Where TensorBoard is, once it takes connections; None if it was not asked for, or does not come."""
        deadline = time.monotonic() + _TENSORBOARD_S
        while self._has_tensorboard:
            url = self._cluster.tensorboard_url
            node = _node_of_tensorboard(self._cluster.cluster_info)
            if url or (node and node.state in _ENDED) or time.monotonic() > deadline:
                return url or None
            time.sleep(_POLL_S)
        return None


def _stop_when_asked(ssc, server):
    """What has been received is fed first. Nothing happens if the stream has ended by itself."""
    while not server.done:
        time.sleep(_POLL_S)
    ssc.stop(stopSparkContext=False, stopGraceFully=True)


def _node_of_tensorboard(nodes):
    """The chief or master, or worker:0."""
    fed = [node for node in nodes if node.job_name in ("chief", "master")] or [
        node for node in nodes if node.job_name == "worker"
    ]
    return min(fed, key=lambda node: node.task_index, default=None)


def _log_options(tensorboard, log_dir):
    """TensorBoard reads files of any file system, Millrace writes to local ones only."""
    if not tensorboard:
        return {}, []
    local = (log_dir or "").removeprefix("file://") if "://" not in (log_dir or "").removeprefix("file://") else None
    if local is not None:
        return {"tensorboard": True, "log_dir": local or None}, []
    script = 'exec tensorboard --logdir "$0" --host "$1" --port "$2" --reload_multifile=true'
    return {}, [Sidecar("tensorboard", "/bin/sh", ["-c", script, log_dir, "{host}", "{port}"])]


def run(
    sc,
    map_fun,
    tf_args,
    num_executors,
    num_ps,
    tensorboard=False,
    input_mode=InputMode.TENSORFLOW,
    log_dir=None,
    driver_ps_nodes=False,
    master_node=None,
    reservation_timeout=600,
    queues=["input", "output", "error"],
    eval_node=False,
    release_port=True,
):
    """Runs map_fun(tf_args, ctx) in a process of its own for each node, and returns once all of them run.

    sc: a SparkContext. num_executors: the nodes of the cluster, of which num_ps are parameter servers, then one the
    master_node ("chief", "master"), then one an evaluator (eval_node), the others workers. log_dir: what TensorBoard
    reads. reservation_timeout: seconds for all nodes to come. release_port: whether a node's port is given back before
    its function is called.
    """
    if driver_ps_nodes and input_mode != InputMode.TENSORFLOW:
        raise Exception("running PS nodes on driver locally is only supported in InputMode.TENSORFLOW")
    if eval_node and input_mode != InputMode.TENSORFLOW:
        raise Exception("running evaluator nodes is only supported in InputMode.TENSORFLOW")
    num_others = num_ps + bool(master_node) + bool(eval_node)
    assert num_others <= num_executors, (
        f"TensorFlow cluster requires {num_others} nodes, but only {num_executors} executors available"
    )
    assert num_executors - num_ps - bool(eval_node) > 0, (
        "TensorFlow cluster requires at least one worker or master/chief node"
    )
    default_fs = sc._jsc.hadoopConfiguration().get("fs.defaultFS")
    if default_fs.startswith("file://") and len(default_fs) > len("file://"):
        default_fs = default_fs.removesuffix("/")
    working_dir = os.getcwd()
    num_gpus = TFSparkNode.requested_gpus(tf_args)
    log_options, sidecars = _log_options(tensorboard, log_dir)

    def main(node):
        TFSparkNode.run_function(map_fun, tf_args, default_fs, working_dir, queues, not release_port, node)

    cluster = Cluster.run(
        sc,
        main,
        num_executors,
        num_ps=num_ps,
        master_node=master_node,
        eval_node=bool(eval_node),
        input_mode=_MillraceInputMode.FEED if input_mode == InputMode.SPARK else _MillraceInputMode.DIRECT,
        reservation_timeout=reservation_timeout,
        driver_ps_nodes=driver_ps_nodes,
        node=NodeOptions(
            default_fs=default_fs,
            release_port=release_port,
            gpus_per_node=num_gpus,
            gpus_by_job={"ps": 0, "evaluator": 0} if num_gpus else None,
            sidecars=sidecars,
        ),
        feed=FeedOptions(queues=[*queues, *map(inference_queue, queues)]),
        **log_options,
    )
    made = TFCluster(cluster)
    made.sc = sc
    made.defaultFS = default_fs
    made.working_dir = working_dir
    made.num_executors = num_executors
    made.nodeRDD = sc.parallelize(range(num_executors), num_executors)
    made.cluster_id = cluster.cluster_id
    made.input_mode = input_mode
    made.queues = queues
    template = {}
    for node in cluster.cluster_info:
        template.setdefault(node.job_name, []).append(node.executor_id)
    host, _, port = cluster.server_address.rpartition(":")
    made.cluster_meta = {
        "id": cluster.cluster_id,
        "cluster_template": template,
        "num_executors": num_executors,
        "default_fs": default_fs,
        "working_dir": working_dir,
        "server_addr": (host, int(port)),
        "release_port": release_port,
    }
    made._has_tensorboard = bool(tensorboard)
    made._has_evaluator = bool(eval_node)
    for node in made.cluster_info:
        logger.info("node: %s", node)
    return made
