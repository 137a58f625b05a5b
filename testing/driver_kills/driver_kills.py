"""Rounds of new seeds: `bazel run //testing/driver_kills -- --rounds=1000 [--fed]`."""

import argparse
import os
import pathlib
import random
import sys
import tempfile
import time

from fed_round import FedPlan
from round import Hosts, Plan, Violation


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, help="of the first round; the next ones count on (random)")
    parser.add_argument("--fed", action="store_true", help="clusters that are fed, and their rows")
    arguments = parser.parse_args()
    first = random.SystemRandom().randrange(1 << 32) if arguments.seed is None else arguments.seed
    os.environ.setdefault("RUNFILES_DIR", str(pathlib.Path(__file__).parents[3]))  # of `bazel run`
    failed = 0
    kills = 0
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        hosts = Hosts(folder)
        try:
            for seed in range(first, first + arguments.rounds):
                plan = FedPlan(seed) if arguments.fed else Plan(seed)
                kills += len(plan.kills)
                try:
                    hosts.run(plan)
                except (Violation, AssertionError) as violation:
                    failed += 1
                    fed = " --fed" if arguments.fed else ""
                    print(f"{plan}: {violation}\n  again: --rounds=1 --seed={seed}{fed}", flush=True)
                if (seed - first) % 50 == 49:
                    print(f"{seed - first + 1} rounds", flush=True)
        finally:
            hosts.end()
    seconds = time.monotonic() - start
    print(f"{arguments.rounds} rounds from seed {first}, {kills} kills, in {seconds:.0f} s: {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
