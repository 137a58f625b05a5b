"""A start beside those of others: `mpirun`, Slurm's `srun`, and PyTorch's TCPStore, in one run and in turns.

A program that sleeps for half a second, on so many nodes of this host: how much longer its launcher takes, from its
exec until it has ended. The same in a job of a real Slurm of three hosts on this machine. And nodes that find each
other, by Millrace's coordinator and by TCPStore. What is not there, or does not end, is left out, and a line says so.
"""

import argparse
import json
import os
import pathlib
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import root_folder
from bench_figures import ROOT, report
from real_slurm import HOSTS, RealSlurm

_MILLRACE = ROOT / "core/cli/millrace"
_AGENT = ROOT / "core/agent/millrace-agent"
_RESERVATION = ROOT / "testing/bench/reservation"
_STORE = ROOT / "testing/bench/tcp_store.py"
_LIMIT_S = 300
# Open MPI 4.1.4 does not see the end of some of forty programs that end at once, and waits for ever.
_PROGRAM_S = 0.5
_PROGRAM = ["sleep", str(_PROGRAM_S)]


class _NeverEnds(Exception):
    """What was to be measured did not end."""


def _seconds(command):
    """How long a command takes, which must not fail."""
    began = time.perf_counter()
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              timeout=_LIMIT_S)  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _NeverEnds(f"{' '.join(command)} did not end within {_LIMIT_S} s") from None
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


def _in_turns(reps, *ways):
    """The median of each way."""
    seconds = [[] for _ in ways]
    for _ in range(reps):
        for index, way in enumerate(ways):
            seconds[index].append(way())
    return [statistics.median(each) for each in seconds]


def _compare(reports, name, nodes, ours, ref, reference):
    print(f"{name}, {nodes} nodes: {ours * 1e3:.0f} ms, {reference} {ref * 1e3:.0f} ms")
    reports.append(report(f"{name}_{nodes}", ours, ref, "s", reference, ours / ref, None, at_most=True))


def _on_this_host(arguments, reports):
    """`millrace run` beside `mpirun`."""
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        print("mpirun is not in PATH (Debian's openmpi-bin): left out")
        return
    version = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    for nodes in arguments.nodes:
        ours = [str(_MILLRACE), "run", "-n", str(nodes), "--", *_PROGRAM]
        theirs = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", str(nodes), *_PROGRAM]
        try:
            seconds = _in_turns(arguments.reps, *(lambda c=c: _seconds(c) - _PROGRAM_S
                                                  for c in (ours, theirs)))  # fmt: skip
        except _NeverEnds as why:
            print(f"{why}: left out")
            continue
        _compare(reports, "run", nodes, *seconds, version)


def _in_slurm(arguments, reports):
    """`millrace srun` beside `srun`, each in the job that both have."""
    archive = sorted((ROOT.parent / "debian_bookworm_slurm_root").glob("*"))
    try:
        if os.geteuid() != 0 or not archive:
            raise root_folder.Unavailable("it takes root, and the root folder of Slurm's tests")
        os.environ.setdefault("TEST_TMPDIR", tempfile.gettempdir())
        slurm = RealSlurm(str(archive[-1]), [str(_MILLRACE), str(_AGENT)])
    except root_folder.Unavailable as why:
        print(f"no Slurm: {why}: left out")
        return
    try:
        version = slurm.told("srun", "--version").strip()
        for nodes in arguments.slurm_nodes:
            # Seconds of both, in turns, by the clock of the shell that runs them.
            script = "".join(
                f"date +%s.%N; {command} {' '.join(_PROGRAM)} >/dev/null || exit; date +%s.%N\n"
                for command in (f"millrace srun -n {nodes} --srun-option=--overcommit --",
                                f"srun --overcommit -n {nodes}")
            )  # fmt: skip
            seconds = [[], []]
            for _ in range(arguments.reps):
                told = slurm.told("salloc", "-Q", f"-N{len(HOSTS)}", "--exclusive", "sh", "-c", script).split()
                for index in range(2):
                    seconds[index].append(float(told[2 * index + 1]) - float(told[2 * index]) - _PROGRAM_S)
            _compare(reports, "srun", nodes, *map(statistics.median, seconds), version)
    finally:
        slurm.close()


def _joined(arguments, clients, folder):
    """Seconds until so many agents, ten on a host, have joined and hold all addresses."""
    path = pathlib.Path(folder, "reservation.json")
    _seconds([str(_RESERVATION), f"--agents={clients}", f"--figures_at={clients}", "--slots_per_host=10",
              "--reference=false", "--steady_seconds=0", f"--processes={arguments.processes}",
              f"--json={path}"])  # fmt: skip
    figures = {figure["name"]: figure for figure in json.loads(path.read_text(encoding="utf-8"))["figures"]}
    return clients / figures["reservation_by_hosts"]["ours"]


def _stored(arguments, clients):
    """Seconds until so many clients of a TCPStore have told it where they are and know the first one's address."""
    with subprocess.Popen([sys.executable, str(_STORE), "serve", str(clients)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as server:  # fmt: skip
        port = server.stdout.readline().strip()
        share, rest = divmod(clients, arguments.processes)
        first = 0
        swarms = []
        for index in range(arguments.processes):
            count = share + (index < rest)
            swarms.append(subprocess.Popen(
                [sys.executable, str(_STORE), "join", port, str(clients), str(first), str(count)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))  # fmt: skip
            first += count
        for swarm in swarms:
            swarm.stdout.readline()
        began = time.perf_counter()
        for swarm in swarms:
            swarm.stdin.write("go\n")
            swarm.stdin.flush()
        told = [swarm.stdout.readline().strip() for swarm in swarms]
        seconds = time.perf_counter() - began
        for swarm in swarms:
            swarm.communicate()
        server.communicate()
    if any(text != "done" for text in told):
        raise SystemExit(f"TCPStore's clients said {told}")
    return seconds


def _rendezvous(arguments, reports):
    """Millrace's coordinator beside PyTorch's TCPStore."""
    version = subprocess.run([sys.executable, str(_STORE), "version"], capture_output=True, text=True, check=False)
    if version.returncode:
        print("PyTorch is not there (Debian's python3-torch): left out")
        return
    with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
        for clients in arguments.clients:
            _, descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)
            if 2 * clients + 100 > descriptors:
                print(f"join, {clients} nodes: TCPStore's server takes two descriptors for each client, and may have "
                      f"{descriptors} here (ulimit -Hn): left out")  # fmt: skip
                continue
            seconds = _in_turns(arguments.reps, lambda n=clients: _joined(arguments, n, folder),
                                lambda n=clients: _stored(arguments, n))  # fmt: skip
            _compare(reports, "join", clients, *seconds, f"TCPStore of PyTorch {version.stdout.strip()}")


def main():
    def numbers(text):
        return [int(number) for number in text.split(",") if number]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=numbers, default="1,10,100", help="of millrace run and mpirun")
    parser.add_argument("--slurm-nodes", type=numbers, default="3,12,48", help="of millrace srun and srun")
    parser.add_argument("--clients", type=numbers, default="1000,10000", help="of the coordinator and of TCPStore")
    parser.add_argument("--processes", type=int, default=4, help="that have these")
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--json", help="a file for the figures")
    arguments = parser.parse_args()
    print(f"{platform.node()}: {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    os.environ["MILLRACE_AGENT"] = str(_AGENT)
    reports = []
    _on_this_host(arguments, reports)
    _in_slurm(arguments, reports)
    _rendezvous(arguments, reports)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(reports, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
