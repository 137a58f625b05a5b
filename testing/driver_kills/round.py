"""One cluster whose driver is killed, or told to leave, again and again, by a seed, and what must hold of it."""

import json
import os
import random
import shlex
import shutil
import subprocess
import time

from agents_testing import Agent
from cli_testing import millrace_path
from eventually import WAIT_S, wait_for

# $1: the round's folder, $2: the rank that fails. A ps has no RANK, and is ended by the driver.
_NODE = """
me=${RANK:-ps}
echo start >> $1/node-$me
test "$me" = ps && exec sleep 600
while ! test -e $1/go; do sleep 0.01; done
echo "said by $me"
echo end >> $1/node-$me
test "$me" != "$2" || exit 3
"""

# Moments of a cluster's life at which its driver is killed.
MOMENTS = ("at once", "state", "adopted", "one runs", "all run", "later", "one ended", "all ended")


class Violation(Exception):
    """Something does not hold."""


class Plan:
    """What a seed decides."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        self.seed = seed
        self.workers = chosen.randint(1, 3)
        self.ps = chosen.random() < 0.4
        self.fails = chosen.randrange(self.workers) if chosen.random() < 0.25 else None
        order = sorted(chosen.choices(range(len(MOMENTS)), k=chosen.randint(1, 5)))
        self.kills = [(MOMENTS[each], chosen.random() * 0.2) for each in order]
        self.rival = chosen.random() < 0.3  # a second driver beside the last one
        self.told = [chosen.random() < 0.3 for _ in self.kills]  # by SIGTERM, and so in order

    def round(self, hosts):
        return Round(self, hosts)

    def __str__(self):
        kills = ", ".join(
            f"{moment} + {delay * 1000:.0f} ms{' by SIGTERM' if told else ''}"
            for (moment, delay), told in zip(self.kills, self.told)
        )
        fails = "" if self.fails is None else f", worker:{self.fails} fails"
        return f"seed {self.seed}: {self.workers} workers{', a ps' if self.ps else ''}{fails}; killed: {kills}"


class Round:
    """Runs a plan on agents that listen (Hosts)."""

    def __init__(self, plan, hosts):
        self.plan = plan
        self._hosts = hosts
        self._folder = os.path.join(hosts.folder, f"round-{plan.seed}")
        self._state = os.path.join(self._folder, "state")
        self._ranks = [str(rank) for rank in range(plan.workers)]
        self._drivers = []
        os.mkdir(self._folder)

    def run(self):
        """Raises Violation. Leaves nothing behind."""
        try:
            self._run()
        finally:
            for driver in self._drivers:
                self._kill(driver)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self):
        for (moment, delay), told in zip(self.plan.kills, self.plan.told):
            driver = self._start_driver()
            self._wait_for(moment, driver)
            time.sleep(delay)  # the moment itself is an event; where in it, the seed says
            if told:
                if self._leaves(driver):
                    continue
                self._judge(as_it_left=False)
                return
            self._kill(driver)
            if self._has_ended():
                self._judge(as_it_left=True)
                return
        self._end(self._start_driver())
        self._judge(as_it_left=False)

    @staticmethod
    def _kill(driver):
        driver.kill()
        driver.wait()
        driver.stderr.close()

    def _leaves(self, driver):
        """Whether a driver that is told to leave does; otherwise it has ended with its cluster, and well."""
        driver.terminate()
        try:
            _, err = driver.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise Violation("a driver that was told to leave did not") from error
        # Before there is anything to be left, the signal itself ends it.
        if driver.returncode in (143, -15):
            if self._has_ended():
                raise Violation(f"a driver has left a cluster that is over: {err}")
            return True
        if driver.returncode != self._expected:
            raise Violation(f"a driver that was told to leave ended with {driver.returncode}: {err}")
        return False

    @property
    def _expected(self):
        return 0 if self.plan.fails is None else 3

    def _has_ended(self):
        """The last driver had come to its end, and was killed as it left."""
        return bool(self._said("end")) and not os.path.exists(os.path.join(self._state, "cluster"))

    def _end(self, driver):
        if self.plan.rival and not os.path.exists(os.path.join(self._folder, "go")):
            self._check_rival(driver)
        self._go()
        try:
            _, err = driver.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise Violation(f"the last driver did not end; nodes: {self._nodes()}") from error
        if driver.returncode != self._expected:
            raise Violation(f"the last driver ended with {driver.returncode}, not {self._expected}: {err}")

    def _check_rival(self, driver):
        wait_for(lambda: self._has(driver), "the driver that has the cluster")
        rival = self._start_driver()
        _, err = rival.communicate(timeout=WAIT_S)
        if driver.poll() is None and (rival.returncode == 0 or f"pid {driver.pid} on" not in err):
            raise Violation(f"a second driver ended with {rival.returncode}: {err}")

    def _has(self, driver):
        """Whether this driver has the cluster, or has ended with it."""
        try:
            with open(os.path.join(self._state, "lock"), encoding="utf-8") as lock:
                return f"pid {driver.pid} on" in lock.read() or driver.poll() is not None
        except FileNotFoundError:
            return driver.poll() is not None

    def _start_driver(self):
        members = {"worker": self._hosts.addresses[:self.plan.workers]}
        if self.plan.ps:
            members["ps"] = [self._hosts.addresses[-1]]
        fails = "none" if self.plan.fails is None else str(self.plan.fails)
        command = [
            millrace_path(), "run", "--on", "static", "--members", json.dumps(members), "--secret-file",
            self._hosts.secret, "--bind-address", "127.0.0.1", "--driver-host", "127.0.0.1", "--resumable",
            self._state, "--on-sigterm", "leave", "--", "sh", "-c", _NODE, "sh", self._folder, fails,
        ]  # fmt: skip
        driver = subprocess.Popen(
            command, env=self._hosts.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, cwd=self._folder,
        )  # fmt: skip
        self._drivers.append(driver)
        return driver

    def _go(self):
        with open(os.path.join(self._folder, "go"), "w", encoding="utf-8"):
            pass

    def _wait_for(self, moment, driver):
        """Until the moment, or the driver's own end."""
        if moment in ("one ended", "all ended"):
            self._go()
        reached = {
            "at once": lambda: True,
            "state": lambda: os.path.exists(os.path.join(self._state, "cluster")),
            "adopted": lambda: self._hosts.adoptions() > self._adopted_before,
            "one runs": lambda: self._said("start"),
            "all run": lambda: len(self._said("start")) == len(self._ranks),
            "later": lambda: len(self._said("start")) == len(self._ranks),
            "one ended": lambda: self._said("end"),
            "all ended": lambda: len(self._said("end")) == len(self._ranks) or self.plan.fails is not None,
        }[moment]
        wait_for(lambda: driver.poll() is not None or reached(), f"'{moment}' of {self.plan}")

    def _nodes(self):
        """What each node has done, by name."""
        nodes = {}
        for name in sorted(os.listdir(self._folder)):
            if name.startswith("node-"):
                with open(os.path.join(self._folder, name), encoding="utf-8") as file:
                    nodes[name[len("node-"):]] = file.read().split()
        return nodes

    def _said(self, word):
        return [rank for rank, words in self._nodes().items() if word in words and rank != "ps"]

    def _judge(self, as_it_left):
        nodes = self._nodes()
        for rank in self._ranks:
            expected = ["start", "end"]
            # When one fails the others are ended.
            if nodes.get(rank) != expected and not (self.plan.fails is not None and nodes.get(rank) == ["start"]):
                raise Violation(f"worker:{rank} did {nodes.get(rank)}, not {expected}: {nodes}")
        if self.plan.ps and nodes.get("ps") != ["start"]:
            raise Violation(f"ps:0 did {nodes.get('ps')}: {nodes}")
        if os.listdir(self._state) and not as_it_left:
            raise Violation(f"the state folder has {os.listdir(self._state)}")
        left = self._hosts.wait_until_free()
        if left:
            raise Violation("left: " + "; ".join(left))

    @property
    def _adopted_before(self):
        return self._hosts.adoptions_before


