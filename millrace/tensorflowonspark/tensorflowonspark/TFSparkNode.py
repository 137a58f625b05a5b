"""What a function on a node is given, and how it is run there."""

import logging
import os
import socket
import sys

from tensorflowonspark import TFNode
from tensorflowonspark._node_manager import NodeManager

logger = logging.getLogger(__name__)

_CHIEFS = ("chief", "master")


class TFNodeContext:
    """This node's place in its cluster: the argument `ctx` of a program's function.

    cluster_spec: {"chief": ["host:port"], "worker": [...]}. working_dir: the driver's, for relative paths. mgr: queues
    and values of this node (NodeManager). tmp_socket: the reserved port, where TFCluster.run was given
    release_port=False.
    """

    def __init__(
        self,
        executor_id=0,
        job_name="",
        task_index=0,
        cluster_spec={},
        defaultFS="file://",
        working_dir=".",
        mgr=None,
        tmp_socket=None,
    ):
        self.worker_num = executor_id  # as the oldest programs call it
        self.executor_id = executor_id
        self.job_name = job_name
        self.task_index = task_index
        self.cluster_spec = cluster_spec
        self.num_workers = sum(len(cluster_spec.get(job, ())) for job in (*_CHIEFS, "worker"))
        self.defaultFS = defaultFS
        self.working_dir = working_dir
        self.mgr = mgr
        self.tmp_socket = tmp_socket
        self._node = None  # of Millrace

    def absolute_path(self, path):
        """TFNode.hdfs_path."""
        return TFNode.hdfs_path(self, path)

    def start_cluster_server(self, num_gpus=1, rdma=False):
        """TFNode.start_cluster_server."""
        return TFNode.start_cluster_server(self, num_gpus, rdma)

    def export_saved_model(self, sess, export_dir, tag_set, signatures):
        """TFNode.export_saved_model."""
        TFNode.export_saved_model(sess, export_dir, tag_set, signatures)

    def get_data_feed(self, train_mode=True, qname_in="input", qname_out="output", input_mapping=None):
        """TFNode.DataFeed of this node."""
        return TFNode.DataFeed(self.mgr, train_mode, qname_in, qname_out, input_mapping)

    def release_port(self):
        """TFNode.release_port."""
        return TFNode.release_port(self)


class TFSparkNode(object):
    """Of this process, where it is a node of a cluster."""

    mgr = None
    cluster_id = None


def requested_gpus(tf_args):
    """How many a program asks for, by an argument `num_gpus`; None if it does not say."""
    return tf_args.get("num_gpus") if isinstance(tf_args, dict) else getattr(tf_args, "num_gpus", None)


def _show_gpus(node, requested):
    """Leaves in CUDA_VISIBLE_DEVICES what this node has, and nothing else. Who did not say how many gets one, where the
    host has any: two programs that both see all of them would not fit."""
    from millrace import FailedPreconditionError

    gpus = node.gpus
    if requested is None and not gpus and node.rank >= 0:
        try:
            gpus = node.claim_gpus(1)
        except FailedPreconditionError as error:
            logger.debug("no GPU: %s", error.message)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)


def run_function(map_fun, tf_args, default_fs, working_dir, queues, keeps_port, node):
    """Runs a program's function on a node of Millrace's."""
    spec = node.cluster_spec
    if not any(job in spec for job in _CHIEFS):
        os.environ.pop("TF_CONFIG", None)  # TensorFlow would begin to look for the others
    _show_gpus(node, requested_gpus(tf_args))
    port = node.port_fd() if keeps_port else -1
    manager = NodeManager(node, queues)
    context = TFNodeContext(
        node.executor_id,
        node.job_name,
        node.task_index,
        spec,
        default_fs,
        working_dir,
        manager,
        socket.socket(fileno=os.dup(port)) if port >= 0 else None,
    )
    context._node = node
    TFSparkNode.mgr, TFSparkNode.cluster_id = manager, node.cluster_id
    if isinstance(tf_args, list):
        sys.argv = tf_args
    map_fun(tf_args, context)
    if manager.errors:
        raise Exception(manager.errors[0])
