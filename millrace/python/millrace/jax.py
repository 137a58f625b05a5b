"""Lets `jax.distributed.initialize()` find the other processes by itself:

    import jax
    import millrace.jax

    jax.distributed.initialize()

JAX asks the kinds of clusters that it knows, and learns of this one here. Processes are numbered by their nodes' ranks;
the first one listens at its node's reserved port. A ps or an evaluator has no rank and takes no part.
"""

import os
from typing import Optional

from jax._src import clusters

__all__ = ["MillraceCluster"]


class MillraceCluster(clusters.ClusterEnv):  # type: ignore[misc]
    """The cluster of this process's node."""

    name: str = "millrace"

    @classmethod
    def is_env_present(cls) -> bool:
        """Whether this process is a node of a cluster."""
        node = "MILLRACE_CONTEXT" in os.environ or "MILLRACE_CONTEXT_FILE" in os.environ
        return node and "RANK" in os.environ

    @classmethod
    def get_coordinator_address(
        cls, timeout_secs: Optional[int] = None, override_coordinator_port: Optional[str] = None
    ) -> str:
        host = os.environ["MASTER_ADDR"]
        address = f"{host}:{override_coordinator_port or os.environ['MASTER_PORT']}"
        if host == "127.0.0.1":
            # Otherwise it listens on every interface, where nobody of this cluster is.
            os.environ.setdefault("JAX_COORDINATOR_BIND_ADDRESS", address)
        return address

    @classmethod
    def get_process_count(cls) -> int:
        return int(os.environ["WORLD_SIZE"])

    @classmethod
    def get_process_id(cls) -> int:
        return int(os.environ["RANK"])
