"""The scripts of this folder, as its README runs them."""

import os
import unittest

from cli_testing import PYTHON, CliTestCase

FOLDER = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"],
                      "millrace", "examples", "env_only")


class EnvOnlyTest(CliTestCase):
    def test_a_script_in_the_way_of_pytorch(self):
        done = self.run_cli("run", "-n", "3", "--", PYTHON, os.path.join(FOLDER, "allreduce.py"), "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(
            done.stdout.splitlines(),
            [f"worker:{rank}| step {step}: rank {rank} of 3, sum 6"
             for rank in range(3) for step in range(2)])

    def test_a_script_in_the_way_of_tensorflow(self):
        done = self.run_cli("run", "-n", "4", "--num-ps", "1", "--master-node", "chief", "--", PYTHON,
                            os.path.join(FOLDER, "parameter_server.py"), "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        self.assertIn('ps:0| ps:0 of {"ps": 1, "chief": 1, "worker": 2}', lines)
        pushed = [line for line in lines if ", parameters [" in line]
        self.assertEqual(len(pushed), 6)
        self.assertTrue(any(line.endswith("parameters [6]") for line in pushed), lines)


if __name__ == "__main__":
    unittest.main()
