"""What programs and the other modules ask of the host that they run on."""

import errno
import logging
import os
import socket
import subprocess

from tensorflowonspark import gpu_info

logger = logging.getLogger(__name__)

_EXECUTOR_ID = "executor_id"  # a file in the working directory


def single_node_env(num_gpus=1, worker_index=-1, nodes=[]):
    """Prepares this process for TensorFlow by itself: Hadoop's class path, and `num_gpus` free GPUs, or none.

    worker_index, nodes: which of these addresses ("host:port") this process is at: those of one host share its GPUs.
    """
    _expand_classpath()
    if num_gpus < 1 or not gpu_info.is_gpu_available():
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        return
    index = worker_index
    if worker_index >= 0 and nodes:
        host = nodes[worker_index].split(":")[0]
        here = [i for i, node in enumerate(nodes) if node.split(":")[0] == host]
        index = here.index(worker_index)
    gpus = gpu_info.get_gpus(num_gpus, index)
    logger.info("uses GPUs %s", gpus)
    os.environ["CUDA_VISIBLE_DEVICES"] = gpus


def _expand_classpath():
    """libhdfs takes no wildcards."""
    if "HADOOP_PREFIX" not in os.environ or "TFOS_CLASSPATH_UPDATED" in os.environ:
        return
    hadoop = os.path.join(os.environ["HADOOP_PREFIX"], "bin", "hadoop")
    jars = subprocess.run([hadoop, "classpath", "--glob"], stdout=subprocess.PIPE, check=True).stdout.decode()
    own = os.environ.get("CLASSPATH", "")
    os.environ["CLASSPATH"] = os.pathsep.join(part for part in (own, jars.strip()) if part)
    os.environ["TFOS_CLASSPATH_UPDATED"] = "1"


def get_ip_address():
    """This host's address on the way to others; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("8.8.8.8", 80))
            return probe.getsockname()[0]
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EHOSTUNREACH):
                raise
    return socket.gethostbyname(socket.getfqdn())


def find_in_path(path, file):
    """The first place of `file` below the folders of `path`, which os.pathsep separates; False if there is none."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder, file)
        if os.path.isfile(candidate):
            return candidate
    return False


def write_executor_id(num):
    """Leaves the number of this executor in its working directory."""
    with open(_EXECUTOR_ID, "w", encoding="ascii") as file:
        file.write(str(num))


def read_executor_id():
    """The number that write_executor_id() has left. Raises Exception if there is none."""
    try:
        with open(_EXECUTOR_ID, encoding="ascii") as file:
            return int(file.read())
    except FileNotFoundError:
        raise Exception(
            f"No executor_id file found on this node: nobody has called write_executor_id() in {os.getcwd()}"
        ) from None