class Hosts:
    """Agents that listen on 127.0.0.2 and on, for rounds one after the other."""

    def __init__(self, folder, count=4):
        self.folder = folder
        self.secret = os.path.join(folder, "agents.json")
        self._mark = f"DRIVER_KILLS={random.SystemRandom().getrandbits(64):016x}"
        name, _, value = self._mark.partition("=")
        self.env = {
            **os.environ, name: value, "MILLRACE_CLUSTERS_DIR": os.path.join(folder, "clusters"),
            "TMPDIR": os.path.join(folder, "tmp"), "HOME": folder,
        }  # fmt: skip
        os.mkdir(self.env["TMPDIR"])
        subprocess.run([millrace_path(), "agent-secret", "--file", self.secret], env=self.env, check=True)
        self._agents = [Agent(f"127.0.0.{2 + n}", self.secret, self.env) for n in range(count)]
        self.addresses = []
        for agent in self._agents:
            line = wait_for(lambda agent=agent: agent.said("listening on"), "an agent that listens")[0]
            self.addresses.append(line.split("listening on ")[1].split(",")[0])
        self.adoptions_before = 0

    def end(self):
        for agent in self._agents:
            agent.end()

    def run(self, plan):
        self.adoptions_before = self.adoptions()
        plan.round(self).run()

    def adoptions(self):
        return sum(len(agent.said("adopted as executor")) for agent in self._agents)

    def wait_until_free(self):
        """What is left after a cluster: lines for people."""
        deadline = time.monotonic() + WAIT_S
        while (left := self._left()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return left

    def _left(self):
        left = [
            f"the agent at {address} is not free"
            for agent, address in zip(self._agents, self.addresses)
            if len(agent.said("adopted as executor")) != len(agent.said("free again"))
        ]
        left += [f"{self.env['TMPDIR']} has {name}" for name in os.listdir(self.env["TMPDIR"])]
        listening = {agent.process.pid for agent in self._agents}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    marked = self._mark.encode() in file.read().split(b"\0")
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = shlex.join(file.read().decode("utf-8", "replace").split("\0")[:-1])
            except OSError:  # gone, or somebody else's
                continue
            if marked and int(pid) not in listening:
                left.append(f"process {pid}: {command[:200]}")
        return left
