"""The commands of README.md, docs/cli.md and docs/hosts.md, run as they stand there.

A page that gains a command of millrace fails here until the command is run, or has a reason not to be.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import unittest

from cli_testing import WAIT_S, CliTestCase, millrace_path

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
PAGES = ("README.md", "docs/cli.md", "docs/hosts.md")

# What the pages call train.py: worker:1 ends like the one of the README with "fail" beside it.
TRAIN = """\
import os, sys, time
print("epoch 1: loss 0.41", flush=True)
if os.environ.get("RANK") == "0":
    open("chief.spoke", "w").close()
if os.path.exists("fail") and os.environ.get("RANK") == "2":
    while not os.path.exists("chief.spoke"):
        time.sleep(0.05)
    sys.stderr.write("out of cheese\\n")
    sys.exit(3)
if os.path.exists("fail") or "RANK" not in os.environ:
    time.sleep(600)
"""

# Why a command cannot be run here, by what stands in it.
NEEDS = {
    "top --once": "a cluster that runs; //core/cli/top:top_test",
    "metrics --port": "somebody who ends it; //core/cli/metrics:metrics_test",
    "--on static": "agents on hosts named so; //core/cli:run_on_test",
    "--on kubernetes": "an API server; //examples/kubernetes",
    "--on slurm": "Slurm; //core/cli:run_on_test",
    "millrace srun": "a Slurm job; //core/cli/slurm:srun_test",
    "resolve kubernetes": "an API server; //core/cli:resolve_kubernetes_test",
    "resolve spark": "a Spark application; //core/cli:resolve_test",
}


def commands_of(page):
    """The lines of a page that begin with a prompt and millrace, continued lines joined."""
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    found = re.findall(r"(?m)^ *(?:[a-z0-9]+ )?\$ (millrace .*)$", text)
    return [re.sub(r"\s+", " ", command.split("  #")[0]).strip() for command in found]


class DocsTest(CliTestCase):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.symlink(millrace_path(), self.path("bin/millrace"))
        os.symlink(sys.executable, self.path("bin/python3"))
        self.env["PATH"] = self.path("bin") + os.pathsep + self.env.get("PATH", "/usr/bin:/bin")
        self.env["MILLRACE_AGENT"] = os.path.join(ROOT, "core", "agent", "millrace-agent")
        shutil.copytree(os.path.join(ROOT, "examples", "env_only"), self.path("examples/env_only"))
        self.write("train.py", TRAIN)

    def shell(self, command):
        return subprocess.run(
            ["sh", "-c", command], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=WAIT_S, check=False)

    def check(self, command):
        """Runs it; its page's words are held to what it prints."""
        if command.endswith("; echo $?"):  # the one that fails
            self.write("fail", "")
            done = self.shell(command)
            for name in ("fail", "chief.spoke"):
                os.remove(self.path(name))
            self.assertEqual(done.stdout.splitlines()[-1], "3", done.stderr)
            self.assertIn("chief:0| epoch 1: loss 0.41\n", done.stdout)
            self.assertRegex(
                done.stderr, r"(?m)^millrace: worker:1 \(executor 3, attempt 0, host .*, pid \d+\) exited with "
                             r"code 3.* Last stderr line: 'out of cheese'$")
            return
        done = self.shell(command)
        self.assertEqual(done.returncode, 0, f"{command}: {done.stderr}")
        if "allreduce.py" in command:
            for rank in range(3):
                self.assertIn(f"worker:{rank}| step 0: rank {rank} of 3, sum 6\n", done.stdout)
        elif "train.py" in command:
            self.assertIn("chief:0| epoch 1: loss 0.41\n", done.stdout)
        elif "agent-secret --file" in command:
            secret = self.path(command.split()[-1])
            self.assertEqual(stat.S_IMODE(os.stat(secret).st_mode), 0o600)
            os.remove(secret)
        elif "doctor" in command:
            self.assertRegex(done.stdout, r"(?m)^ok +limits +descriptors, processes, .* suffice for 16 nodes$")
        else:
            self.fail(f"say here what {command} must do")

    def test_every_command_of_the_pages(self):
        for page in PAGES:
            commands = commands_of(page)
            self.assertTrue(commands, page)
            for command in commands:
                with self.subTest(page=page, command=command):
                    if not any(words in command for words in NEEDS):
                        self.check(command)

    def test_what_cannot_be_run_is_on_a_page(self):
        everything = "\n".join("\n".join(commands_of(page)) for page in PAGES)
        for words in NEEDS:
            if words != "--on slurm":  # named in a sentence
                self.assertIn(words, everything)

    def test_the_commands_for_another_terminal(self):
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
            sentence = re.search(r"From another terminal: (.*?), each with", file.read()).group(1)
        named = [re.sub(r"^millrace ", "", words) for words in re.findall(r"`([^`]+)`", sentence)]
        self.assertEqual(named[:4], ["status", "nodes", "events -f", "logs -f worker:1"])
        for words in named:
            with self.subTest(words=words):
                done = self.shell(f"millrace {words} --help")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(f"usage: millrace {words.split()[0]} ", done.stdout)
        process = self.start_cli("run", "-n", "2", "--", "sh", "-c",
                                 "echo up; while [ ! -e end ]; do sleep 0.05; done")
        self.assertTrue(process.stdout.readline())
        self.assertEqual(self.shell("millrace status").returncode, 0)
        self.assertEqual(self.shell("millrace nodes").returncode, 0)
        # What follows ends with its cluster.
        followers = [self.start_cli(*words.split()) for words in ("events -f", "logs -f worker:1")]
        for follower in followers:
            self.assertTrue(follower.stdout.readline())
        self.write("end", "")
        for follower in followers:
            _, err = follower.communicate(timeout=WAIT_S)
            self.assertEqual(follower.returncode, 0, err)


if __name__ == "__main__":
    unittest.main()
