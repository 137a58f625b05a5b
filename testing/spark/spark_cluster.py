"""A real standalone Spark on loopback, for tests.

    with SparkCluster(folder, gpus=4) as cluster:
        application = cluster.submit({"spark.executor.resource.gpu.amount": "2"}, executors=2)
        print(application.id, application.ui)      # app-20240131093000-0000 http://127.0.0.1:40123
        cluster.kill_executor(application, "0")

A Master and a Worker, started with spark-class on free ports, and applications started with
spark-submit. Everything that was started is ended: by close(), when this process ends, and when it is
killed (the kernel ends what it started itself; executors end when their worker is gone).

As a program (README.md) it serves tests in other languages.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

from spark_distribution import JVM_OPTIONS

WAIT_S = 180  # generous: five JVMs start, on a machine that may be busy

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_APPLICATION = pathlib.Path(__file__).with_name("waiting_application.py")


class SparkUnavailable(Exception):
    """There is no Spark or no Java on this machine; the text says why."""


def spark_home(version=None):
    """The Spark that is in the runfiles; with several, that of a version such as "3_5"."""
    if home := os.environ.get("MILLRACE_SPARK_HOME"):
        return pathlib.Path(home)
    # Of a program that `bazel run` has started only this file's place tells where its runfiles are.
    root = os.environ.get("TEST_SRCDIR") or os.environ.get("RUNFILES_DIR") or pathlib.Path(__file__).parents[3]
    folders = sorted(pathlib.Path(root).glob(f"spark_{version or '*'}"))
    for folder in folders:
        if (folder / "home/bin/spark-class").is_file():
            return (folder / "home").resolve()
    for folder in folders:
        if (folder / "unavailable.txt").is_file():
            raise SparkUnavailable((folder / "unavailable.txt").read_text(encoding="utf-8").strip())
    raise SparkUnavailable("no Spark is among the data of this test (@spark_3_5//:spark)")


def java_home():
    """JAVA_HOME, or where Debian has Java 17."""
    if home := os.environ.get("JAVA_HOME"):
        return pathlib.Path(home)
    for java in sorted(pathlib.Path("/usr/lib/jvm").glob("java-17-openjdk*/bin/java")):
        return java.parent.parent
    raise SparkUnavailable("there is no Java 17: install openjdk-17-jdk-headless or set JAVA_HOME")


def jvm_options(home):
    """Of the JVMs of the Spark at `home` that have its class path: with its classes as
    third_party/bazel/spark_distribution.py keeps them, if it does. Those of another Java are left alone, without a
    word."""
    classes = home.with_name(home.name + ".jsa")
    return f"{JVM_OPTIONS} -XX:SharedArchiveFile={classes} -Xlog:cds*=off" if classes.is_file() else JVM_OPTIONS


def zip_package(folder, archive):
    """Packs the Python package in `folder` as `--py-files` takes it; returns the archive."""
    folder = pathlib.Path(folder)
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(folder.glob("*.py")):
            packed.write(path, f"{folder.name}/{path.name}")
    return archive


def _die_with_parent():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _children():
    """Pid to parent, of all processes of this machine that run."""
    parents = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = pathlib.Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
                state, parent = stat.rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry.name)] = int(parent)
    return parents


def descendants(pid):
    parents = _children()
    found = []
    for candidate in parents:
        at = candidate
        while at in parents and at != pid:
            at = parents[at]
        if at == pid and candidate != pid:
            found.append(candidate)
    return found


class _Daemon:
    """A child whose output goes to a file, which is searched for what it says of itself."""

    def __init__(self, name, command, env, folder, stdout=None):
        self.name = name
        self.log = pathlib.Path(folder, f"{name}.log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                command,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                preexec_fn=_die_with_parent,
            )

    def tail(self):
        return self.log.read_text(encoding="utf-8", errors="replace")[-4000:]

    def find(self, pattern):
        """Waits until a line has `pattern`; returns its first group."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            text = self.log.read_text(encoding="utf-8", errors="replace")
            if match := re.search(pattern, text):
                return match.group(1)
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}:\n{self.tail()}")
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} did not say {pattern!r} within {WAIT_S} s:\n{self.tail()}")

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()


class Application:
    """A driver with its executors; they stay until stop()."""

    def __init__(self, daemon, identity):
        self._daemon = daemon
        self.id = identity["id"]
        self.ui = identity["ui"]
        self.pid = identity["pid"]  # of the driver's Python

    def stop(self):
        """Ends it well. Idempotent."""
        if self._daemon.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._daemon.process.wait(WAIT_S)
        self._daemon.kill()


