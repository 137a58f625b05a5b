"""Seeds that are the same every time; //testing/driver_kills tries as many as one wants."""

import tempfile
import unittest

from fed_round import FedPlan
from round import Hosts, Plan, Violation

# Kills at every moment, a ps, failures and second drivers are among them.
SEEDS = range(100, 108)
# Kills in the first call and in later ones, of nodes too, and as a driver leaves.
FED_SEEDS = range(200, 208)


class DriverKillsTest(unittest.TestCase):
    def test_the_same_seeds_hold(self):
        self._run([Plan(seed) for seed in SEEDS])

    def test_the_same_seeds_hold_where_nodes_are_fed(self):
        self._run([FedPlan(seed) for seed in FED_SEEDS])

    def _run(self, plans):
        with tempfile.TemporaryDirectory() as folder:
            hosts = Hosts(folder)
            self.addCleanup(hosts.end)
            for plan in plans:
                print(plan, flush=True)
                try:
                    hosts.run(plan)
                except Violation as violation:
                    self.fail(f"{plan}: {violation}")

    def test_a_seed_chooses_the_same(self):
        for kind in (Plan, FedPlan):
            self.assertEqual([str(kind(seed)) for seed in range(50)], [str(kind(seed)) for seed in range(50)])
            self.assertGreater(len({str(kind(seed)).split(":", 1)[1] for seed in range(50)}), 40)


if __name__ == "__main__":
    unittest.main()
