"""`millrace agent-secret` and `millrace run --on`: agents that listen, each on an address of its own."""

import json
import os
import signal
import socket
import stat
import unittest

from agents_testing import AgentsTestCase
from cli_testing import WAIT_S
from eventually import wait_for


class RunOnTest(AgentsTestCase):
    def start_agents_of_step(self):
        """Agents as srun starts them: two on one host, at ports next to each other, one on another."""
        for _ in range(20):
            first = self.start_agent("127.0.0.2")
            port = int(first.address.rpartition(":")[2])
            if port == 65535:
                continue
            rest = [self.start_agent("127.0.0.2", port + 1), self.start_agent("127.0.0.3", port)]
            if all(rest):
                return port, [first, *rest]
        self.fail("no two free ports next to each other")

    def failure_of(self, *args, code):
        """The one line in which run says why it failed; the notes before are those of waiting."""
        done = self.run_cli("run", *args)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.splitlines()
        for note in lines[:-1]:
            self.assertRegex(note, "^millrace: [a-z]+:[0-9]+ has no agent yet: ")
        return lines[-1]

    def on(self, **jobs):
        members = {job: [agent.address for agent in agents] for job, agents in jobs.items()}
        return ["--on", "static", "--members", json.dumps(members), "--secret-file", self.secret]

    def test_a_secret_is_made_once_and_only_its_owner_may_read_it(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.secret).st_mode), 0o600)
        again = self.run_cli("agent-secret", "--file", self.secret)
        self.assertEqual(again.returncode, 70)
        self.assertIn("--replace", again.stderr)
        self.assertEqual(
            self.run_cli("agent-secret", "--file", self.secret, "--replace").returncode, 0
        )
        self.assertEqual(self.run_cli("agent-secret", "--dir", self.path("d")).returncode, 0)
        self.assertEqual(sorted(os.listdir(self.path("d"))), ["tls.crt", "tls.key", "token"])
        manifest = self.run_cli("agent-secret", "--kubernetes", "agents", "--namespace", "ml")
        self.assertEqual(manifest.returncode, 0)
        self.assertIn("kind: Secret", manifest.stdout)
        self.assertEqual(self.run_cli("agent-secret").returncode, 64)
        self.assertEqual(self.run_cli("agent-secret", "--kubernetes", "No Name").returncode, 64)

    def test_a_secret_that_ends_soon_is_told_of_and_one_that_has_ended_refused(self):
        def renew(valid):
            made = self.run_cli("agent-secret", "--file", self.secret, "--replace", "--valid", valid)
            self.assertEqual(made.returncode, 0, made.stderr)

        renew("240h")
        agent = self.start_agent("127.0.0.2")
        again = f"`millrace agent-secret --file {self.secret} --replace` makes a new one"
        wait_for(lambda: agent.said("expires on 20"), "the agent's notice")
        self.assertIn(again, agent.said("expires on 20")[0])
        done = self.run_cli("run", *self.on(worker=[agent]), "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\Amillrace: the agents' secret \S+ expires on 20\S+: `.*")
        self.assertIn(again, done.stderr)
        renew("1ms")
        wait_for(lambda: agent.said("the secret of before is kept: "), "the agent's warning")
        told = self.failure_of(*self.on(worker=[agent]), "--", "true", code=70)
        self.assertIn("has expired on 20", told)
        self.assertIn(again, told)

    def test_the_cluster_is_what_the_members_are(self):
        agents = [self.start_agent(f"127.0.0.{n}") for n in (2, 3, 4)]
        done = self.run_cli(
            "run", *self.on(ps=agents[:1], chief=agents[1:2], worker=agents[2:]), "--", "sh", "-c",
            'echo "rank=${RANK-none} of ${WORLD_SIZE-none}"; '
            'case "$TF_CONFIG" in *\'"type":"ps"\'*|*\'"type": "ps"\'*) exec sleep 600;; esac',
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(
            done.stdout.splitlines(),
            ["ps:0| rank=none of none", "chief:0| rank=0 of 2", "worker:0| rank=1 of 2"],
        )
        for agent in agents:
            wait_for(lambda agent=agent: agent.said("free again"), "a free agent")

    def test_a_program_is_sent_where_it_is_not(self):
        agent = self.start_agent("127.0.0.2")
        self.write("greet", "#!/bin/sh\necho hello from $0\n", 0o755)
        done = self.run_cli("run", *self.on(worker=[agent]), "--ship", "--", "./greet")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("worker:0| hello from ", done.stdout)

    def test_what_a_node_fails_with_is_what_run_ends_with(self):
        agent = self.start_agent("127.0.0.2")
        done = self.run_cli("run", *self.on(worker=[agent]), "--", "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3, done.stderr)
        missing = self.run_cli("run", *self.on(worker=[agent]), "--", "no-such-program-there")
        self.assertEqual(missing.returncode, 127, missing.stderr)

    def test_a_killed_listener_is_69_as_any_agent_that_is_gone(self):
        agent = self.start_agent("127.0.0.2")
        process = self.start_cli("run", *self.on(worker=[agent]), "--", "sh", "-c",
                                 "echo here; exec sleep 600")
        self.assertEqual(process.stdout.readline(), "worker:0| here\n")
        agent.process.send_signal(signal.SIGKILL)
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 69, err)

    def test_agents_are_free_after_their_driver_was_killed(self):
        agent = self.start_agent("127.0.0.2")
        process = self.start_cli("run", *self.on(worker=[agent]), "--", "sh", "-c",
                                 "echo here; exec sleep 600")
        self.assertEqual(process.stdout.readline(), "worker:0| here\n")
        process.send_signal(signal.SIGKILL)
        wait_for(lambda: agent.said("free again"), "the agent free again")
        done = self.run_cli("run", *self.on(worker=[agent]), "--", "true")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_run_that_is_killed_goes_on_where_it_left_off(self):
        agents = [self.start_agent(f"127.0.0.{n}") for n in (2, 3)]
        args = ["run", *self.on(worker=agents), "--resumable", "state", "--", "sh", "-c",
                f'echo "started $RANK"; while ! test -e {self.path("go")}; do sleep 0.05; done; '
                'echo "ended $RANK"; test $RANK = 0 || exit 3']
        first = self.start_cli(*args)
        started = sorted(first.stdout.readline() for _ in agents)
        self.assertEqual(started, ["worker:0| started 0\n", "worker:1| started 1\n"])
        second = self.run_cli(*args)
        self.assertEqual(second.returncode, 70, second.stderr)
        self.assertIn(f"has a driver, pid {first.pid} on ", second.stderr)
        first.send_signal(signal.SIGKILL)
        first.wait()
        self.write("go", "")
        third = self.run_cli(*args)
        self.assertEqual(third.returncode, 3, third.stderr)
        self.assertIn("worker:1| ended 1", third.stdout)
        self.assertIn("exited with code 3", third.stderr)
        self.assertEqual(os.listdir(self.path("state")), [])
        for agent in agents:
            self.assertEqual(len(agent.said("adopted as executor")), 1, agent.lines)
        # There is nothing to go on with: it begins anew.
        os.remove(self.path("go"))
        self.assertEqual(self.run_cli(*args[:-3], "true").returncode, 0)

    def test_a_run_that_is_told_to_leave_goes_on_under_the_next(self):
        agents = [self.start_agent(f"127.0.0.{n}") for n in (2, 3)]
        options = [*self.on(worker=agents), "--resumable", "state", "--on-sigterm", "leave"]
        args = ["run", *options, "--", "sh", "-c",
                f'echo "started $RANK"; while ! test -e {self.path("go")}; do sleep 0.05; done; '
                'echo "ended $RANK"']
        first = self.start_cli(*args)
        for _ in agents:
            self.assertIn("| started ", first.stdout.readline())
        first.send_signal(signal.SIGTERM)
        _, told = first.communicate()
        self.assertEqual(first.returncode, 143, told)
        self.assertIn("millrace run got SIGTERM and leaves the cluster: the same command goes on with it within 5",
                      told)
        self.write("go", "")
        second = self.run_cli(*args)
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertIn(" goes on", second.stderr)
        # What was said just before may be said twice.
        said = [line for line in second.stdout.splitlines() if "started" not in line]
        self.assertCountEqual(said, ["worker:0| ended 0", "worker:1| ended 1"])
        self.assertEqual(os.listdir(self.path("state")), [])
        for agent in agents:
            self.assertEqual(len(agent.said("adopted as executor")), 1, agent.lines)

    def test_ctrl_c_ends_what_sigterm_leaves(self):
        agent = self.start_agent("127.0.0.2")
        args = ["run", *self.on(worker=[agent]), "--resumable", "state", "--on-sigterm", "leave", "--",
                "sh", "-c", "echo here; exec sleep 600"]
        driver = self.start_cli(*args)
        self.assertEqual(driver.stdout.readline(), "worker:0| here\n")
        driver.send_signal(signal.SIGINT)
        driver.communicate()
        self.assertEqual(driver.returncode, 130)
        self.assertEqual(os.listdir(self.path("state")), [])
        wait_for(lambda: agent.said("free again"), "the agent free again")

    def test_a_slurm_step_is_a_cluster(self):
        port, agents = self.start_agents_of_step()
        step = {
            "SLURM_JOB_ID": "17", "SLURM_NTASKS": "8", "SLURM_JOB_NODELIST": "127.0.0.[2-9]",
            "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "3",
            "SLURM_STEP_NODELIST": "127.0.0.[2-3]", "SLURM_STEP_TASKS_PER_NODE": "2,1",
            "SLURM_PROCID": "0", "SLURM_NODEID": "0", "SLURM_LOCALID": "0",
            "CUDA_VISIBLE_DEVICES": "",
        }
        args = ["--on", "slurm", "--job", "ps=1", "--job", "worker=2", "--port", str(port),
                "--secret-file", self.secret]
        done = self.run_cli("run", *args, "--", "sh", "-c",
                            'test -n "$RANK" || exec sleep 600; echo "rank $RANK of $WORLD_SIZE"',
                            env=step)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(),
                              ["worker:0| rank 0 of 2", "worker:1| rank 1 of 2"])
        for executor, agent in enumerate(agents):
            self.assertTrue(agent.said(f"adopted as executor {executor} of cluster"), agent.lines)
            wait_for(lambda agent=agent: agent.said("free again"), "a free agent")
        # Ranks are dealt as Slurm deals them.
        done = self.run_cli("run", *args, "--", "true",
                            env={**step, "SLURM_DISTRIBUTION": "cyclic"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(agents[2].said("adopted as executor 1 of cluster"), agents[2].lines)
        self.assertIn("SLURM_", self.failure_of(*args, "--", "true", code=64))

    def test_the_members_of_tf_config_are_a_cluster(self):
        agents = [self.start_agent(f"127.0.0.{n}") for n in (2, 3)]
        config = {"cluster": {"chief": [agents[1].address], "worker": [agents[0].address]},
                  "task": {"type": "chief", "index": 0}}
        args = ["--on", "tf-config", "--secret-file", self.secret, "--", "sh", "-c",
                'echo "rank $RANK of $WORLD_SIZE"']
        done = self.run_cli("run", *args, env={"TF_CONFIG": json.dumps(config)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(),
                              ["chief:0| rank 0 of 2", "worker:0| rank 1 of 2"])
        self.assertTrue(agents[1].said("adopted as executor 0"), agents[1].lines)
        done = self.run_cli("run", *args, env={"TF_CONFIG": "{"})
        self.assertEqual(done.returncode, 64, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_the_hosts_of_a_sagemaker_job_are_a_cluster(self):
        agent = self.start_agent("127.0.0.2")
        host, port = agent.address.split(":")
        env = {"SM_HOSTS": json.dumps([host]), "SM_CURRENT_HOST": host}
        args = ["--on", "sagemaker", "--port", port, "--secret-file", self.secret, "--", "true"]
        done = self.run_cli("run", *args, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(agent.said("adopted as executor 0"), agent.lines)
        self.assertIn("SM_HOSTS", self.failure_of(*args, code=70))

    def test_secrets_that_are_not_the_agents_are_refused_and_logged(self):
        agent = self.start_agent("127.0.0.2")
        other = self.path("other.json")
        self.assertEqual(self.run_cli("agent-secret", "--file", other).returncode, 0)
        members = self.on(worker=[agent])[:-2]
        line = self.failure_of(*members, "--secret-file", other, "--", "true", code=69)
        self.assertRegex(line, f"^millrace: worker:0 .* what listens on {agent.address} does not have the "
                               "certificate of the agents' secret: .*nothing was sent to it$")
        with open(self.secret, encoding="utf-8") as ours, open(other, encoding="utf-8") as theirs:
            mixed = {**json.load(ours), "token": json.load(theirs)["token"]}
        file = self.write("mixed.json", json.dumps(mixed), 0o600)
        line = self.failure_of(*members, "--secret-file", file, "--", "true", code=69)
        self.assertRegex(line, f"the agent at {agent.address} refused this driver: the token is not "
                               "that of this agent's secret.*; give both the same secret$")
        wait_for(lambda: agent.said("refused ipv4:127.0.0.1"), "the agent's word of it")
        self.assertEqual(len(agent.said("the token is not that of this agent's secret")), 1)

    def test_a_port_that_is_blocked_is_told(self):
        with socket.socket() as silent, socket.socket() as full:
            silent.bind(("127.0.0.2", 0))
            silent.listen(16)  # connections come, and nobody speaks
            full.bind(("127.0.0.3", 0))
            full.listen(0)
            waiting = []
            for _ in range(64):  # until what comes is dropped, as by a firewall
                client = socket.socket()
                self.addCleanup(client.close)
                client.settimeout(0.5)
                waiting.append(client)
                try:
                    client.connect(full.getsockname())
                except TimeoutError:
                    break
            addresses = ["%s:%d" % server.getsockname() for server in (silent, full)]
            line = self.failure_of(
                "--on", "static", "--members", json.dumps({"worker": addresses}),
                "--secret-file", self.secret, "--reservation-timeout", "20s", "--", "true", code=75)
            self.assertRegex(
                line, "^millrace: 2 of 2 slots did not arrive in 2[^ ]* s: worker:0 .*: "
                      f"'no word from what listens on {addresses[0]}, though it takes connections: is it an agent"
                      ".*; worker:1 .*"  # a busy kernel may reset one of the connections first
                      f"'no answer from {addresses[1]} in 5 s: is the port open between the driver and that host")

    def test_an_agent_that_cannot_dial_back_says_so(self):
        agent = self.start_agent("127.0.0.2")
        line = self.failure_of(*self.on(worker=[agent]), "--bind-address", "127.0.0.1", "--driver-host",
                               "127.0.0.9", "--", "true", code=69)
        self.assertRegex(line, "^millrace: worker:0 .*127\\.0\\.0\\.9:[0-9]+")
        wait_for(lambda: agent.said("free again"), "the agent free again")

    def test_options_that_make_no_sense_are_told(self):
        for args, words in (
            (["--on", "static", "--members", "{}", "--", "true"], "secret"),
            (["--on", "nowhere", "--secret-file", self.secret, "--", "true"], "--on nowhere"),
            (["--on", "static", "--secret-file", self.secret, "--", "true"], "--members"),
            (["--members", "{}", "--", "true"], "--on"),
            (["--on", "static", "--members", '{"cook": ["h:1"]}', "--secret-file", self.secret,
              "--", "true"], "'cook'"),
            (["--resumable", "state", "--", "true"], "--on SOURCE"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--secret-file", self.secret,
              "--resume-within", "1m", "--", "true"], "--resumable FOLDER"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--secret-file", self.secret,
              "--on-sigterm", "leave", "--", "true"], "--resumable FOLDER"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--secret-file", self.secret,
              "--resumable", "state", "--on-sigterm", "stay", "--", "true"], "--on-sigterm"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--secret-file", self.secret,
              "--resumable", "state", "--resume-within", "1ms", "--", "true"], "--resume-within must be"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--num-ps", "1",
              "--secret-file", self.secret, "--", "true"], "-n"),
        ):
            with self.subTest(args=args):
                done = self.run_cli("run", *args)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertIn(words, done.stderr)
        few = self.run_cli("run", "-n", "2", *self.on(worker=[self.start_agent("127.0.0.2")]), "--",
                           "true")
        self.assertNotEqual(few.returncode, 0)
        self.assertIn("names no worker:1", few.stderr)


if __name__ == "__main__":
    unittest.main()