class SparkCluster:
    """Runs until close(). `gpus` are made up: a number, for the addresses 0 to gpus - 1, or addresses.

    There is a worker on each of `hosts`, addresses of loopback, which are hosts of their own to Spark.
    Each has `cores` and `memory_mb`, and offers all GPUs. A worker leaves on SIGPWR.
    """

    def __init__(self, folder, cores=4, memory_mb=2048, gpus=0, version=None, hosts=("127.0.0.1",)):
        self.home = spark_home(version)
        self._java = java_home()
        self._folder = pathlib.Path(folder)
        self._daemons = []
        self._applications = 0
        # Executors whose worker is killed become this process's children.
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            self._start(cores, memory_mb, gpus, hosts)
        except BaseException:
            self.close()
            raise

    def environment(self):
        """What its processes have; a driver that is started by hand needs the same."""
        env = {name: os.environ[name] for name in ("PATH", "LANG", "TZ", "MILLRACE_TEST_ID") if name in os.environ}
        env.setdefault("PATH", "/usr/bin:/bin")
        env.setdefault("LANG", "C.UTF-8")
        return env | {
            "HOME": str(self._folder),
            "TMPDIR": str(self._folder),
            "JAVA_HOME": str(self._java),
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_DIRS": str(self._folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_PUBLIC_DNS": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"{jvm_options(self.home)} -Djava.io.tmpdir={self._folder}",
            "SPARK_LAUNCHER_OPTS": "-XX:-UsePerfData -XX:TieredStopAtLevel=1",
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def _run(self, name, command, environment=None, **options):
        env = self.environment() | (environment or {})
        daemon = _Daemon(name, [str(part) for part in command], env, self._folder, **options)
        self._daemons.append(daemon)
        return daemon

    def _start(self, cores, memory_mb, gpus, hosts):
        self._folder.mkdir(parents=True, exist_ok=True)
        worker_conf = self._folder / "worker.conf"
        settings = {"spark.decommission.enabled": "true"}
        if gpus:
            script = self._folder / "find_gpus.sh"
            addresses = [str(i) for i in range(gpus)] if isinstance(gpus, int) else list(gpus)
            found = json.dumps({"name": "gpu", "addresses": addresses})
            script.write_text(f"#!/bin/sh\necho '{found}'\n", encoding="utf-8")
            script.chmod(0o755)
            settings |= {
                "spark.worker.resource.gpu.amount": str(len(addresses)),
                "spark.worker.resource.gpu.discoveryScript": str(script),
            }
        worker_conf.write_text("".join(f"{key} {value}\n" for key, value in settings.items()), encoding="utf-8")
        spark_class = self.home / "bin/spark-class"
        master = self._run(
            "master",
            [spark_class, "org.apache.spark.deploy.master.Master"]
            + ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"],
        )
        self.url = master.find(r"Starting Spark master at (spark://\S+)")
        self.master_ui = master.find(r"Bound MasterWebUI to \S+ and started at (\S+)")
        self._workers = [
            self._run(
                f"worker-{i + 1}",
                [spark_class, "org.apache.spark.deploy.worker.Worker"]
                + ["--host", host, "--port", "0", "--webui-port", "0"]
                + ["--cores", cores, "--memory", f"{memory_mb}m", "--work-dir", self._folder / f"work-{i + 1}"]
                + ["--properties-file", worker_conf, self.url],
                environment={"SPARK_LOCAL_IP": host, "SPARK_PUBLIC_DNS": host},
            )
            for i, host in enumerate(hosts)
        ]
        for worker in self._workers:
            worker.find(r"(Successfully registered with master)")

    def _settings(self, executors):
        return {
            "spark.ui.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.cores.max": str(executors),
            # What a driver that is killed leaves there goes with the folder.
            "spark.driver.extraJavaOptions": f"{jvm_options(self.home)} -Djava.io.tmpdir={self._folder}",
            "spark.executor.extraJavaOptions": jvm_options(self.home),
            "spark.eventLog.enabled": "false",
        }

    def submit(self, conf=None, executors=2, script=_APPLICATION, arguments=()):
        """Starts an application with so many executors of one core each; waits until it has its UI."""
        settings = self._settings(executors) | (conf or {})
        command = [self.home / "bin/spark-submit", "--master", self.url]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        self._applications += 1
        daemon = self._run(
            f"application-{self._applications}",
            [*command, script, *arguments],
            stdout=subprocess.PIPE,
        )
        line = self._read_line(daemon)
        if not line:
            raise RuntimeError(f"the application said nothing:\n{daemon.tail()}")
        return Application(daemon, json.loads(line))

    def run(
        self,
        main_class,
        jars,
        arguments=(),
        conf=None,
        executors=2,
        environment=None,
        py_files=(),
        kill_at=None,
        stdout=None,
    ):
        """Runs an application to its end; returns its exit code and what it wrote.

        The first of `jars` has `main_class`, or is a script in Python if that is None; the others go
        with it. Executors have one core each, and `environment` besides their own. The driver is killed
        when it writes `kill_at`. `conf` may name another spark.master, as local[4]. With `stdout`, a file,
        what the driver prints goes there, and is not returned.
        """
        settings = self._settings(executors) | (conf or {})
        for name, value in (environment or {}).items():
            settings[f"spark.executorEnv.{name}"] = value
        command = [self.home / "bin/spark-submit", "--master", settings.get("spark.master", self.url)]
        if main_class:
            command += ["--class", main_class]
        if py_files:
            command += ["--py-files", ",".join(str(path) for path in py_files)]
        if len(jars) > 1:
            command += ["--jars", ",".join(str(jar) for jar in jars[1:])]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        self._applications += 1
        daemon = self._run(
            f"application-{self._applications}",
            [*command, jars[0], *arguments],
            environment=environment,
            stdout=stdout,
        )
        while kill_at and daemon.process.poll() is None:
            if kill_at in daemon.log.read_text(encoding="utf-8", errors="replace"):
                daemon.kill()  # spark-submit has become the driver's JVM
            time.sleep(0.1)
        code = daemon.process.wait()
        return code, daemon.log.read_text(encoding="utf-8", errors="replace")

    @staticmethod
    def _read_line(daemon):
        """The first line of JSON; empty if there is none in time."""
        deadline = time.monotonic() + WAIT_S
        buffered = b""
        fd = daemon.process.stdout.fileno()
        while time.monotonic() < deadline:
            if not select.select([fd], [], [], 1)[0]:
                continue
            data = os.read(fd, 65536)
            if not data:
                return ""
            buffered += data
            for line in buffered.split(b"\n")[:-1]:
                if line.startswith(b"{"):
                    return line.decode("utf-8")
        return ""

    def executors(self, application):
        """Executor id to pid, of those that run."""
        found = {}
        for pid in descendants(os.getpid()):
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
                if "--executor-id" in words and "--app-id" in words:
                    if words[words.index("--app-id") + 1] == application.id:
                        found[words[words.index("--executor-id") + 1]] = pid
        return found

    def kill_executor(self, application, executor_id):
        """Kills one that runs. Spark then starts another, with a new id."""
        os.kill(self.executors(application)[executor_id], signal.SIGKILL)

    def close(self):
        """Ends everything. Idempotent."""
        for daemon in reversed(self._daemons):
            daemon.kill()
        # Executors, whose parents are gone.
        deadline = time.monotonic() + WAIT_S
        while (left := descendants(os.getpid())) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                pass
        self._daemons = []

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


def _say(**event):
    print(json.dumps(event), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Runs a Spark application until it is asked to end.")
    parser.add_argument("--executors", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=0, help="of the worker")
    parser.add_argument("--executor-gpus", type=int, default=0)
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    # Whoever started this is gone.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    conf = dict(entry.split("=", 1) for entry in arguments.conf)
    if arguments.executor_gpus:
        conf["spark.executor.resource.gpu.amount"] = str(arguments.executor_gpus)
        conf["spark.task.resource.gpu.amount"] = "1"
    folder = tempfile.mkdtemp(prefix="millrace-spark-")
    try:
        with SparkCluster(folder, gpus=arguments.gpus) as cluster:
            _say(event="cluster", url=cluster.url, master_ui=cluster.master_ui)
            application = cluster.submit(conf, executors=arguments.executors)
            _say(event="application", id=application.id, ui=application.ui)
            while True:
                number = signal.sigwait(signals)
                if number == signal.SIGUSR1:
                    executors = cluster.executors(application)
                    victim = min(executors, key=int)
                    os.kill(executors[victim], signal.SIGKILL)
                    _say(event="killed", executor=victim)
                elif number == signal.SIGUSR2:
                    application.stop()
                    _say(event="stopped")
                else:
                    break
    except SparkUnavailable as error:
        _say(event="unavailable", reason=str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
