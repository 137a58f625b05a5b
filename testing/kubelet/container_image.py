"""What containers that are processes (container.py) start from, and whether this machine can have them."""

import os
import pathlib
import subprocess
from dataclasses import dataclass, field


def unavailable():
    """Why containers cannot run on this machine; None if they can."""
    if os.geteuid() != 0:
        return "containers run as users of their own, which needs root"
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False, capture_output=True).returncode:
        return "this machine allows no mount namespaces"
    return None


@dataclass
class Image:
    """A root folder, which is copied for each container, and what is bound into it."""

    root: pathlib.Path
    mounts: dict = field(default_factory=dict)  # place in the container to path here, read-only
    writable_mounts: dict = field(default_factory=dict)
    entrypoint: list = field(default_factory=list)
    command: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)
    user: int = 0
    folder: str = "/"
