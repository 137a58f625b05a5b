"""`millrace doctor`: what it says of this machine, of machines that lack something, and of agents."""

import json
import os
import signal
import socket
import subprocess
import unittest

from agents_testing import AgentsTestCase
from cli_testing import CliTestCase, millrace_path
from eventually import wait_for

_ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
_FAKE_NVML = os.path.join(_ROOT, "testing/fake_nvml/libfake_nvml.so")
_SUBJECTS = ["limits", "processors", "memory", "shared memory", "temporary files", "cluster files", "clock",
             "millrace-agent", "GPUs"]  # fmt: skip


class DoctorCase(CliTestCase):
    def findings(self, *args, before=(), env=None):
        """By subject, or by address."""
        done = subprocess.run(
            [*before, millrace_path(), "doctor", "--json", *args], env={**self.env, **(env or {})}, cwd=self.folder,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        self.assertEqual(done.stderr, "")
        found = json.loads(done.stdout)["findings"]
        problems = [each for each in found if each["level"] == "problem"]
        self.assertEqual(done.returncode, 70 if problems else 0, found)
        self.said = [each["where"] or each["subject"] for each in found]
        return dict(zip(self.said, found))


class MachineTest(DoctorCase):
    def test_this_machine_is_well(self):
        found = self.findings()
        self.assertEqual(self.said, _SUBJECTS)
        for subject in ("limits", "shared memory", "temporary files", "cluster files", "millrace-agent"):
            self.assertEqual(found[subject]["level"], "ok", found[subject])
            self.assertIsNone(found[subject]["advice"])
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertFalse(os.path.exists(self.path("clusters")))

    def test_people_get_a_line_for_each(self):
        done = self.run_cli("doctor")
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), len(_SUBJECTS))
        for line, subject in zip(lines, _SUBJECTS):
            self.assertRegex(line, rf"^(ok|warning|problem) +{subject}  +\S")
        self.assertNotIn("\033", done.stdout)

    def test_limits_that_do_not_suffice_name_ulimit(self):
        found = self.findings("-n", "64", before=["sh", "-c", 'ulimit -n 100; exec "$@"', "sh"])
        self.assertEqual(found["limits"]["level"], "problem")
        self.assertIn("ulimit -n 360", found["limits"]["text"])

    def test_more_nodes_than_processors_and_memory_are_good_for(self):
        found = self.findings("-n", "100000")
        self.assertEqual(found["processors"]["level"], "warning")
        self.assertIn("for 100000 nodes", found["processors"]["text"])
        self.assertEqual(found["memory"]["level"], "warning")
        self.assertIn("256.0 MiB for each node", found["memory"]["advice"])

    def test_a_folder_for_temporary_files_that_is_not_there(self):
        found = self.findings(env={"TMPDIR": self.path("nowhere")})
        self.assertEqual(found["temporary files"]["level"], "problem")
        self.assertIn(self.path("nowhere"), found["temporary files"]["text"])
        self.assertIn("TMPDIR", found["temporary files"]["advice"])

    def test_cluster_files_need_a_folder_that_nobody_else_can_read(self):
        os.mkdir(self.path("clusters"))
        os.chmod(self.path("clusters"), 0o755)
        found = self.findings()
        self.assertEqual(found["cluster files"]["level"], "warning")
        self.assertIn("chmod 700", found["cluster files"]["text"])
        found = self.findings(before=["env", "-u", "HOME", "-u", "MILLRACE_CLUSTERS_DIR"])
        self.assertIn("MILLRACE_CLUSTERS_DIR", found["cluster files"]["text"])

    def test_no_agent_and_one_of_another_release(self):
        found = self.findings(env={"MILLRACE_AGENT": self.path("nowhere")})
        self.assertEqual(found["millrace-agent"]["level"], "problem")
        self.assertIn(self.path("nowhere"), found["millrace-agent"]["text"])
        agent = self.write("millrace-agent", "#!/bin/sh\necho 'millrace-agent 0.0.9 (gcc)'\n", mode=0o755)
        found = self.findings(env={"MILLRACE_AGENT": agent})
        self.assertEqual(found["millrace-agent"]["level"], "warning")
        self.assertIn("version 0.0.9", found["millrace-agent"]["text"])

    def test_no_loopback(self):
        alone = ["unshare", "--net", "--map-root-user"]
        if subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("this machine does not allow network namespaces")
        found = self.findings(before=alone)
        self.assertIn("ip link set lo up", found["limits"]["text"])

    def test_the_output_has_to_be_written(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = self.run_cli("doctor", stdout=full)
        self.assertEqual(done.returncode, 70)
        self.assertIn("No space left", done.stderr)


class GpuTest(DoctorCase):
    def gpus(self, script):
        path = self.write("gpus", script)
        return self.findings(env={"MILLRACE_NVML_LIBRARY": _FAKE_NVML, "FAKE_NVML_SCRIPT": path})["GPUs"]

    def test_gpus_are_counted(self):
        found = self.gpus("driver 550.54.15\nnvml 12\ngpu 0 uuid=GPU-1 name=A\ngpu 1 uuid=GPU-2 name=A\n")
        self.assertEqual((found["level"], found["text"]), ("ok", "2 GPUs, driver 550.54.15"))

    def test_none_is_no_problem(self):
        found = self.findings(env={"MILLRACE_NVML_LIBRARY": self.path("nowhere.so")})["GPUs"]
        self.assertEqual(found["level"], "ok")
        self.assertIn("nowhere.so", found["text"])

    def test_one_that_is_lost_and_one_that_hangs(self):
        gpu = "driver 550.54.15\nnvml 12\ngpu 0 uuid=GPU-1 name=A\n"
        for fault, says in (("lost 0", "GPU 0"), ("hang 0 nvmlDeviceGetUtilizationRates", "GPU 0")):
            found = self.gpus(gpu + fault + "\n")
            self.assertEqual(found["level"], "problem", found)
            self.assertIn(says, found["text"])
            self.assertIn("nvidia-smi", found["advice"])


class AgentsTest(AgentsTestCase, DoctorCase):
    def ask(self, *addresses, secret=None, timeout="20s"):
        members = json.dumps({"worker": list(addresses)})
        return self.findings(
            "--on", "static", "--members", members, "--secret-file", secret or self.secret, "--timeout", timeout
        )

    def test_agents_that_are_free_stay_free(self):
        agents = [self.start_agent("127.0.0.2"), self.start_agent("127.0.0.3")]
        addresses = [agent.address for agent in agents]
        for _ in range(2):
            found = self.ask(*addresses)
            self.assertEqual(self.said, [*_SUBJECTS, "secret", "members", *addresses])
            for number, address in enumerate(addresses):
                self.assertEqual(found[address]["level"], "ok", found[address])
                self.assertEqual(found[address]["subject"], f"worker:{number}")
                self.assertRegex(
                    found[address]["text"], r"^free, version [0-9.]+, on host \S+, sees this driver as 127\."
                )
        ran = self.run_cli("run", "--on", "static", "--members", json.dumps({"worker": addresses}),
                           "--secret-file", self.secret, "--", millrace_path(), "doctor")  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stderr)
        for number in (0, 1):
            self.assertIn(f"worker:{number}| ok       limits", ran.stdout)

    def test_one_that_serves_a_cluster_is_left_alone(self):
        agent = self.start_agent("127.0.0.2")
        members = json.dumps({"worker": [agent.address]})
        driver = self.start_cli("run", "--on", "static", "--members", members, "--secret-file", self.secret, "--",
                                "sleep", "600")  # fmt: skip
        wait_for(lambda: agent.said("adopted as"), "the agent is adopted")
        found = self.ask(agent.address)
        self.assertEqual(found[agent.address]["level"], "ok")
        self.assertIn("is taken", found[agent.address]["text"])
        self.assertIsNone(driver.poll())
        driver.send_signal(signal.SIGTERM)
        self.assertEqual(driver.wait(), 143)

    def test_what_is_in_the_way_is_said_of_each(self):
        agent = self.start_agent("127.0.0.2")
        with socket.socket() as silent, socket.socket() as free:
            silent.bind(("127.0.0.2", 0))
            silent.listen()
            free.bind(("127.0.0.2", 0))
            mute = f"127.0.0.2:{silent.getsockname()[1]}"
            nobody = f"127.0.0.2:{free.getsockname()[1]}"
            found = self.ask(agent.address, nobody, mute, "no-such-host.invalid:7077", timeout="3s")
        self.assertEqual(found[agent.address]["level"], "ok")
        for address, says in ((nobody, "nobody listens on"), (mute, "no answer within 3.0 s"),
                              ("no-such-host.invalid:7077", "no-such-host.invalid")):  # fmt: skip
            self.assertEqual(found[address]["level"], "problem", found[address])
            self.assertIn(says, found[address]["text"])

    def test_secrets(self):
        agent = self.start_agent("127.0.0.2")
        other = self.path("other.json")
        self.assertEqual(self.run_cli("agent-secret", "--file", other).returncode, 0)
        self.assertIn("another secret", self.ask(agent.address, secret=other)[agent.address]["text"])
        self.assertEqual(self.run_cli("agent-secret", "--file", other, "--replace", "--valid", "48h").returncode, 0)
        self.assertEqual(self.ask(agent.address, secret=other)["secret"]["level"], "warning")
        found = self.ask(agent.address, secret=self.path("nowhere"))
        self.assertEqual(found["secret"]["level"], "problem")
        self.assertEqual(found["members"]["level"], "ok")

    def test_members_that_cannot_be_had(self):
        found = self.findings("--on", '{"type": "tf_config"}', "--secret-file", self.secret)
        self.assertEqual(found["members"]["level"], "problem")

    def test_options_that_go_together(self):
        for args, says in (
            (["--on", "static", "--members", "{}"], "--secret-file"),
            (["--secret-file", self.secret], "is for --on SOURCE"),
            (["--on", "static", "--members", '{"worker": ["h:1"]}', "--secret-file", self.secret, "-n", "2"],
             "-n is for nodes on this machine"),
        ):  # fmt: skip
            done = self.run_cli("doctor", *args)
            self.assertEqual(done.returncode, 64, done.stdout)
            self.assertIn(says, done.stderr)


del DoctorCase  # its subclasses are what runs

if __name__ == "__main__":
    unittest.main()
