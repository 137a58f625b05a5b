"""Seeds that are the same every time; //testing/driver_kills tries as many as one wants."""

import tempfile
import unittest

from round import Hosts, Plan, Violation

# Kills at every moment, a ps, failures and second drivers are among them.
SEEDS = range(100, 108)


class DriverKillsTest(unittest.TestCase):
    def test_the_same_seeds_hold(self):
        with tempfile.TemporaryDirectory() as folder:
            hosts = Hosts(folder)
            self.addCleanup(hosts.end)
            for seed in SEEDS:
                plan = Plan(seed)
                print(plan, flush=True)
                try:
                    hosts.run(plan)
                except Violation as violation:
                    self.fail(f"{plan}: {violation}")

    def test_a_seed_chooses_the_same(self):
        self.assertEqual([str(Plan(seed)) for seed in range(50)], [str(Plan(seed)) for seed in range(50)])
        self.assertGreater(len({str(Plan(seed)).split(":", 1)[1] for seed in range(50)}), 40)


if __name__ == "__main__":
    unittest.main()
