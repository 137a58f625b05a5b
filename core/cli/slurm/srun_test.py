"""`millrace srun` in jobs of a real Slurm, and where there is none.

    srun_test.py ROOT MILLRACE AGENT

ROOT is an archive of a root folder with Slurm (debian_root.bzl), or says why there is none.
"""

import functools
import glob
import json
import os
import re
import shutil
import sys
import unittest

from cli_testing import CliTestCase
from eventually import WAIT_S, wait_for
from real_slurm import SlurmTestCase

_ROOT, *_PROGRAMS = (os.path.abspath(path) for path in sys.argv[1:4])
del sys.argv[1:4]
_AGENT = "/usr/bin/millrace-agent"


class NoSlurmTest(CliTestCase):
    """What is said where no cluster can come about."""

    def refused(self, *args, code, env=None):
        done = self.run_cli("srun", *args, env={"SLURM_JOB_ID": "", **(env or {})})
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_outside_a_job(self):
        self.assertIn("`salloc -N 2 -n 4 millrace srun -- PROGRAM`", self.refused("--", "true", code=69))

    def test_without_srun(self):
        told = self.refused("--", "true", code=69, env={"SLURM_JOB_ID": "17", "PATH": self.path("none")})
        self.assertIn("Slurm job 17 is here, but no srun is in PATH", told)

    def test_in_each_task_of_a_step(self):
        told = self.refused("--", "true", code=69, env={"SLURM_JOB_ID": "17", "SLURM_STEP_NUM_TASKS": "3"})
        self.assertIn("one of 3 tasks of a step", told)

    def test_mistakes(self):
        for args, words in (
            ([], "no program to run: millrace srun -n 4 -- PROGRAM"),
            (["--ntasks=4", "true"], "--ntasks=4 is srun's option: write -n NODES (millrace srun --help says more)"),
            (["--on", "static", "--", "true"], "unknown option --on"),
            (["--working-dir", "none", "--", "true"], "--working-dir"),
            (["-n", "4", "--num-ps", "4", "--", "true"], "num_ps"),
        ):
            self.assertIn(words, self.refused(*args, code=64, env={"SLURM_JOB_ID": "17", "PATH": self.fake_srun("")}))
        told = self.refused("--", "true", code=64, env={"SLURM_JOB_ID": "17", "SLURM_NTASKS": "4(x2)"})
        self.assertIn("SLURM_NTASKS is 4(x2)", told)

    def fake_srun(self, script):
        """A PATH in which srun is this."""
        os.makedirs(self.path("bin"), exist_ok=True)
        self.write("bin/srun", "#!/bin/sh\n" + script, 0o755)
        return self.path("bin") + ":/usr/bin:/bin"

    def test_an_srun_that_fails_says_why(self):
        script = 'echo "srun: a note" >&2; echo "srun: error: no luck today" >&2; exit 1'
        env = {"SLURM_JOB_ID": "17", "SLURM_NTASKS": "2", "PATH": self.fake_srun(script)}
        done = self.run_cli("srun", "-n", "3", "--", "true", env=env)
        self.assertEqual(done.returncode, 69)
        self.assertEqual(done.stderr.splitlines(), [
            "millrace: srun: a note",
            "millrace: srun started none of 3 agents in job 17, which has 2 tasks: no luck today",
        ])  # fmt: skip

    def test_an_srun_that_writes_garbage_is_ended(self):
        script = "head -c 3000000 /dev/urandom; head -c 3000000 /dev/urandom >&2; exit 3"
        env = {"SLURM_JOB_ID": "17", "PATH": self.fake_srun(script)}
        done = self.run_cli("srun", "--", "true", env=env, text=False)
        self.assertEqual(done.returncode, 69)

    def test_the_secret_is_on_sruns_stdin_alone(self):
        argv, env, line = (self.path(name) for name in ("argv", "env", "in"))
        script = f"cat /proc/$$/cmdline > {argv}; env > {env}; head -n 1 > {line}"
        done = self.run_cli("srun", "--srun-option=--exact", "--", "true",
                            env={"SLURM_JOB_ID": "17", "PATH": self.fake_srun(script)})  # fmt: skip
        self.assertEqual(done.returncode, 69, done.stderr)
        with open(self.path("in"), encoding="utf-8") as file:
            params = json.load(file)["params"]
        self.assertEqual(params["from_environment"],
                         {"executor_id": "SLURM_PROCID", "coordinator_host": "SLURM_LAUNCH_NODE_IPADDR"})
        self.assertIn("PRIVATE KEY", params["coordinator"]["identity_pem"])
        for name in ("argv", "env"):
            with open(self.path(name), encoding="utf-8") as file:
                text = file.read()
            self.assertNotIn(params["coordinator"]["token"], text)
            self.assertNotIn("PRIVATE KEY", text)


