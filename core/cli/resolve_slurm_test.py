"""`millrace resolve slurm` in steps of a real Slurm: it says where srun has put the tasks.

    resolve_slurm_test.py ROOT MILLRACE

ROOT is an archive of a root folder with Slurm (debian_root.bzl), or says why there is none.
"""

import json
import os
import re
import sys
import unittest

from real_slurm import SlurmTestCase

_ROOT, _MILLRACE = (os.path.abspath(path) for path in sys.argv[1:3])
del sys.argv[1:3]
_NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}  # otherwise those of the machine are counted


class ResolveSlurmTest(SlurmTestCase):
    archive = _ROOT
    programs = (_MILLRACE,)

    def resolved(self, *srun, hosts, jobs):
        """What each task of a step says of itself, and the hosts by rank, as srun says."""
        named = " ".join(f"--job {name}={tasks}" for name, tasks in jobs.items())
        told = f'echo "$(hostname) $(millrace resolve slurm {named} --json 2>&1)"'
        done = self.slurm.run("salloc", f"--nodes={hosts}", f"--ntasks={sum(jobs.values())}", "srun", "--label", *srun,
                              "sh", "-c", told, env=_NO_GPUS)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        said = {int(rank): (host, text) for rank, host, text in re.findall(r"(?m)^ *(\d+): (\S+) (.*)$", done.stdout)}
        self.assertEqual(sorted(said), list(range(sum(jobs.values()))), done.stdout)
        return said

    def assert_right(self, said, jobs):
        places = [(job, index) for job, tasks in jobs.items() for index in range(tasks)]
        for rank, (host, text) in said.items():
            self.assertTrue(text.startswith("{"), text)
            answer = json.loads(text)
            self.assertEqual((answer["task_type"], answer["task_id"]), places[rank])
            addresses = [address for job in jobs for address in answer["cluster_spec"][job]]
            self.assertEqual([address.split(":")[0] for address in addresses],
                             [said[other][0] for other in sorted(said)], text)
            self.assertEqual(len(set(addresses)), len(addresses), text)
            self.assertEqual(addresses[rank].split(":")[0], host)

    def test_every_distribution(self):
        jobs = {"ps": 1, "worker": 6}
        for distribution, hosts in (("block", 3), ("cyclic", 3), ("plane=2", 3), ("block", 2), ("cyclic", 2)):
            with self.subTest(distribution, hosts=hosts):
                self.assert_right(self.resolved(f"--distribution={distribution}", hosts=hosts, jobs=jobs), jobs)

    def test_by_default(self):
        for hosts, tasks in ((1, 3), (2, 2), (3, 5), (3, 12)):
            with self.subTest(hosts=hosts, tasks=tasks):
                jobs = {"worker": tasks}
                self.assert_right(self.resolved(hosts=hosts, jobs=jobs), jobs)

    def test_a_step_that_is_smaller_than_its_job(self):
        script = ("srun --nodes=2 --ntasks=3 --label sh -c "
                  "'echo \"$(hostname) $(millrace resolve slurm --json 2>&1)\"'")  # fmt: skip
        done = self.slurm.run("salloc", "--nodes=3", "--ntasks=6", "sh", "-c", script, env=_NO_GPUS)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = {int(rank): (host, text) for rank, host, text in re.findall(r"(?m)^ *(\d+): (\S+) (.*)$", done.stdout)}
        self.assertEqual(len(said), 3, done.stdout)
        self.assert_right(said, {"worker": 3})

    def test_an_arbitrary_distribution_is_refused_in_words(self):
        self.slurm.write("srv/hosts", "n2\nn1\nn2\n")
        script = "SLURM_HOSTFILE=/srv/hosts srun --distribution=arbitrary millrace resolve slurm"
        done = self.slurm.run("salloc", "--nodes=2", "--ntasks=3", "sh", "-c", script, env=_NO_GPUS)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, "SLURM_DISTRIBUTION is \"arbitrary\"")

    def test_node_lists_stand_for_what_scontrol_says(self):
        for names in ("n1", "n[1-12]", "n[08-11,1],m5", "rack[1-2]n[01-03],login", "n1-ib,a,b[007-009]",
                      "x[0-1][0-2],y[9-11]", "x[0-1]y[0-2]"):  # fmt: skip
            hosts = self.slurm.told("scontrol", "show", "hostnames", names).split()
            step = {"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": str(len(hosts)), "SLURM_STEP_NODELIST": names,
                    "SLURM_STEP_TASKS_PER_NODE": f"1(x{len(hosts)})", **_NO_GPUS}  # fmt: skip
            done = self.slurm.run("millrace", "resolve", "slurm", "--json", env=step)
            self.assertEqual(done.returncode, 0, done.stderr)
            addresses = json.loads(done.stdout)["cluster_spec"]["worker"]
            self.assertEqual([address.split(":")[0] for address in addresses], hosts)
            again = self.slurm.told("scontrol", "show", "hostlistsorted", ",".join(hosts)).strip()
            step["SLURM_STEP_NODELIST"] = again
            done = self.slurm.run("millrace", "resolve", "slurm", "--json", env=step)
            self.assertEqual(done.returncode, 0, done.stderr)
            addresses = json.loads(done.stdout)["cluster_spec"]["worker"]
            self.assertEqual([address.split(":")[0] for address in addresses],
                             self.slurm.told("scontrol", "show", "hostnames", again).split())


if __name__ == "__main__":
    unittest.main()
