"""Which processes an interrupt of a terminal or a notebook reaches."""

import json
import os
import signal
import subprocess
import unittest

ROOT = os.path.join(os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"], "millrace")
AGENT = os.path.join(ROOT, "core", "agent", "millrace-agent")


class Child:
    """A millrace-agent of this process."""

    def __init__(self, *args):
        self.process = subprocess.Popen(
            [AGENT, *args, "--parent=stdin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = json.loads(self.process.stdout.readline())["pid"]

    def call(self, method, params):
        self.process.stdin.write(json.dumps({"id": 1, "method": method, "params": params}) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            reply = json.loads(line)
            if "id" in reply:
                return reply
        raise AssertionError(f"{self.process.args} ended without an answer")

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


class SessionTest(unittest.TestCase):
    def test_a_coordinator_has_a_session_of_its_own_and_outlives_an_interrupt(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # this process is in the group too
        self.addCleanup(signal.signal, signal.SIGINT, before)
        child = Child("coordinator")
        self.assertEqual(child.pid, os.getsid(child.pid))
        self.assertNotEqual(os.getpgid(0), os.getpgid(child.pid))
        reply = child.call("start", {"program": "/bin/true"})
        self.assertIn("result", reply)
        os.killpg(os.getpgid(0), signal.SIGINT)
        self.assertIn("result", child.call("status", {}))
        self.assertEqual(0, child.end(), "the end of stdin ends it")

    def test_the_others_stay_with_their_parent_unless_they_are_told(self):
        for mode in ("agent", "gateway"):
            child = Child(mode)
            self.assertEqual(os.getpgid(0), os.getpgid(child.pid))
            self.assertEqual(os.getsid(0), os.getsid(child.pid))
            self.assertEqual(0, child.end())
            child = Child(mode, "--new-session")
            self.assertEqual(child.pid, os.getsid(child.pid))
            self.assertEqual(0, child.end())


if __name__ == "__main__":
    os.setpgid(0, 0)  # whoever runs this test is not to be interrupted
    unittest.main()
