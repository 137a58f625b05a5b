"""Free GPUs of this host, as nvidia-smi tells."""

import logging
import random
import re
import subprocess
import time

logger = logging.getLogger(__name__)

MAX_RETRIES = 3
AS_STRING = "string"
AS_LIST = "list"

_RETRY_S = 30  # after the first try; then longer each time
_GPU = re.compile(r"GPU (\d+): .*\(UUID: ([^)]+)\)")


def _nvidia_smi(*arguments):
    return subprocess.run(["nvidia-smi", *arguments], stdout=subprocess.PIPE, check=True).stdout.decode()


def is_gpu_available():
    """Whether nvidia-smi is there and works."""
    try:
        _nvidia_smi("--list-gpus")
        return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _free_gpus():
    """Indices, as texts, of those without a process."""
    gpus = _GPU.findall(_nvidia_smi("--list-gpus"))
    busy = _nvidia_smi("--format=csv,noheader,nounits", "--query-compute-apps=gpu_uuid").split()
    return [index for index, uuid in gpus if uuid not in busy]


def get_gpus(num_gpu=1, worker_index=-1, format=AS_STRING):
    """Indices of `num_gpu` GPUs that no process uses: "0,1", or a list of texts with AS_LIST.

    worker_index: processes of one host that ask with different indices get different GPUs, where there are enough; -1:
    any. Waits for GPUs to become free, and raises Exception if too few do.
    """
    if format not in (AS_STRING, AS_LIST):
        raise Exception("Unknown GPU format")
    for attempt in range(MAX_RETRIES + 1):
        free = _free_gpus()
        if len(free) >= num_gpu:
            break
        if attempt == MAX_RETRIES:
            users = _nvidia_smi("--format=csv", "--query-compute-apps=gpu_uuid,pid,process_name,used_gpu_memory")
            raise Exception(f"Unable to find {num_gpu} free GPU(s)\n{users}")
        logger.warning("%d of %d GPUs are free", len(free), num_gpu)
        time.sleep(_RETRY_S * (attempt + 1))
    if worker_index == -1:
        chosen = random.sample(free, num_gpu)
    else:
        first = worker_index * num_gpu
        if first + num_gpu > len(free):
            first = min(first % len(free), len(free) - num_gpu)
        chosen = free[first : first + num_gpu]
    return chosen if format == AS_LIST else ",".join(chosen)
