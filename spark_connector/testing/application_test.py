"""Runs a program of checks as an application of a real Spark: each line CHECK is one."""

import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile
import time

from spark_cluster import SparkCluster, SparkUnavailable, descendants, java_home, spark_home
from yarn_cluster import YarnCluster


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jar", required=True, help="with the checks")
    parser.add_argument("--connector", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--checks", required=True, help="main class")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--cores", type=int, default=4)
    parser.add_argument("--spark", help="3_5, 4; by default the first that is here")
    parser.add_argument("--hosts", type=int, default=1, help="workers, each with --cores")
    parser.add_argument("--gpus", type=int, default=0, help="that Spark's worker offers")
    parser.add_argument("--gpu-uuids", action="store_true", help="by UUID, not by index; the last is a MIG instance")
    parser.add_argument("--nvml", help="a libnvidia-ml.so with scripted GPUs: the host has three")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--yarn", action="append", default=[], metavar="JAR", help="on YARN, whose servers these have")
    parser.add_argument("--deploy-mode", choices=["client", "cluster"], default="client", help="on YARN")
    parser.add_argument("--kill-driver", action="store_true", help="when it says 'kill me'")
    parser.add_argument("only", nargs="*", help="names of checks")
    arguments = parser.parse_args()
    try:
        spark_home(arguments.spark)
        java_home()
    except SparkUnavailable as why:
        print(f"skipped: {why}")
        return 0
    environment = {name: os.environ[name] for name in ("MILLRACE_AGENT", "MILLRACE_GPU_HELPER") if name in os.environ}
    with tempfile.TemporaryDirectory(prefix="millrace-", ignore_cleanup_errors=True) as root:
        # Spaces and Unicode are nothing to a path of a node; Spark's own scripts cannot have them.
        folder = pathlib.Path(root, "ünï code")
        folder.mkdir()
        node = folder / "the node"
        shutil.copy(arguments.node, node)
        gpus = arguments.gpus
        if arguments.nvml:
            made, uuids = _fake_gpus(pathlib.Path(root, "gpus"), pathlib.Path(arguments.nvml).resolve())
            environment |= made
            gpus = uuids[-gpus:] if arguments.gpu_uuids else gpus
        with _cluster(arguments, pathlib.Path(root, "spark"), gpus, node) as cluster:
            code, output = cluster.run(
                arguments.checks,
                [pathlib.Path(jar).resolve() for jar in (arguments.jar, arguments.connector)],
                # The driver's container has it in its own folder.
                [node.name if arguments.deploy_mode == "cluster" else node, folder, *arguments.only],
                conf=dict(entry.split("=", 1) for entry in arguments.conf),
                executors=arguments.executors,
                environment=environment,
                kill_at="kill me" if arguments.kill_driver else None,
            )
            left = _left()
    told = "\n".join(line for line in output.splitlines() if re.match(r"(CHECKS?|INFO) ", line))
    if arguments.kill_driver:
        code = 0 if "kill me" in output and "FAILED" not in told else 1
    print(output if code else told)
    if left:
        print(f"processes are left: {left}")
    return 1 if code or left else 0


def _cluster(arguments, folder, gpus, node):
    if not arguments.yarn:
        hosts = [f"127.0.0.{i + 1}" for i in range(arguments.hosts)]
        return SparkCluster(folder, cores=arguments.cores, gpus=gpus, version=arguments.spark, hosts=hosts)
    jars = [pathlib.Path(jar).resolve() for jar in arguments.yarn]
    files = [node] if arguments.deploy_mode == "cluster" else []
    return YarnCluster(folder, jars, deploy_mode=arguments.deploy_mode, files=files)


def _fake_gpus(script, library):
    """What makes millrace-gpu find GPUs, three whole ones and one with an instance, and their UUIDs.

    The names are of this test alone: claims are the host's.
    """
    mine = f"{os.getpid()}-{time.time_ns()}"
    lines = ["driver 550", "nvml 12"]
    lines += [f"gpu {i} uuid=GPU-{i}-{mine} total=1000 mig_mode={int(i == 3)}" for i in range(4)]
    lines += [f"mig 3 uuid=MIG-0-{mine} gi=1 ci=0 used=0 total=500"]
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    uuids = [f"GPU-{i}-{mine}" for i in range(3)] + [f"MIG-0-{mine}"]
    return {"MILLRACE_NVML_LIBRARY": str(library), "FAKE_NVML_SCRIPT": str(script)}, uuids


def _left():
    """Agents and nodes that are still there five seconds after their application."""
    deadline = time.monotonic() + 5
    while True:
        left = [command for pid in descendants(os.getpid()) if (command := _native(pid))]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


def _native(pid):
    """The command line of what is not Java; empty for others."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        return "" if "java" in words[0] else " ".join(words)
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main())