class SrunTest(SlurmTestCase):
    archive = _ROOT
    programs = _PROGRAMS

    def in_job(self, script, *options, hosts=2, tasks=4):
        """Runs the script in a job to its end."""
        return self.slurm.run("salloc", f"--nodes={hosts}", f"--ntasks={tasks}", *options, "sh", "-c", script)

    def start_job(self, *args, hosts=2, tasks=3, node="echo up; exec sleep 600"):
        """A cluster in a job, whose nodes run; the job's id is in `job`."""
        process = self.slurm.start("salloc", f"--nodes={hosts}", f"--ntasks={tasks}", "millrace", "srun", *args,
                                   "--", "sh", "-c", node)  # fmt: skip
        self.addCleanup(self.end, process)
        for _ in range(tasks):
            self.assertIn("| up", process.stdout.readline())
        self.job = self.slurm.told("squeue", "-h", "-o", "%i").strip()
        return process

    def end(self, process):
        if process.poll() is None:
            self.slurm.run("scancel", "--user=root")
            self.slurm.kill("KILL", *self.slurm.pids("salloc"), *self.slurm.pids("millrace"))
        process.communicate()

    def ended(self, process, code, *words):
        """What it wrote on stderr; that nothing of its job is left."""
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, code, err)
        for word in words:
            self.assertIn(word, err)
        self.nothing_is_left()
        return err

    def nothing_is_left(self, folders=True):
        of_a_job = re.compile(r"(\S*/)?(millrace|srun|slurmstepd|sleep 600|sh -c (?!for p in))")
        wait_for(lambda: not any(map(of_a_job.match, self.slurm.processes().values())), "the end of all processes")
        if folders:
            self.assertEqual(self.folders(), [])

    def folders(self):
        return glob.glob(self.slurm.path("tmp/*millrace*"))

    def test_ranks_are_where_srun_puts_its_tasks(self):
        script = r'srun --label --ntasks=5 hostname; millrace srun -n 5 -- sh -c "echo \$RANK on \$(hostname)"'
        for distribution, hosts in (("block", 3), ("cyclic", 3), ("plane=2", 2)):
            with self.subTest(distribution):
                done = self.in_job(script, f"--distribution={distribution}", hosts=hosts, tasks=5)
                self.assertEqual(done.returncode, 0, done.stderr)
                placed = dict(re.findall(r"^(\d): (\w+)$", done.stdout, re.M))
                self.assertEqual(len(placed), 5, done.stdout)
                self.assertEqual(dict(re.findall(r"^worker:\d\| (\d) on (\w+)$", done.stdout, re.M)), placed)
                self.assertEqual(len(set(placed.values())), hosts)

    def test_the_cluster_is_as_large_as_the_job(self):
        for options, nodes in ((["-n3"], 3), (["-N2"], 2), (["-N2", "--ntasks-per-node=2"], 4)):
            done = self.slurm.run("salloc", *options, "millrace", "srun", "--", "sh", "-c", "echo of $WORLD_SIZE")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(re.findall(r"of (\d)", done.stdout), [str(nodes)] * nodes)

    def test_a_heterogeneous_job_has_a_cluster_in_one_component(self):
        for options, hosts in (([], ["n1"] * 2), (["-n", "2", "--srun-option=--het-group=1"], ["n2", "n3"])):
            done = self.slurm.run("salloc", "-N1", "-n2", ":", "-N2", "-n2", "millrace", "srun", *options, "--", "sh",
                                  "-c", "echo $RANK on $(hostname)")  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(sorted(re.findall(r"(\d on n\d)", done.stdout)),
                             [f"{rank} on {host}" for rank, host in enumerate(hosts)])  # fmt: skip

    def test_nodes_have_the_processors_that_the_job_was_asked_for(self):
        for options, processors in (([], "none"), (["--cpus-per-task=2"], "2")):
            done = self.in_job("millrace srun -- sh -c 'echo ${SLURM_CPUS_PER_TASK-none} each'", *options)
            self.assertEqual(re.findall(r"(\w+) each", done.stdout), [processors] * 4, done.stderr)
        done = self.in_job("SRUN_CPUS_PER_TASK=1 millrace srun -- sh -c 'echo $SLURM_CPUS_PER_TASK each'",
                           "--cpus-per-task=2")  # fmt: skip
        self.assertEqual(re.findall(r"(\w+) each", done.stdout), ["1"] * 4, done.stderr)

    def test_roles_options_and_a_program_that_is_sent(self):
        node = 'test -n "$RANK" || exec sleep 600; echo rank $RANK of $WORLD_SIZE in $PWD with $X; pwd >&2'
        self.slurm.write("srv/greet", f"#!/bin/sh\n{node}\n", 0o755)
        done = self.in_job("cd /srv && millrace srun -n 3 --num-ps 1 --master-node chief --env X=7 --working-dir /var "
                           "--ship --srun-option=--distribution=cyclic -- ./greet")  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()),
                         ["chief:0| rank 0 of 2 in /var with 7", "worker:0| rank 1 of 2 in /var with 7"])

    def test_a_node_that_fails_ends_the_run_as_everywhere(self):
        for node, code, words in (('test "$RANK" != 1 || exit 5; exec sleep 600', 5, "exited with code 5"),
                                  ('test "$RANK" != 1 || kill -9 $$; exec sleep 600', 137, "SIGKILL")):
            done = self.in_job(f"millrace srun -- sh -c '{node}'")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, rf"(?m)^millrace: worker:1 \(executor 1, .*, host n\d, pid \d+\) .*{words}")
        done = self.in_job("millrace srun -- no-such-program")
        self.assertEqual(done.returncode, 127, done.stderr)

    def test_a_node_is_started_again(self):
        node = 'test "$RANK" != 1 || test -e /tmp/again || { touch /tmp/again; exit 1; }; echo done'
        done = self.in_job(f"millrace srun --max-restarts 1 --initial-backoff 10ms -- sh -c '{node}'")
        os.remove(self.slurm.path("tmp/again"))
        self.assertEqual((done.returncode, done.stdout.count("done")), (0, 4), done.stderr)
        self.assertIn("worker:1", done.stderr)

    def test_more_nodes_than_the_job_has_room_for(self):
        done = self.in_job("millrace srun -n 40 -- true")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("millrace: srun started none of 40 agents in job", done.stderr)
        self.assertIn(", which has 4 tasks: Unable to create step for job", done.stderr)

    def test_agents_of_another_path(self):
        done = self.in_job(f"cp {_AGENT} /srv/agent && MILLRACE_AGENT=/srv/agent millrace srun -- true")
        self.assertEqual(done.returncode, 0, done.stderr)
        # srun takes the first word for the program.
        done = self.in_job("millrace srun --srun-option=/none/agent -- true")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("/none/agent: No such file or directory", done.stderr)

    def test_no_secret_is_where_others_could_read_it(self):
        process = self.start_job()
        shown = self.slurm.told("scontrol", "show", "job", self.job) + self.slurm.told("scontrol", "show", "step")
        read = "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
        shown += self.slurm.told("sh", "-c", f"{read}; true")
        self.assertIn("--parent=stdin", shown)
        self.assertNotIn("PRIVATE KEY", shown)
        self.assertNotIn("BEGIN CERTIFICATE", shown)
        token = json.loads(self.slurm.told("sh", "-c", "cat ~/.millrace/clusters/*.json"))["viewer_token"]
        same_kind = re.compile(rf"\b[0-9a-f]{{{len(token)}}}\b")
        self.assertTrue(same_kind.search(token))
        self.assertEqual(same_kind.findall(shown), [])
        self.slurm.kill("TERM", *self.slurm.pids("millrace srun"))
        self.ended(process, 143, "stopped: ")

    def test_a_killed_driver_takes_everything_along(self):
        process = self.start_job()
        self.slurm.kill("KILL", *self.slurm.pids("millrace srun"))
        self.ended(process, 0)  # of salloc, which knows of exit codes alone

    def test_a_killed_srun_is_named(self):
        process = self.start_job()
        self.slurm.kill("KILL", *self.slurm.pids("/usr/bin/srun"))  # it has a helper
        err = self.ended(process, 69, "millrace: srun (pid ", "was ended by signal 9 (SIGKILL)")
        self.assertIn(f"of job {self.job}", err)

    def test_a_killed_agent_is_named(self):
        process = self.start_job()
        self.slurm.kill("KILL", min(self.slurm.pids(f"{_AGENT} agent")))
        self.ended(process, 69, "was lost: its agent")

    def test_agents_of_a_host_share_a_connection(self):
        def relays():
            return sorted(self.slurm.pids(f"{_AGENT} relay"))

        process = self.start_job(hosts=2, tasks=5)
        before = relays()
        self.assertEqual(len(before), 2)
        self.slurm.kill("KILL", before[0])
        wait_for(lambda: len(relays()) == 2 and relays() != before, "another relay")
        self.assertEqual(len(self.slurm.pids("sleep 600")), 5)
        self.slurm.told("scancel", self.job)
        self.ended(process, 69, f"millrace: Slurm ended job {self.job}: ")

    def test_agents_alone_on_their_hosts_share_none(self):
        process = self.start_job(hosts=2, tasks=2)
        self.assertEqual(self.slurm.pids(f"{_AGENT} relay"), [])
        self.slurm.told("scancel", self.job)
        self.ended(process, 69, f"millrace: Slurm ended job {self.job}: ")

    def test_a_job_that_is_cancelled(self):
        process = self.start_job()
        self.slurm.told("scancel", self.job)
        self.ended(process, 69, f"millrace: Slurm ended job {self.job}: STEP {self.job}.0 ON n1 CANCELLED AT ")

    def test_a_step_that_is_cancelled(self):
        process = self.start_job()
        self.slurm.told("scancel", f"{self.job}.0")
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 69, err)
        self.assertIn(f"millrace: Slurm ended job {self.job}: STEP {self.job}.0 ON n1 CANCELLED AT ", err)
        # Slurm kills all at once, who would clean up too.
        self.nothing_is_left(folders=False)
        for folder in self.folders():
            shutil.rmtree(folder)

    def test_the_time_limit_of_a_job(self):
        process = self.start_job()
        # Looked at every half a minute.
        self.slurm.told("scontrol", "update", f"JobId={self.job}", "EndTime=now+1")
        self.ended(process, 75, f"millrace: Slurm ended job {self.job}: STEP {self.job}.0 ON n1 CANCELLED AT ",
                   "DUE TO TIME LIMIT")  # fmt: skip

    def test_a_host_that_fails_is_named(self):
        process = self.start_job()
        self.addCleanup(self.slurm.start_host, "n2")
        self.slurm.kill_host("n2")
        self.slurm.told("scontrol", "update", "NodeName=n2", "State=DOWN", "Reason=test")
        self.ended(process, 69, f"millrace: Slurm ended job {self.job}: Node failure on n2")

    def test_a_slurmd_that_is_gone_for_a_while_does_no_harm(self):
        process = self.start_job(node="echo up; until test -e /tmp/go; do sleep 0.1; done; echo done")
        self.slurm.kill_host("n2")
        self.slurm.write("tmp/go", "")
        out, err = process.communicate(timeout=WAIT_S)
        self.slurm.start_host("n2")
        os.remove(self.slurm.path("tmp/go"))
        self.assertEqual((process.returncode, out.count("| done")), (0, 3), err)

    def test_hosts_that_are_drained_are_named_before_anything_starts(self):
        self.slurm.told("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=test")
        self.addCleanup(self.slurm.told, "scontrol", "update", "NodeName=n3", "State=RESUME")
        done = self.in_job("millrace srun --srun-option=--nodelist=n3 -n 1 -- true")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("millrace: srun started none of 1 agents", done.stderr)

    def test_a_script_of_sbatch(self):
        for code, state in ((0, "COMPLETED"), (3, "FAILED")):
            self.submit(f"millrace srun -- sh -c 'echo $RANK; exit {code}'", "--nodes=2", "--ntasks=3")
            ended = rf"JobState={state} .* ExitCode={code}:0 "
            wait_for(functools.partial(self.shows, ended), ended)
            self.assertIn("worker:0| 0\n", self.read("srv/out"))

    def shows(self, text):
        return re.search(text, self.slurm.told("scontrol", "--oneliner", "show", "job", self.job))

    def read(self, name):
        with open(self.slurm.path(name), encoding="utf-8") as file:
            return file.read()

    def submit(self, script, *options):
        self.slurm.write("srv/job", f"#!/bin/sh\n{script}\n")
        self.slurm.write("srv/out", "")
        done = self.slurm.told("sbatch", "--parsable", "--output=/srv/out", "--open-mode=append", *options, "/srv/job")
        self.job = done.strip()
        self.addCleanup(self.slurm.run, "scancel", self.job)

    def test_a_script_of_sbatch_that_is_cancelled(self):
        self.submit("exec millrace srun -- sh -c 'echo up; exec sleep 600'", "--nodes=2", "--ntasks=3")
        wait_for(lambda: self.read("srv/out").count("| up") == 3, "the nodes")
        self.slurm.told("scancel", self.job)
        wait_for(lambda: "millrace: " in self.read("srv/out"), "the message")
        self.assertRegex(self.read("srv/out"), rf"millrace: (Slurm ended job {self.job}: |stopped: )")
        self.nothing_is_left()

    def test_a_job_that_is_queued_again_runs_again(self):
        self.submit("exec millrace srun -- sh -c 'echo up ${SLURM_RESTART_COUNT-0}; "
                    "test -n \"$SLURM_RESTART_COUNT\" || exec sleep 600'", "--requeue", "--nodes=2", "--ntasks=3")
        wait_for(lambda: self.read("srv/out").count("| up 0") == 3, "the nodes")
        self.slurm.told("scontrol", "requeue", self.job)
        wait_for(lambda: self.read("srv/out").count("| up 1") == 3, "the nodes of the second run")
        self.slurm.wait_idle()
        self.nothing_is_left()

    def test_a_stop_by_somebody_is_in_order(self):
        process = self.start_job(node="trap 'echo saved; exit 0' TERM; echo up; sleep 600 & wait")
        self.slurm.told("millrace", "stop", "--reason", "enough")
        out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(out.count("| saved"), 3, err)
        self.assertIn("enough", err)
        self.nothing_is_left()


if __name__ == "__main__":
    unittest.main()
