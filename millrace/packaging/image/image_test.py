"""The image as those read it who run it: every blob is what its descriptor says, and its programs run as its user, in a
root that has nothing else and that nobody can write to.

    image_test.py IMAGE.tar
"""

import io
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import unittest

import build_image
import container
import container_image
import oci_image
from eventually import wait_for

_ARCHIVE = os.path.abspath(sys.argv.pop(1))


class LayoutTest(unittest.TestCase):
    def test_every_blob_is_what_its_descriptor_says_and_none_is_left_over(self):
        layout = oci_image.Layout(_ARCHIVE)
        described, config, _ = layout.read()
        self.assertEqual(described["platform"], {"architecture": "amd64", "os": "linux"})
        name = "millrace:" + config["config"]["Labels"]["org.opencontainers.image.version"]
        self.assertEqual(described["annotations"]["org.opencontainers.image.ref.name"], name)
        self.assertEqual(described["annotations"]["io.containerd.image.name"], f"docker.io/library/{name}")
        self.assertEqual((config["architecture"], config["os"]), ("amd64", "linux"))
        self.assertEqual(config["config"]["User"], "65532:65532")
        self.assertEqual(set(layout.files), layout.read_blobs | {"oci-layout", "index.json"})

    def test_a_blob_that_is_not_what_its_descriptor_says_is_refused(self):
        layout = oci_image.Layout(_ARCHIVE)
        layout.read()
        for name in layout.read_blobs:
            content = layout.files[name]
            layout.files[name] = content[:-1] + bytes([content[-1] ^ 1])
            with self.assertRaises(oci_image.BadImage):
                layout.read()
            layout.files[name] = content

    def test_the_layer_is_roots_and_of_no_time_and_nobody_becomes_another_by_it(self):
        _, _, (layer,) = oci_image.Layout(_ARCHIVE).read()
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            members = tar.getmembers()
        self.assertEqual(len({m.name for m in members}), len(members))
        for member in members:
            self.assertEqual((member.uid, member.gid, member.mtime, member.uname), (0, 0, 0, ""), member.name)
            self.assertFalse(member.mode & 0o6000, member.name)
            self.assertFalse(member.name.startswith("/") or ".." in member.name.split("/"), member.name)
            if not member.issym() and member.name != "tmp":
                self.assertFalse(member.mode & 0o022, member.name)

    def test_its_bytes_depend_on_what_goes_in_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "program")
            made = []
            for time, umask in [(1, 0o022), (1_700_000_000, 0o077)]:
                old = os.umask(umask)
                program.write_bytes(b"#!/bin/sh\n")
                program.chmod(0o700)
                os.utime(program, (time, time))
                out = pathlib.Path(folder, f"image-{time}.tar")
                arguments = ["--version=1", f"--out={out}", f"--program=usr/bin/x={program}"]
                subprocess.run([sys.executable, build_image.__file__, *arguments], check=True, cwd=folder)
                made.append(out.read_bytes())
                os.umask(old)
            self.assertEqual(made[0], made[1])
            program.write_bytes(b"#!/bin/bash\n")
            subprocess.run([sys.executable, build_image.__file__, *arguments], check=True, cwd=folder)
            self.assertNotEqual(made[0], out.read_bytes())


class RunTest(unittest.TestCase):
    def setUp(self):
        if why := container_image.unavailable():
            self.skipTest(why)
        folder = tempfile.TemporaryDirectory(prefix="image-")
        self.addCleanup(folder.cleanup)
        self._folder = pathlib.Path(folder.name)
        self._image = oci_image.unpack(_ARCHIVE, self._folder / "root")
        self._writable = self._folder / "tmp"
        self._writable.mkdir()
        self._writable.chmod(0o1777)
        self._started = 0

    def _start(self, argv, mounts=()):
        """A container of the image; its output goes to a file, which is returned too."""
        self._started += 1
        description = self._folder / f"{self._started}.json"
        writable = {"source": str(self._writable), "at": "/tmp", "writable": True}
        description.write_text(json.dumps({
            "host": "container",
            "root": str(self._image.root),
            "mounts": [writable, {"source": "/dev", "at": "/dev", "writable": True}, *mounts],
            "read_only": True,
            "user": self._image.user,
            "group": self._image.user,
            "groups": [],
            "folder": "/",
            "argv": argv,
            "environment": self._image.environment,
        }))  # fmt: skip
        log = self._folder / f"{self._started}.log"
        with open(log, "wb") as out:
            command = [sys.executable, "-I", container.__file__, description]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.addCleanup(lambda: (process.kill(), process.wait()))
        return process, log

    def _run(self, *argv, **options):
        process, log = self._start(list(argv), **options)
        code = process.wait(120)
        text = log.read_text(encoding="utf-8")
        self.assertEqual(code, 0, text)
        return text

    def test_every_program_of_it_runs(self):
        for program in ("millrace", "millrace-agent"):
            self.assertRegex(self._run(program, "--version"), r"^millrace")
        self.assertIn("millrace-gpu", self._run("millrace-gpu", "--help"))

    def test_its_command_waits_for_drivers_and_ends_when_it_is_asked_to(self):
        self._run("millrace", "agent-secret", "--dir", "/tmp/secret")
        secret = {"source": str(self._writable / "secret"), "at": "/etc/millrace"}
        command = [word.replace("0.0.0.0:7077", "127.0.0.1:0") for word in self._image.command]
        self.assertNotEqual(command, self._image.command)
        agent, log = self._start(command, [secret])
        address = wait_for(lambda: re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text()), "the agent listens")
        members = json.dumps({"worker": [address.group(1)]})
        ran = self._run(
            "millrace", "run", "--on", "static", "--members", members, "--secret-dir", "/etc/millrace", "--",
            "millrace", "--version", mounts=[secret],
        )  # fmt: skip
        self.assertRegex(ran, r"(?m)^worker:0\| millrace")
        agent.send_signal(signal.SIGTERM)
        self.assertIn(agent.wait(60), (0, 143))


if __name__ == "__main__":
    unittest.main()
