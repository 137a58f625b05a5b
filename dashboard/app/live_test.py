"""A running cluster in the window: pictures of the digits as they learn, what a window that stands still costs
its cluster, connections that are cut, and everything that can be wrong with a connection or a file."""

import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from dashboard_testing import PROGRAM, ROOT, WAIT_S, count_of, display, environment, read_png, run
from eventually import wait_for

# As dashboard/views/theme.cc has them.
GREEN, ACCENT, SERIES = 0x3FB56B, 0x4CC2FF, (0x4CC2FF, 0xF0A35E, 0x7AD17A, 0xD98CF0, 0xF2D35C, 0x5FD9C7)
# Viridis at 37% and 92%: what the fake GPUs are said to be used.
VIRIDIS = (0x2C728E, 0xD0E11C)
GPUS = "\n".join(
    ["driver 550.54.15", "nvml 12.550.54.15"]
    + [
        f"gpu {i} uuid=GPU-fake-{i} name=Fake_H100 bus=00000000:{3 + i}B:00.0 util={use} memory_util=5 "
        f"used=21474836480 total=85899345920 power=312345 limit=700000 temperature=55 sm=1980 max_sm=1980"
        for i, use in enumerate((37, 92))
    ]
)
# Counts its steps in a file that it maps; says each of them, so that whoever holds up its output holds it up.
STEPS = """
import mmap, os, struct, sys, time
path = sys.argv[1] + os.environ["RANK"]
with open(path, "wb") as file:
    file.write(bytes(8))
with open(path, "r+b") as file:
    count = mmap.mmap(file.fileno(), 8)
step = 0
while True:
    step += 1
    print("step", step, "x" * 200, flush=True)
    struct.pack_into("<Q", count, 0, step)
    time.sleep(0.001)
"""


class LiveTestCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.env = environment(MILLRACE_CLUSTERS_DIR=self.path("clusters"), TMPDIR=self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command, **more):
        """What it writes is told if it ends by itself."""
        with open(self.path("output"), "ab") as output:
            process = subprocess.Popen(
                command, env={**self.env, **more}, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        self.addCleanup(self.tell, process)
        self.addCleanup(self.end, process)
        return process

    def tell(self, process):
        if 0 < (process.returncode or 0) != 143:  # of itself, not since it was asked to
            with open(self.path("output"), "rb") as output:
                print(process.args[0], "ended with", process.returncode, output.read()[-2000:].decode(errors="replace"))

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait(timeout=WAIT_S)

    def dashboard(self, *arguments, screen=None):
        more = {"MILLRACE_CLUSTERS_DIR": self.path("clusters")}
        return run(list(arguments), screen, **more)

    def cluster_file(self):
        def found():
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(self.path("clusters")):
                    if name.endswith(".json"):
                        return self.path("clusters/" + name)
            return None

        return wait_for(found, "a cluster file")

    def running(self):
        """The model, once all nodes run."""

        def model():
            ran = self.dashboard("--dump-json")
            if ran.returncode != 0:
                return None
            model = json.loads(ran.stdout)
            return model if model["cluster"]["phase"] == "running" else None

        return wait_for(model, "the cluster runs")

    def wait_until_gone(self, pids):
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), f"processes {pids} are gone")


@unittest.skipUnless(shutil.which("Xvfb"), "Xvfb is not installed (Debian package xvfb)")
class DigitsTest(LiveTestCase):
    def shoot(self, screen, panel):
        path = self.path(panel + ".png")
        ran = self.dashboard(
            "--screenshot", path, "--panel", panel, "--zoom", "--size", "1280x720", "--after", "4s", screen=screen
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return read_png(path)[2][40:]

    def test_reservations_feed_metrics_and_gpus_of_the_digits_are_seen_live(self):
        with open(self.path("gpus"), "w", encoding="utf-8") as file:
            file.write(GPUS)
        driver = self.start(
            os.path.join(ROOT, "examples/digits/digits"), "--epochs", "100000", "--workers", "2",
            MILLRACE_NVML_LIBRARY=os.path.join(ROOT, "testing/fake_nvml/libfake_nvml.so"),
            FAKE_NVML_SCRIPT=self.path("gpus"),
        )
        model = self.running()
        pids = [node["pid"] for node in model["nodes"]]

        def learns():
            ran = self.dashboard("--dump-json", "--after", "3s")
            model = json.loads(ran.stdout)
            fed = model["cluster"].get("rows_per_second") or 0
            losses = sum(1 for metric in model["metrics"] if metric["name"] == "loss")
            return model if fed > 0 and losses == 3 and len(model["gpus"]) == 2 else None

        model = wait_for(learns, "rows, metrics and GPUs")
        self.assertTrue(model["verdict"]["start"]["text"].startswith("Running. All 5 slots ready"))
        # A fake GPU is not taken for a real one.
        self.assertEqual({gpu["name"] for gpu in model["gpus"]}, {"Fake H100"})
        with display() as screen:
            # Five running slots as cells, each of some thousand pixels, and their waterfall.
            self.assertGreater(count_of(self.shoot(screen, "reservations"), GREEN), 10_000)
            feed = self.shoot(screen, "feed")
            self.assertGreater(count_of(feed, ACCENT, 60), 20)  # rows over time: a thin line
            self.assertGreater(count_of(feed, GREEN), 300)  # the workers' share of time that is work
            lines = self.shoot(screen, "metrics")
            self.assertGreater(sum(count_of(lines, color, 60) > 10 for color in SERIES), 1)
            wall = self.shoot(screen, "gpus")
            for color in VIRIDIS:
                self.assertGreater(count_of(wall, color), 500, hex(color))
        self.assertIsNone(driver.poll())
        driver.terminate()
        driver.wait(timeout=WAIT_S)
        self.wait_until_gone(pids)


def unread(pid, port):
    """Bytes that wait for the process on its connection to that port of this host; None: it has none."""
    inodes = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(entry.path)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] == "01" and fields[9] in inodes and int(fields[2].rpartition(":")[2], 16) == port:
                    return int(fields[4].rpartition(":")[2], 16)
    return None


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS:"))


