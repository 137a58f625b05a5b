"""A node program, built as projects of others build it, on a host that has the C and C++ libraries and nothing else.

The driver runs as it is; the agents that it starts, and their nodes, run in a root folder of their own.
"""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

from consumer_testing import EVERYWHERE, RESULT, needed

FOLDER = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
DRIVER = os.path.join(FOLDER, "testing/consumer/centroids")
NODE = os.path.join(FOLDER, "testing/consumer/centroids_node")
AGENT = os.path.join(FOLDER, "core/agent/millrace-agent")
ROWS = [os.path.join(FOLDER, "testing/consumer", name) for name in ("train.csv", "test.csv")]

# Where administrators' programs are, which is not in everybody's PATH.
PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"


def defines_abseil(program):
    """Whether functions of Abseil that are in its libraries, not in its headers, are part of the program."""
    symbols = subprocess.run(["nm", "-C", "--defined-only", program], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    return re.search(r" T absl::(\w+::)?Mutex::Lock\(\)", symbols) is not None


class LinkTest(unittest.TestCase):
    def test_a_node_program_needs_the_c_and_cpp_libraries_alone(self):
        self.assertIn("libc.so.6", needed(NODE))
        self.assertLessEqual(needed(NODE), EVERYWHERE)
        self.assertTrue(defines_abseil(NODE))

    def test_a_program_with_grpc_has_one_abseil(self):
        self.assertIn("libabsl_synchronization.so.20220623", needed(DRIVER))
        self.assertFalse(defines_abseil(DRIVER))


class OtherHostTest(unittest.TestCase):
    def setUp(self):
        self.namespace = ["unshare", "--map-root-user", "--mount"]
        done = subprocess.run(self.namespace + ["chroot", "/", "true"], env={"PATH": PATH}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            self.skipTest("this machine does not allow mount namespaces: " + done.stdout)
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.root = os.path.join(self.folder, "root")
        for name in ("proc", "dev", "tmp"):
            os.makedirs(os.path.join(self.root, name))
        libraries = subprocess.run(["ldd", NODE], stdout=subprocess.PIPE, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", libraries):
            self.assertIn(os.path.basename(path), EVERYWHERE)
            self.put(path, path)
        self.put(AGENT, "/millrace-agent")

    def put(self, path, to):
        to = self.root + to
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(path, to)

    def script(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\nset -e\n{text}\n")
        os.chmod(path, 0o755)
        return path

    def test_it_runs_there(self):
        agent = self.script("agent", f'exec env TMPDIR=/tmp chroot "{self.root}" /millrace-agent "$@"')
        driver = self.script("driver", f'mount --rbind /proc "{self.root}/proc"\n'
                                       f'mount --rbind /dev "{self.root}/dev"\n'
                                       f'exec "{DRIVER}" "$@"')
        home = os.path.join(self.folder, "home")
        working = self.root + home  # the driver's working folder is that of its nodes, wherever they are
        os.makedirs(home)
        os.makedirs(working)
        environment = {"HOME": home, "PATH": PATH, "MILLRACE_AGENT": agent}
        done = subprocess.run(self.namespace + [driver, NODE] + ROWS, cwd=home, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
        print(done.stdout)
        self.assertEqual(done.returncode, 0)
        self.assertIn(RESULT, done.stdout.splitlines())


if __name__ == "__main__":
    unittest.main()
