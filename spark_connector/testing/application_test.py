"""Runs checks in applications of a real Spark, one after the other on one cluster: each line CHECK is one.

    application_test.py FLAGS --application=CLASSES FLAGS [NAME]... [--application=CLASSES ...]

With --only=NAME, anywhere, only the checks of that name.
"""

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

_MAIN_CLASS = "io.millrace.spark.cluster.CheckApplication"


def _parse(argv):
    """The flags of the cluster, and those of each application."""
    only = {word.partition("=")[2] for word in argv if word.startswith("--only=")}
    argv = [word for word in argv if not word.startswith("--only=")]
    starts = [i for i, word in enumerate(argv) if word.startswith("--application=")] + [len(argv)]
    parser = argparse.ArgumentParser()
    parser.add_argument("--jar", required=True, help="with the checks")
    parser.add_argument("--connector", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--cores", type=int, default=4)
    parser.add_argument("--spark", help="3_5, 4; by default the first that is here")
    parser.add_argument("--hosts", type=int, default=1, help="workers, each with --cores")
    parser.add_argument("--gpus", type=int, default=0, help="that Spark's worker offers")
    parser.add_argument("--gpu-uuids", action="store_true", help="by UUID, not by index; the last is a MIG instance")
    parser.add_argument("--nvml", help="a libnvidia-ml.so with scripted GPUs: the host has three")
    parser.add_argument("--yarn", action="append", default=[], metavar="JAR", help="on YARN, whose servers these have")
    parser.add_argument("--deploy-mode", choices=["client", "cluster"], default="client", help="on YARN")
    arguments = parser.parse_args(argv[: starts[0]])
    parser = argparse.ArgumentParser()
    parser.add_argument("--application", required=True, help="the classes of its checks, with commas between")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--kill-driver", action="store_true", help="when it says 'kill me'")
    parser.add_argument("names", nargs="*", help="of checks; all, if there are none")
    applications = [parser.parse_args(argv[start:end]) for start, end in zip(starts, starts[1:])]
    for application in applications:
        if only:
            application.names = sorted(only.intersection(application.names or only)) or ["none of these"]
    return arguments, applications, bool(only)


def main():
    arguments, applications, selected = _parse(sys.argv[1:])
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
        began = time.monotonic()
        with _cluster(arguments, pathlib.Path(root, "spark"), gpus, node) as cluster:
            print(f"INFO the cluster started in {time.monotonic() - began:.1f} s", flush=True)
            ran, failed = 0, 0
            for application in applications:
                outcome = _run(cluster, arguments, application, node, environment)
                ran += outcome[0]
                failed += outcome[1] and not (selected and outcome[0] == 0)
    return 1 if failed or ran == 0 else 0


def _run(cluster, arguments, application, node, environment):
    """How many checks of an application ran, and whether it failed."""
    began = time.monotonic()
    folder = pathlib.Path(tempfile.mkdtemp(dir=node.parent))
    # The driver's container has the node program in its own folder.
    program = node.name if arguments.deploy_mode == "cluster" else node
    code, output = cluster.run(
        _MAIN_CLASS,
        [pathlib.Path(jar).resolve() for jar in (arguments.jar, arguments.connector)],
        [application.application, program, folder, *application.names],
        conf=dict(entry.split("=", 1) for entry in application.conf),
        executors=application.executors,
        environment=environment,
        kill_at="kill me" if application.kill_driver else None,
    )
    left = _left()
    told = "\n".join(line for line in output.splitlines() if re.match(r"(CHECKS?|INFO) ", line))
    if application.kill_driver:
        code = 0 if "kill me" in output and "FAILED" not in told else 1
    print(output if code else told)
    print(f"INFO {application.application} took {time.monotonic() - began:.1f} s", flush=True)
    if left:
        print(f"processes are left: {left}")
    return len(re.findall(r"^CHECK ", told, re.MULTILINE)), bool(code or left)


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