class ClusterTestCase(LiveTestCase):
    """Two nodes that count and say their steps, as `millrace run` starts them."""

    def setUp(self):
        super().setUp()
        with open(self.path("steps.py"), "w", encoding="utf-8") as file:
            file.write(STEPS)
        self.driver = self.start(
            os.path.join(ROOT, "core/cli/millrace"), "run", "-n", "2", "--output", "none", "--", sys.executable,
            self.path("steps.py"), self.path("count"),
        )
        self.cluster_path = self.cluster_file()
        with open(self.cluster_path, encoding="utf-8") as file:
            self.cluster = json.load(file)
        self.pids = [node["pid"] for node in self.running()["nodes"]]
        self.addCleanup(self.stop)
        counts = [self.path(f"count{rank}") for rank in range(2)]
        wait_for(
            lambda: all(os.path.exists(path) and os.path.getsize(path) == 8 for path in counts), "two nodes that count"
        )

    def stop(self):
        self.driver.terminate()
        self.driver.wait(timeout=WAIT_S)
        self.wait_until_gone(self.pids)

    def steps(self):
        total = 0
        for rank in range(2):
            with open(self.path(f"count{rank}"), "rb") as file:
                total += struct.unpack("<Q", file.read(8))[0]
        return total

    def pace(self, seconds):
        begin, before = time.monotonic(), self.steps()
        time.sleep(seconds)
        return (self.steps() - before) / (time.monotonic() - begin)

    def altered(self, name, **changes):
        """A cluster file with other contents."""
        path = self.path(name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**self.cluster, **changes}, file)
        os.chmod(path, 0o600)
        return path


class SlowWindowTest(ClusterTestCase):
    def stop_with_unread_updates(self, pid, port):
        """Stops a viewer. Updates come every second; one that has not asked for them yet goes on for a while."""
        give_up_at = time.monotonic() + WAIT_S
        while True:
            os.kill(pid, signal.SIGSTOP)
            try:
                return wait_for(lambda: unread(pid, port), "updates that the viewer does not read", within_s=5)
            except AssertionError:
                if time.monotonic() > give_up_at:
                    raise
            os.kill(pid, signal.SIGCONT)
            time.sleep(1)

    def test_a_window_that_is_stopped_or_killed_does_not_delay_the_cluster(self):
        port = int(self.cluster["address"].rpartition(":")[2])
        free, stopped, memory = [], [], [memory_of(self.driver.pid)]
        for _ in range(4):
            free.append(self.pace(1.5))
            # Without a screen: what it takes from the cluster is the same.
            viewer = self.start(PROGRAM, "--cluster", self.cluster_path, "--dump-json", "--after", "10m")
            wait_for(lambda: unread(viewer.pid, port) is not None, "a viewer that is connected")
            self.stop_with_unread_updates(viewer.pid, port)
            stopped.append(self.pace(1.5))
            memory.append(memory_of(self.driver.pid))
            viewer.kill()
            viewer.wait(timeout=WAIT_S)
        after = self.pace(1.5)
        ratio = statistics.median(stopped) / statistics.median(free)
        print(
            f"steps/s without a window {statistics.median(free):.0f}, beside a stopped one "
            f"{statistics.median(stopped):.0f}, after it was killed {after:.0f}: ratio {ratio:.2f}; "
            f"the coordinator's process {memory[0] >> 20} MiB before, {max(memory) >> 20} MiB at most"
        )
        # Held up, they would stand still: other load on the machine changes the pace by less.
        self.assertGreater(ratio, 0.2)
        self.assertGreater(after, statistics.median(free) * 0.1)
        self.assertLess(max(memory), memory[0] + (96 << 20))
        self.assertIsNone(self.driver.poll())


