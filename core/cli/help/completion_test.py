"""The scripts of `millrace completion`, in the shells themselves: what they complete a command line to."""

import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import time
import unittest

MILLRACE = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace/core/cli/millrace")
PATIENCE_S = 60
# Lines, and what their last word is completed to among others.
CASES = {
    "millrace ": {"run", "kv", "resolve", "completion", "help"},
    "millrace sta": {"status"},
    "millrace help re": {"resolve", "restart"},
    "millrace kv ": {"get", "set", "list", "delete"},
    "millrace kv get --wa": {"--wait"},
    "millrace resolve k": {"kubernetes"},
    "millrace resolve kubernetes --kube": {"--kubeconfig"},
    "millrace run --num": {"--num-executors", "--num-ps"},
    "millrace run -n 2 --output ": {"prefixed", "raw", "none"},
    "millrace completion z": {"zsh"},
}
# What is not offered there.
OTHERS = {
    "millrace ": {"get", "kubernetes", "--num-ps"},
    "millrace kv get --wa": {"--watch"},
    "millrace run --num": {"--namespace"},
    "millrace run -n 2 --output ": {"status"},
}


def millrace(*arguments):
    return subprocess.run([MILLRACE, *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


class CompletionTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {"HOME": self.folder, "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb"}

    def script(self, shell, name):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed (Debian package {shell})")
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(millrace("completion", shell))
        return path

    def run_shell(self, *command):
        ran = subprocess.run(command, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), command)
        return ran.stdout.splitlines()

    def check(self, offered):
        """`offered` returns the words to which a line is completed."""
        for line, words in CASES.items():
            with self.subTest(line):
                found = set(offered(line))
                self.assertLessEqual(words, found)
                self.assertEqual(found & OTHERS.get(line, set()), set())

    def test_bash(self):
        script = self.script("bash", "millrace.bash")
        complete = ('source "$0"; shopt -u expand_aliases; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
                    '_millrace; printf "%s\\n" "${COMPREPLY[@]}"')

        def offered(line):
            return self.run_shell("bash", "--norc", "-uc", complete, script, *line.split(" "))

        self.check(offered)
        with open(os.path.join(self.folder, "hosts.json"), "w", encoding="utf-8"):
            pass
        # compopt does not work outside of a completion, and the script goes on without it.
        self.assertIn("hosts.json", offered("millrace run --secret-file ho"))
        self.assertIn("raw", offered("millrace run --output = r"))
        self.assertEqual(offered("millrace run -- --num"), [""])

    def test_fish(self):
        script = self.script("fish", "millrace.fish")

        def offered(line):
            told = self.run_shell("fish", "--no-config", "-c", f"source {script}; complete -C '{line}'")
            return [word.partition("\t")[0] for word in told]

        self.check(offered)
        self.assertIn("end a cluster", "\n".join(
            self.run_shell("fish", "--no-config", "-c", f"source {script}; complete -C 'millrace st'")))

    def test_zsh(self):
        script = self.script("zsh", "_millrace")
        self.assertEqual(self.run_shell("zsh", "-fn", script), [])
        terminal, child = pty.openpty()
        self.addCleanup(os.close, terminal)
        shell = subprocess.Popen(["zsh", "-f", "-i"], env={**self.environment, "COLUMNS": "200", "LINES": "50"},
                                 cwd=self.folder, stdin=child, stdout=child, stderr=child, start_new_session=True)
        os.close(child)
        self.addCleanup(shell.wait)
        self.addCleanup(shell.kill)
        self.said = ""

        def wait_for(pattern):
            deadline = time.monotonic() + PATIENCE_S
            while not re.search(pattern, self.said):
                left = deadline - time.monotonic()
                if left <= 0 or not select.select([terminal], [], [], left)[0]:
                    self.fail(f"zsh does not say {pattern!r}: {self.said!r}")
                self.said += os.read(terminal, 65536).decode(errors="replace")

        def type_in(text):
            self.said = ""
            os.write(terminal, text.encode())

        type_in(f"fpath=({self.folder} $fpath); autoload -Uz compinit && compinit -u -D; unset zle_bracketed_paste; "
                "PROMPT='rea''dy> '\n")
        wait_for(r"(?<!')ready> ")
        for line, word in {
            "millrace comple": "completion", "millrace kv dele": "delete", "millrace run --num-e": "--num-executors",
            "millrace resolve kubernetes --kubec": "--kubeconfig", "millrace run --output pre": "prefixed",
            "millrace completion zs": "zsh",
        }.items():  # fmt: skip
            with self.subTest(line):
                type_in(line + "\t")
                wait_for(re.escape(word))
                type_in("\x15")  # forget the line
                type_in("print -r 'next''one'\n")
                wait_for("nextone")

    def test_every_option_is_offered_by_each_script(self):
        commands = millrace("completion", "commands").splitlines()
        self.assertIn("kv get", commands)
        for shell, spelling in (("bash", "--{}"), ("fish", "-l {} "), ("zsh", "--{}[")):
            script = millrace("completion", shell)
            for command in commands:
                for option in re.findall(r"(?m)^ {2,6}(?:-\w, )?--([\w-]+)", millrace("help", *command.split())):
                    self.assertIn(spelling.format(option), script, f"{shell}: {command}")

    def test_a_shell_that_is_none(self):
        ran = subprocess.run([MILLRACE, "completion", "tcsh"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(ran.returncode, 64)
        self.assertIn("bash", ran.stderr)


if __name__ == "__main__":
    unittest.main()
