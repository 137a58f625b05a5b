"""A window that a person has left open, on a screen of its own: clusters come, die and come again; one speaks
another version."""

import contextlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

from dashboard_testing import PROGRAM, ROOT, WAIT_S, count_of, display, environment, read_screen, run
from eventually import wait_for

# As dashboard/views/theme.cc has them.
GREEN, RED = 0x3FB56B, 0xE5534B
MANY = 3000  # pixels of the cells of two nodes, by far


class WindowTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.clusters = self.path("clusters")

    def path(self, name):
        return os.path.join(self.folder, name)

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WAIT_S)

    def window(self, screen, *arguments):
        """What it writes goes to a file, for wait_until_said, and is shown at the end."""
        with open(self.path("said"), "wb") as said:
            process = subprocess.Popen(
                [PROGRAM, "--size", "1280x720", *arguments],
                env=environment(screen, MILLRACE_CLUSTERS_DIR=self.clusters), stdout=subprocess.DEVNULL, stderr=said,
            )
        self.addCleanup(self.tell)
        self.addCleanup(self.end, process)
        return process

    def lines(self):
        with open(self.path("said"), encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")[:-1]

    def tell(self):
        print("the window wrote", self.lines())

    def wait_until_said(self, window, text):
        """Waits until the window has written a line of its own with `text`, whatever its libraries write beside it."""

        def said():
            ended = window.poll() is not None
            found = any(line.startswith("millrace-dashboard: ") and text in line for line in self.lines())
            self.assertFalse(ended and not found, "the window has ended")
            return found

        wait_for(said, f"a line with {text!r}")

    def cluster(self):
        """Starts two nodes that do nothing; returns the driver."""
        driver = subprocess.Popen(
            [os.path.join(ROOT, "core/cli/millrace"), "run", "-n", "2", "--output", "none", "--", sys.executable, "-c",
             "import time; time.sleep(3600)"],
            env=environment(MILLRACE_CLUSTERS_DIR=self.clusters, TMPDIR=self.folder), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        self.addCleanup(driver.wait, WAIT_S)
        self.addCleanup(driver.terminate)
        return driver

    def shown(self, color):
        """Pixels of a colour below the status bar, of the panels in the middle."""
        return count_of([row[300 * 3 : 980 * 3] for row in read_screen(self.folder)[60:540]], color)


@unittest.skipUnless(shutil.which("Xvfb"), "Xvfb is not installed (Debian package xvfb)")
class LeftOpenTest(WindowTestCase):
    def test_clusters_that_come_and_die_are_shown(self):
        with display("1280x720", self.folder) as screen:
            window = self.window(screen)
            # A page of text, and nothing that is green.
            wait_for(lambda: count_of(read_screen(self.folder), 0xD7DDE5, 40) > 500, "a page that says what to do")
            self.assertEqual(self.shown(GREEN), 0)
            first = self.cluster()
            wait_for(lambda: self.shown(GREEN) > MANY, "the first cluster runs")
            first.kill()  # no word to anybody
            self.wait_until_said(window, "its driver has ended")
            wait_for(lambda: count_of(read_screen(self.folder)[:80], RED, 60) > 20, "a red line")
            # What was alive a moment ago is no longer drawn as if it were.
            wait_for(lambda: self.shown(GREEN) < MANY // 2, "values that are greyed")
            self.cluster()
            wait_for(lambda: self.shown(GREEN) > MANY, "the second cluster runs")
            self.assertIsNone(window.poll())


class OtherVersion:
    """Answers as a gRPC server does that has no such service: HTTP/2 over TLS, status 12."""

    def __init__(self, certificate, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.set_alpn_protocols(["h2"])
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    @staticmethod
    def header(name, value):
        return bytes([0, len(name)]) + name + bytes([len(value)]) + value

    def serve(self, connection):
        with contextlib.suppress(OSError), self.context.wrap_socket(connection, server_side=True) as tls:
            data = b""

            def read(size):
                nonlocal data
                while len(data) < size:
                    if not (more := tls.recv(65536)):
                        raise ConnectionError("closed")
                    data += more
                taken, data = data[:size], data[size:]
                return taken

            tls.sendall(self.frame(4, 0, 0))  # SETTINGS
            read(24)  # the preface
            while True:
                head = read(9)
                size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                stream = int.from_bytes(head[5:], "big")
                payload = read(size)
                if kind == 4 and not flags & 1:
                    tls.sendall(self.frame(4, 1, 0))
                elif kind == 6 and not flags & 1:
                    tls.sendall(self.frame(6, 1, 0, payload))
                elif kind == 1:
                    answer = b"\x88" + self.header(b"content-type", b"application/grpc")
                    tls.sendall(self.frame(1, 5, stream, answer + self.header(b"grpc-status", b"12")))

    def close(self):
        self.listener.close()


@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class OtherVersionTest(WindowTestCase):
    def setUp(self):
        super().setUp()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             "/CN=millrace", "-addext", "subjectAltName=DNS:millrace", "-keyout", self.path("key"), "-out",
             self.path("ca")],
            check=True, capture_output=True,
        )
        with open(self.path("token"), "w", encoding="utf-8") as file:
            file.write("x" * 43)
        server = OtherVersion(self.path("ca"), self.path("key"))
        self.addCleanup(server.close)
        with open(self.path("identity"), "w", encoding="utf-8") as identity:
            for part in ("key", "ca"):
                with open(self.path(part), encoding="utf-8") as file:
                    identity.write(file.read())
        self.arguments = ["--connect", server.address, "--token-file", self.path("token"), "--ca", self.path("ca"),
                          "--identity", self.path("identity")]

    def test_another_version_is_said_in_one_line(self):
        ran = run([*self.arguments, "--dump-json"])
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        self.assertIn("speaks another version of Millrace's protocol", ran.stderr)
        self.assertNotIn("x" * 43, ran.stderr)

    @unittest.skipUnless(shutil.which("Xvfb"), "Xvfb is not installed (Debian package xvfb)")
    def test_the_window_stays_and_says_so(self):
        with display("1280x720", self.folder) as screen:
            window = self.window(screen, *self.arguments)
            self.wait_until_said(window, "speaks another version of Millrace's protocol")
            wait_for(lambda: count_of(read_screen(self.folder)[:80], RED, 60) > 20, "a red line")
            self.assertIsNone(window.poll())


if __name__ == "__main__":
    unittest.main()