class Relay:
    """Forwards connections to a port of this host, and cuts them when told to."""

    def __init__(self, port):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.sockets = []
        self.carried = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                return
            self.sockets += [near, far]
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
                self.carried += len(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self):
        for end in self.sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
                end.close()
        self.sockets = []

    def close(self):
        self.listener.close()
        self.cut()


class TroubleTest(ClusterTestCase):
    def connect_arguments(self, address):
        for name, key in (("token", "viewer_token"), ("ca", "ca_pem"), ("identity", "identity_pem")):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(self.cluster[key])
        return ["--connect", address, "--token-file", self.path("token"), "--ca", self.path("ca"),
                "--identity", self.path("identity")]

    def expect_refusal(self, arguments, *texts, code=1):
        """The exit code and one line that says what is the matter."""
        ran = self.dashboard(*arguments, "--dump-json")
        self.assertEqual(ran.returncode, code, (arguments, ran.stderr))
        self.assertEqual(ran.stdout, "")
        self.assertEqual(len(ran.stderr.splitlines()), 1, ran.stderr)
        for text in texts:
            self.assertIn(text, ran.stderr)
        self.assertNotIn(self.cluster["viewer_token"], ran.stderr)

    def certificate(self, name, *options):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
             "/CN=millrace", "-addext", "subjectAltName=DNS:millrace", "-keyout", self.path(name + ".key"), "-out",
             self.path(name + ".pem"), *options],
            check=True, capture_output=True,
        )
        with open(self.path(name + ".pem"), encoding="utf-8") as file:
            return file.read()

    def test_a_connection_that_is_cut_is_made_again(self):
        relay = Relay(int(self.cluster["address"].rpartition(":")[2]))
        self.addCleanup(relay.close)
        viewer = subprocess.Popen(
            [PROGRAM, *self.connect_arguments(relay.address), "--dump-json", "--after", "6s"],
            env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        self.addCleanup(self.end, viewer)
        wait_for(lambda: relay.carried > 20_000, "a watch")
        relay.cut()
        out, err = viewer.communicate(timeout=WAIT_S)
        self.assertEqual(viewer.returncode, 0, err)
        link = json.loads(out)["link"]
        self.assertEqual(link["state"], "live", link)
        self.assertGreaterEqual(link["reconnects"], 1)

    def test_what_is_wrong_with_a_connection_is_said_in_one_line(self):
        self.expect_refusal(["--cluster", self.altered("token", viewer_token="x" * 43)], "token")
        other = self.certificate("other")
        self.expect_refusal(["--cluster", self.altered("ca", ca_pem=other)], "certificate")
        self.expect_refusal(["--cluster", self.path("none.json")], "none.json")
        self.expect_refusal(["--cluster", self.altered("newer", format=99)], "newer.json", "99", code=2)
        with open(self.path("garbage.json"), "w", encoding="utf-8") as file:
            file.write("{]")
        os.chmod(self.path("garbage.json"), 0o600)
        self.expect_refusal(["--cluster", self.path("garbage.json")], "garbage.json", code=2)

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def test_an_expired_certificate_is_said_so(self):
        # `req -x509` refuses to make one that has ended: signing the request does not.
        self.certificate("expired")
        subprocess.run(
            ["openssl", "x509", "-in", self.path("expired.pem"), "-signkey", self.path("expired.key"), "-days", "-1",
             "-out", self.path("expired.pem")],
            check=True, capture_output=True,
        )
        with open(self.path("expired.pem"), encoding="utf-8") as file:
            expired = file.read()
        server = subprocess.Popen(
            ["openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", self.path("expired.pem"), "-key",
             self.path("expired.key"), "-alpn", "h2"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        self.addCleanup(self.end, server)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.stdin.close)
        address = next(line.split()[1] for line in server.stdout if line.startswith("ACCEPT "))
        changes = {"address": address, "ca_pem": expired}
        self.expect_refusal(["--cluster", self.altered("expired", **changes)], "certificate")

    def test_a_cluster_that_is_gone_is_said_so(self):
        gone = self.altered("gone")
        self.stop()
        self.expect_refusal(["--cluster", gone], "gone")
        self.expect_refusal([], "no cluster")


if __name__ == "__main__":
    unittest.main()
