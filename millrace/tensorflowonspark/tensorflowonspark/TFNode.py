"""What a program on a node calls: DataFeed, and paths in the cluster's file system."""

import getpass
import logging

from tensorflowonspark import marker
from tensorflowonspark._node_manager import NodeManager

logger = logging.getLogger(__name__)

_SCHEMES = (
    "adl://", "file://", "hdfs://", "oss://", "s3://", "s3a://", "s3n://", "swift://", "viewfs://", "wasb://",
)  # fmt: skip


def hdfs_path(ctx, path):
    """`path` with the scheme of the cluster's file system (ctx.defaultFS). Relative ones are in the user's folder
    there, or in the driver's working directory (ctx.working_dir) where that is file://."""
    if path.startswith(_SCHEMES):
        return path
    if path.startswith("/"):
        return ctx.defaultFS + path
    if ctx.defaultFS.startswith(("hdfs://", "viewfs://")):
        return f"{ctx.defaultFS}/user/{getpass.getuser()}/{path}"
    if ctx.defaultFS.startswith("file://"):
        return f"{ctx.defaultFS}/{ctx.working_dir[1:]}/{path}"
    logger.warning("%s has no rule for relative paths such as %s", ctx.defaultFS, path)
    return f"{ctx.defaultFS}/{path}"


def release_port(ctx):
    """Gives the reserved port back, before the program listens on it by itself."""
    if ctx.tmp_socket is None:
        logger.warning("release_port(): there is no reserved port here, or it has been given back")
        return
    ctx.tmp_socket.close()
    ctx.tmp_socket = None
    if ctx._node is not None:
        ctx._node.release_port()


def start_cluster_server(ctx, num_gpus=1, rdma=False):
    """Was of TensorFlow 1."""
    raise Exception("DEPRECATED: Use higher-level APIs like `tf.keras` or `tf.estimator`")


def export_saved_model(sess, export_dir, tag_set, signatures):
    """Was of TensorFlow 1."""
    raise Exception("DEPRECATED: Use TF provided APIs instead.")


def next_batch(mgr, batch_size, qname="input"):
    """Was there before DataFeed."""
    raise Exception("DEPRECATED: Use TFNode.DataFeed class instead")


def batch_results(mgr, results, qname="output"):
    """Was there before DataFeed."""
    raise Exception("DEPRECATED: Use TFNode.DataFeed class instead")


def terminate(mgr, qname="input"):
    """Was there before DataFeed."""
    raise Exception("DEPRECATED: Use TFNode.DataFeed class instead")


class _QueueElements:
    """The same as Elements, of a queue of TFManager."""

    def __init__(self, mgr, qname_in, qname_out, train_mode):
        self._queue = mgr.get_queue(qname_in)
        self._results = mgr.get_queue(qname_out)
        self._train_mode = train_mode
        self.ended = False

    def next(self, count):
        elements = []
        while len(elements) < count:
            item = self._queue.get()
            self._queue.task_done()
            if item is None:
                self.ended = True
                break
            if not isinstance(item, marker.EndPartition):
                elements.append(item)
            elif elements and not self._train_mode:
                break
        return elements

    def answer(self, results):
        for result in results:
            self._results.put(result)

    def terminate(self):
        self.ended = True


class DataFeed(object):
    """The elements that TFCluster.train and TFCluster.inference feed to this node.

        feed = TFNode.DataFeed(ctx.mgr)          # or ctx.get_data_feed()
        while not feed.should_stop():
            batch = feed.next_batch(64)

    mgr: ctx.mgr, or a TFManager of the program's own. train_mode: with a TFManager, whether batches span partitions; a
    node's own feed serves train and inference alike. input_mapping: names of columns to names of tensors.
    """

    def __init__(self, mgr, train_mode=True, qname_in="input", qname_out="output", input_mapping=None):
        self.mgr = mgr
        self.train_mode = train_mode
        self.qname_in = qname_in
        self.qname_out = qname_out
        self.done_feeding = False
        self.input_tensors = None if input_mapping is None else [tensor for _, tensor in sorted(input_mapping.items())]
        self.queue_in = mgr.get_queue(qname_in)
        self.queue_out = mgr.get_queue(qname_out)
        if isinstance(mgr, NodeManager):
            if self.queue_in is None:
                raise Exception(f"Queue '{qname_in}' not found on this node: TFCluster.run(queues=) does not name it")
            self._elements = mgr.elements(qname_in)
        else:
            self._elements = _QueueElements(mgr, qname_in, qname_out, train_mode)

    def next_batch(self, batch_size):
        """The next `batch_size` elements, as a list; with input_mapping a dict of a list for each tensor, of elements
        that have their columns in the order of the mapping's sorted columns.

        Fewer come at the end of a train call, at the end of a partition of inference, and, maybe none, at the end of
        all.
        """
        elements = self._elements.next(batch_size)
        if not elements:
            self.done_feeding = self._elements.ended
        if self.input_tensors is None:
            return elements
        return {tensor: [element[i] for element in elements] for i, tensor in enumerate(self.input_tensors)}

    def should_stop(self):
        """Whether no elements will come any more."""
        self.done_feeding = self.done_feeding or self._elements.ended
        return self.done_feeding

    def batch_results(self, results):
        """The results of the next elements of inference, one for each, in the order in which they came."""
        self._elements.answer(results)

    def terminate(self):
        """This node wants no more elements; what has not come yet goes to the others."""
        self.mgr.set("state", "terminating")
        self._elements.terminate()
        self.done_feeding = True
