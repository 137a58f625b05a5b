"""Debian's Slurm with several hosts, in a root folder and namespaces of its own.

The hosts n1 to n3 are slurmds on addresses of the loopback interface, each with a name of its own. Everything ends
with the test, however it ends.
"""

import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import unittest

import root_folder
from eventually import WAIT_S, wait_for

HOSTS = ("n1", "n2", "n3")
_CPUS = 4
_CONF = """\
ClusterName=loopback
SlurmctldHost=ctl(10.77.0.9)
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
# How long a job that is queued again waits.
AuthInfo=cred_expire=15
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdPidFile=/run/%n.pid
SlurmdSpoolDir=/var/lib/slurm/%n
SlurmdLogFile=/var/log/slurm/%n.log
# The hosts have more processors than the machine.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=1
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdTimeout=300
KillWait=10
""" + "".join(
    f"NodeName={host} NodeHostname={host} NodeAddr=10.77.0.{number} Port=701{number} CPUs={_CPUS} RealMemory=64\n"
    for number, host in enumerate(HOSTS, 1)
) + "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"

# getaddrinfo() knows no address at all where there is none but 127.0.0.1.
_ADDRESSES = """\
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
    for n in range(1, 10):
        address = struct.pack("16sHH4s8x", b"lo:%d" % n, socket.AF_INET, 0, bytes([10, 77, 0, n]))
        fcntl.ioctl(any_socket, 0x8916, address)  # SIOCSIFADDR
"""
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}


class RealSlurm:
    """A Slurm that runs. `run` and `start` are as of a user who has logged in to its head."""

    def __init__(self, archive, programs):
        """Of a root's archive; `programs` are put into its PATH. Raises root_folder.Unavailable."""
        root_folder.check()
        self._init = None
        self._daemons = []
        self._killed = False
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        try:
            self._root = root_folder.RootFolder(self.folder, archive)
            self._root.put(*programs, folder="usr/bin")
            self._set_up()
            self._start_daemons()
        except BaseException:
            self.close()
            raise

    def path(self, name):
        """Where the tests find a file of the root."""
        return os.path.join(self.folder, name.lstrip("/"))

    def write(self, name, text, mode=0o644):
        path = pathlib.Path(self.path(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)

    def _set_up(self):
        self.write("etc/slurm/slurm.conf", _CONF)
        # No control groups, of which it could refuse what this machine has.
        self.write("etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        self.write("etc/munge/munge.key", secrets.token_hex(64), 0o600)
        # What the processes see is their own, and no name is asked of anybody.
        self.write("etc/hosts", f"127.0.0.1 localhost\n10.77.0.9 ctl {socket.gethostname()}\n" + "".join(
            f"10.77.0.{number} {host}\n" for number, host in enumerate(HOSTS, 1)))  # fmt: skip
        self.write("etc/resolv.conf", "")
        for name in ("run/munge", "var/lib/slurm/slurmctld", "var/log/slurm", *(f"var/lib/slurm/{h}" for h in HOSTS)):
            os.makedirs(self.path(name), exist_ok=True)
        # Ends, and all processes of the namespaces with it, when this test does; reaps orphans.
        self._init = self._root.start("bash", "-c", "cat >/dev/null; exit 0", stdin=subprocess.PIPE)
        children = f"/proc/{self._init.pid}/task/{self._init.pid}/children"

        def began():
            self._pid = pathlib.Path(children).read_text(encoding="ascii").strip()
            return self._pid and pathlib.Path(f"/proc/{self._pid}/comm").read_text(encoding="ascii") == "bash\n"

        wait_for(began, "the namespaces")
        python = [sys.executable, "-I", "-c", _ADDRESSES]
        subprocess.run(["nsenter", f"--target={self._pid}", "--net", *python], check=True)

    def _start_daemons(self):
        self._daemon("munged", "--foreground", "--force")
        wait_for(lambda: os.path.exists(self.path("run/munge/munge.socket.2")), "munge")
        self._daemon("slurmctld", "-D", host="ctl")
        for host in HOSTS:
            self.start_host(host)
        try:
            self.wait_idle()
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self._logs()}") from late

    def start_host(self, host):
        self._daemon("slurmd", "-D", "-N", host, host=host)

    def kill_host(self, host):
        """Its slurmd; what it has started goes on."""
        self._killed = True
        pid = pathlib.Path(self.path(f"run/{host}.pid")).read_text(encoding="ascii").strip()
        self.kill("KILL", pid)

    def _daemon(self, *command, host=None):
        named = ["unshare", "--uts", "sh", "-c", f'hostname {host}; exec "$0" "$@"'] if host else []
        self._daemons.append(self.start(*named, *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def _logs(self):
        """The last lines of each log."""
        texts = []
        for path in sorted(pathlib.Path(self.path("var/log/slurm")).glob("*.log")):
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
            texts.append(f"{path.name}:\n" + "\n".join(lines))
        return "\n".join(texts)

    def start(self, *command, env=None, **options):
        """Starts a command; `options` are Popen's."""
        inside = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--net", "--cgroup"]
        return subprocess.Popen([*inside, *command], **{
            "env": {**_ENVIRONMENT, **(env or {})}, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE, "text": True, "errors": "replace", **options})  # fmt: skip

    def run(self, *command, env=None):
        """Runs a command to its end."""
        with self.start(*command, env=env) as process:
            late = threading.Timer(WAIT_S, self.close)  # and with it everything that has its pipes
            late.start()
            out, err = process.communicate()
            late.cancel()
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    def told(self, *command):
        """What a command writes that must not fail."""
        done = self.run(*command)
        if done.returncode:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def processes(self):
        """Pid to command line of each process; pids are those that processes see."""
        listing = self.told("sh", "-c", "for p in /proc/[0-9]*; do echo ${p#/proc/} $(tr '\\0' ' ' <$p/cmdline); done "
                            "2>/dev/null")  # fmt: skip
        found = (line.partition(" ") for line in listing.splitlines())
        return {int(pid): command for pid, _, command in found if command}

    def pids(self, text):
        return [pid for pid, command in self.processes().items() if command.startswith(text)]

    def wait_idle(self):
        """Until no job runs, and every host is there."""
        def idle():
            for daemon in self._daemons:
                if not self._killed and daemon.poll() is not None:
                    raise AssertionError(f"{daemon.args} ended with {daemon.returncode}")
            states = self.run("sinfo", "-h", "-N", "-o", "%N %t").stdout.split("\n")
            return sorted(filter(None, states)) == [f"{host} idle" for host in HOSTS]

        wait_for(idle, "hosts that are idle")

    def kill(self, signal, *pids):
        """Sends it to processes, by the pids that processes see, which may be gone."""
        self.run("sh", "-c", f"kill -{signal} {' '.join(map(str, pids))}")

    def close(self):
        if self._init is not None:
            self._init.kill()  # unshare ends the namespaces
            self._init.communicate()
        for daemon in self._daemons:
            daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class SlurmTestCase(unittest.TestCase):
    """A class of tests with a Slurm, which is idle when each begins; skipped where there can be none."""

    archive = None
    programs = ()

    @classmethod
    def setUpClass(cls):
        try:
            cls.slurm = RealSlurm(cls.archive, cls.programs)
        except root_folder.Unavailable as why:
            raise unittest.SkipTest(f"no Slurm: {why}") from None
        cls.addClassCleanup(cls.slurm.close)

    def setUp(self):
        self.slurm.wait_idle()
