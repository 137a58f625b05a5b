"""One cluster that is fed, whose driver is killed again and again, by a seed, and what must hold of it."""

import os
import random
import signal
import subprocess
import time

from cli_testing import millrace_path
from eventually import WAIT_S, wait_for
from round import Round, Violation


def _program(name):
    root = os.path.dirname(os.path.dirname(os.path.dirname(millrace_path())))
    return os.path.join(root, "testing", "driver_kills", name)


class FedPlan:
    """What a seed decides."""

    def __init__(self, seed):
        chosen = random.Random(seed)
        self.seed = seed
        self.workers = chosen.randint(1, 3)
        self.calls = chosen.randint(1, 3)
        self.epochs = chosen.randint(1, 2)
        self.partitions = chosen.randint(1, 6)
        self.rows = chosen.choice((0, 7, 60, 150))
        self.batch = chosen.choice((1, 7, 32))
        self.pause_us = chosen.choice((0, 1_000, 5_000))
        # Each at a share of all rows, and up to 100 ms later. With some of them worker:0 is killed too.
        self.kills = sorted((chosen.random() * 1.05, chosen.random() * 0.1) for _ in range(chosen.randint(1, 6)))
        nodes_die = chosen.random() < 0.3
        self.dies = {kill for kill in range(len(self.kills)) if nodes_die and chosen.random() < 0.5}
        self.total = self.calls * self.epochs * self.partitions * self.rows

    def round(self, hosts):
        return FedRound(self, hosts)

    def __str__(self):
        kills = ", ".join(
            f"{min(share, 1):.0%} + {delay * 1000:.0f} ms{' with worker:0' if number in self.dies else ''}"
            for number, (share, delay) in enumerate(self.kills)
        )
        return (f"fed seed {self.seed}: {self.workers} workers, {self.calls} calls of {self.epochs} epochs, "
                f"{self.partitions} partitions of {self.rows} rows, batches of {self.batch}, "
                f"{self.pause_us} us each; killed: {kills}")  # fmt: skip


class FedRound(Round):
    """Runs a plan on agents that listen (Hosts)."""

    def _run(self):
        for number, (share, delay) in enumerate(self.plan.kills):
            driver = self._start_driver()
            rows = min(share, 1) * self.plan.total
            wait_for(lambda: driver.poll() is not None or self._given_rows() >= rows, f"{rows} rows of {self.plan}")
            time.sleep(delay)  # the moment itself is an event; where in it, the seed says
            ended = driver.poll() is not None
            self._kill(driver)
            if ended or self._has_ended():
                self._judge(driver.stdout_text if ended else None)
                return
            if number in self.plan.dies:
                self._kill_node()
        last = self._start_driver()
        try:
            last.wait(timeout=WAIT_S)
        except subprocess.TimeoutExpired as error:
            raise Violation(f"the last driver did not end; {self._given_rows()} rows were given") from error
        self._kill(last)
        self._judge(last.stdout_text)

    def _start_driver(self):
        plan = self.plan
        output = open(os.path.join(self._folder, f"driver-{len(self._drivers)}"), "w+", encoding="utf-8")
        driver = subprocess.Popen(
            [
                _program("fed_driver"), f"--state={self._state}", f"--secret={self._hosts.secret}",
                f"--folder={self._folder}", f"--agents={','.join(self._hosts.addresses[:plan.workers])}",
                f"--node={_program('fed_node')}", f"--node-args={plan.batch},{plan.pause_us}", "--restarts=100",
                f"--trains={plan.calls}", f"--epochs={plan.epochs}", f"--partitions={plan.partitions}",
                f"--rows={plan.rows}",
            ],
            env=self._hosts.env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, text=True,
            cwd=self._folder,
        )  # fmt: skip
        driver.output = output
        self._drivers.append(driver)
        return driver

    @staticmethod
    def _kill(driver):
        driver.kill()
        driver.wait()
        if not driver.output.closed:
            driver.output.seek(0)
            driver.stdout_text = driver.output.read()
            driver.output.close()

    def _kill_node(self):
        try:
            with open(os.path.join(self._folder, "pid-0"), encoding="ascii") as file:
                os.kill(int(file.read()), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has not begun, or has ended

    def _has_ended(self):
        """The last driver had come to its end, and was killed as it left."""
        left = os.path.exists(os.path.join(self._state, "cluster"))
        return self._given_rows() >= self.plan.total and not left and os.path.isdir(self._state) and self._said_all()

    def _said_all(self):
        return f"trained {self.plan.calls - 1} " in "".join(driver.stdout_text for driver in self._drivers)

    def _given(self):
        """How often nodes were given each row."""
        given = {}
        for name in os.listdir(self._folder):
            if not name.startswith("rows-"):
                continue
            with open(os.path.join(self._folder, name), encoding="ascii") as file:
                for line in file:
                    given[int(line)] = given.get(int(line), 0) + 1
        return given

    def _given_rows(self):
        return len(self._given())

    def _judge(self, said):
        """`said`: by the last driver; None if it was killed as it left."""
        plan = self.plan
        given = self._given()
        expected = {
            ((call * 100 + epoch) * 100 + partition) * 100_000 + row
            for call in range(plan.calls)
            for epoch in range(plan.epochs)
            for partition in range(plan.partitions)
            for row in range(plan.rows)
        }
        if lost := expected - given.keys():
            raise Violation(f"{len(lost)} rows were lost, such as {min(lost)}: {said}")
        if strange := given.keys() - expected:
            raise Violation(f"rows that nobody fed: {sorted(strange)[:10]}")
        if said is None:
            said = "".join(driver.stdout_text for driver in self._drivers)
        elif "ended with OK" not in said:
            raise Violation(f"the last driver ended otherwise: {said}")
        for call in range(plan.calls):
            self._judge_call(call, given, said)
        if said is not None and os.path.isdir(self._state) and os.path.exists(os.path.join(self._state, "cluster")):
            raise Violation(f"the state folder has {os.listdir(self._state)}")
        if left := self._hosts.wait_until_free():
            raise Violation("left: " + "; ".join(left))

    def _judge_call(self, call, given, said):
        doubled = sum(times - 1 for row, times in given.items() if row // 1_000_000_000 == call)
        lines = [line.split() for line in said.splitlines() if line.startswith(f"trained {call} ")]
        if not lines:
            raise Violation(f"nobody said what call {call} came to: {said}")
        if any(line != lines[0] for line in lines):
            raise Violation(f"call {call} returned different things: {lines}")
        rows, refed, exactly = (int(lines[0][n]) for n in (3, 5, 7))
        if rows != self.plan.total // self.plan.calls:
            raise Violation(f"call {call} says {rows} rows: {said}")
        if doubled > refed or (exactly == 1) != (refed == 0 and doubled == 0):
            raise Violation(f"call {call} says {refed} rows refed, exactly {exactly}; {doubled} were given again")
        if refed and not self.plan.dies:
            raise Violation(f"call {call} fed {refed} rows again, though no node died: {said}")
