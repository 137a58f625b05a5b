"""What `millrace run` started, looked at and acted on by the other commands."""

import json
import os
import re
import signal
import unittest

from cli_testing import WAIT_S, CliTestCase
from eventually import wait_for

# Runs until a file says that it may end; stops well when asked to.
NODE = ("trap 'echo saved; exit 0' TERM; echo \"hello from rank ${RANK-none}\"; echo moan >&2; "
        "while [ ! -e end ]; do sleep 0.05; done")


class ReaderTest(CliTestCase):
    def start_cluster(self, *options):
        process = self.start_cli("run", "-n", "3", "--num-ps", "1", "--master-node", "chief",
                                 "--output", "none", *options, "--", "sh", "-c", NODE)

        def running():
            done = self.run_cli("status", "--json")
            if done.returncode != 0:
                self.assertIsNone(process.poll(), process.returncode)
                return None
            status = json.loads(done.stdout)
            return status if status["cluster"]["phase"] == "running" else None

        self.status = wait_for(running, "the cluster runs")
        return process

    def end(self, process):
        self.write("end", "")
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0, err)

    def test_status_and_nodes(self):
        process = self.start_cluster()
        cluster = self.status["cluster"]
        self.assertLessEqual(
            {"id", "phase", "epoch", "started_ms", "input_mode", "program", "driver_host", "driver_pid",
             "log_dir", "version", "num_nodes", "by_state", "first_cause"},
            set(cluster))
        self.assertIn(f"millrace {cluster['version']} (", self.run_cli("version").stdout)
        self.assertEqual(cluster["num_nodes"], 3)
        self.assertEqual(cluster["driver_pid"], process.pid)
        self.assertIsNone(cluster["first_cause"])
        nodes = self.json_of("nodes", "--json")["nodes"]
        self.assertEqual([node["node"] for node in nodes], ["ps:0", "chief:0", "worker:0"])
        for node in nodes:
            self.assertLessEqual(
                {"node", "executor_id", "job_name", "task_index", "state", "attempt", "host", "address",
                 "pid", "reached_ms", "error", "endpoints", "restarts", "max_restarts", "sample"},
                set(node))
            self.assertEqual(node["state"], "running")
            self.assertTrue(os.path.exists(f"/proc/{node['pid']}"))
        shown = self.run_cli("status")
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertRegex(shown.stdout, rf"^cluster {cluster['id']}: running, started .* ago by pid")
        self.assertRegex(shown.stdout, r"\nNODE +STATE +FOR +HOST +PID")
        self.assertRegex(shown.stdout, r"\nchief:0 +running +\d")
        self.assertNotIn("\x1b", shown.stdout)
        _, on_terminal = self.run_on_terminal("nodes")
        self.assertIn("\x1b[32mchief:0", on_terminal)
        clusters = self.json_of("clusters", "--json")["clusters"]
        self.assertEqual([entry["id"] for entry in clusters], [cluster["id"]])
        self.assertNotIn("token", json.dumps(clusters))
        self.assertIn(cluster["id"], self.run_cli("clusters").stdout)
        by_id = self.json_of("status", "--json", "--cluster", cluster["id"][:6])
        self.assertEqual(by_id["cluster"]["id"], cluster["id"])
        by_file = self.json_of("status", "--json", "--cluster", clusters[0]["file"])
        self.assertEqual(by_file["cluster"]["id"], cluster["id"])
        self.end(process)
        self.assertEqual(os.listdir(self.path("clusters")), ["ended"])

    def test_watch_ends_with_the_cluster(self):
        process = self.start_cluster()
        watch = self.start_cli("status", "--watch", "--json", "--interval", "100ms")
        first = json.loads(watch.stdout.readline())
        self.assertEqual(first["cluster"]["id"], self.status["cluster"]["id"])
        self.end(process)
        out, err = watch.communicate(timeout=WAIT_S)
        self.assertEqual(watch.returncode, 0, err)
        for line in out.splitlines():
            json.loads(line)

    def test_watch_on_a_terminal_draws_in_place_what_fits(self):
        process = self.start_cluster()
        home = "\x1b[H\x1b[J"

        def end_after_three_frames(output):
            if output.count(home) >= 3:
                self.write("end", "")

        code, shown = self.run_on_terminal("status", "--watch", "--interval", "50ms", rows=6,
                                           on_output=end_after_three_frames)
        self.assertEqual(code, 0, shown)
        before, *frames = shown.split(home)
        self.assertEqual(before, "\r\n" * 6)
        for frame in frames:
            self.assertLess(frame.count("\n"), 6, frame)
            self.assertRegex(frame, r"\n\.\.\. \d+ more lines: `millrace status` shows all\r\n$")
        for erases_what_scrolled_away in ("\x1b[2J", "\x1b[3J"):
            self.assertNotIn(erases_what_scrolled_away, shown)
        self.end(process)

    def test_logs(self):
        process = self.start_cluster()

        def lines():
            out = self.run_cli("logs").stdout.splitlines()
            return out if len(out) >= 6 else None

        self.assertCountEqual(
            wait_for(lines, "six lines"),
            ["ps:0| hello from rank none", "ps:0| moan", "chief:0| hello from rank 0", "chief:0| moan",
             "worker:0| hello from rank 1", "worker:0| moan"])
        one = self.run_cli("logs", "--json", "worker:0")
        self.assertCountEqual(
            [(entry["node"], entry["source"], entry["line"])
             for entry in map(json.loads, one.stdout.splitlines())],
            [("worker:0", "stdout", "hello from rank 1"), ("worker:0", "stderr", "moan")])
        missing = self.run_cli("logs", "worker:7")
        self.assertEqual(missing.returncode, 66)
        self.assertIn("no node worker:7: ps:0, chief:0, worker:0", missing.stderr)
        follow = self.start_cli("logs", "-f", "chief:0")
        self.assertIn(follow.stdout.readline(), ("chief:0| hello from rank 0\n", "chief:0| moan\n"))
        process.send_signal(signal.SIGINT)
        out, err = follow.communicate(timeout=WAIT_S)
        self.assertEqual(follow.returncode, 0, err)
        self.assertIn("chief:0| saved", out)

    def test_logs_on_a_terminal_have_no_control_characters_of_nodes(self):
        process = self.start_cli("run", "--output", "none", "--", "sh", "-c",
                                 r"printf '\033]0;title\007\n'; : > up; "
                                 "while [ ! -e end ]; do sleep 0.05; done")
        self.wait_for_file("up")
        evil = "\x1b]0;title\x07"
        piped = wait_for(lambda: self.run_cli("logs").stdout, "the line")
        self.assertEqual(piped, f"worker:0| {evil}\n")
        _, shown = self.run_on_terminal("logs", env={"NO_COLOR": "1"})
        self.assertEqual(shown, r"worker:0| \x1b]0;title\x07" + "\r\n")
        _, shown = self.run_on_terminal("logs", "--raw", env={"NO_COLOR": "1"})
        self.assertEqual(shown, f"worker:0| {evil}\r\n")
        self.end(process)

    def test_following_ends_well_with_a_driver_that_was_killed(self):
        process = self.start_cluster()
        followers = [self.start_cli(what, "-f") for what in ("logs", "events")]
        for follower in followers:
            self.assertTrue(follower.stdout.readline())
        process.kill()
        for follower in followers:
            _, err = follower.communicate(timeout=WAIT_S)
            self.assertEqual((follower.returncode, err), (0, ""))

    def test_events(self):
        process = self.start_cluster()
        events = [json.loads(line) for line in self.run_cli("events", "--json").stdout.splitlines()]
        self.assertTrue(events)
        for event in events:
            self.assertLessEqual(
                {"number", "time_ms", "kind", "severity", "node", "executor_id", "attempt", "text",
                 "first_cause", "folded"}, set(event))
        self.assertEqual([event["number"] for event in events],
                         sorted(event["number"] for event in events))
        follow = self.start_cli("events", "-f")
        self.assertRegex(follow.stdout.readline(), r"^\d\d:\d\d:\d\d\.\d\d\d ")
        self.end(process)
        _, err = follow.communicate(timeout=WAIT_S)
        self.assertEqual(follow.returncode, 0, err)

    def test_a_reader_that_goes_away_ends_what_follows(self):
        process = self.start_cluster()
        for args in (["events", "-f"], ["logs", "-f"], ["status", "--watch", "--interval", "1h"],
                     ["nodes", "--watch", "--json", "--interval", "50ms"],
                     ["resolve", "cluster", "--watch"]):
            with self.subTest(args=args):
                follower = self.start_cli(*args)
                self.assertTrue(follower.stdout.readline())
                # Nothing happens in the cluster from here on: no write fails.
                follower.stdout.close()
                self.assertEqual(follower.wait(timeout=WAIT_S), 128 + signal.SIGPIPE)
                self.assertEqual(follower.stderr.read(), "")
        self.end(process)

    def test_an_answer_that_cannot_be_written_is_an_error(self):
        process = self.start_cluster()
        self.assertEqual(self.run_cli("kv", "set", "stage", "two").returncode, 0)
        for args in (["status"], ["status", "--watch"], ["nodes", "--json"], ["events"], ["events", "-f"],
                     ["logs"], ["clusters"], ["clusters", "--json"], ["kv", "get", "stage"],
                     ["kv", "list"], ["kv", "list", "--json"], ["resolve", "cluster"],
                     ["resolve", "cluster", "--watch"], ["agent-secret", "--kubernetes", "agents"],
                     ["help"], ["version"]):
            with self.subTest(args=args), open("/dev/full", "w", encoding="ascii") as full:
                done = self.run_cli(*args, stdout=full)
                self.assertEqual(done.returncode, 70, done.stderr)
                self.assertEqual(done.stderr,
                                 "millrace: cannot write to stdout: No space left on device\n")
        self.end(process)

    def test_kv(self):
        process = self.start_cluster()
        self.assertEqual(self.run_cli("kv", "get", "stage").returncode, 66)
        self.assertEqual(self.run_cli("kv", "get", "stage", "--wait", "50ms").returncode, 75)
        self.assertEqual(self.run_cli("kv", "set", "stage", "two").returncode, 0)
        self.assertEqual(self.run_cli("kv", "get", "stage").stdout, "two")
        self.assertEqual(self.json_of("kv", "get", "stage", "--json"), {"key": "stage", "value": "two"})
        self.assertEqual(self.run_cli("kv", "set", "bytes", "-", stdin="a\nb").returncode, 0)
        self.assertEqual(self.run_cli("kv", "get", "bytes").stdout, "a\nb")
        listed = self.json_of("kv", "list", "--json")
        self.assertEqual(listed, {"keys": [{"key": "bytes", "value_bytes": 3},
                                           {"key": "stage", "value_bytes": 3}], "more": False})
        self.assertEqual(self.run_cli("kv", "delete", "stage").returncode, 0)
        self.assertEqual(self.run_cli("kv", "delete", "stage").returncode, 66)
        self.end(process)

    def test_stop(self):
        process = self.start_cluster()
        done = self.run_cli("stop", "--reason", "enough for today")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        _, err = process.communicate(timeout=WAIT_S)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("enough for today", err)

    def test_who_acts_says_which_of_two_clusters(self):
        first = self.start_cluster()
        second = self.start_cli("run", "--", "sh", "-c", NODE)
        clusters = wait_for(
            lambda: (lambda entries: len(entries) == 2 and entries)(
                self.json_of("clusters", "--json")["clusters"]), "two clusters")
        ids = [entry["id"] for entry in clusters]
        for args in (["stop"], ["stop", "--now"], ["restart", "worker:0"], ["kv", "set", "a", "b"],
                     ["kv", "get", "a"], ["kv", "list"], ["kv", "delete", "a"],
                     ["resolve", "cluster"]):
            with self.subTest(args=args):
                done = self.run_cli(*args)
                self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
                self.assertRegex(done.stderr, rf"\Amillrace: 2 clusters of yours run here: {ids[0]} .*"
                                              rf"{ids[1]} .*; say which one: --cluster ID\n\Z")
        for args in (["status", "--json"], ["nodes"], ["events"], ["logs"]):
            with self.subTest(args=args):
                done = self.run_cli(*args)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stderr, rf"\Amillrace: 2 clusters of yours run here: {ids[0]} .*; "
                                              r"this is the first one, the newest .*\n\Z")
        status = self.run_cli("status", "--json", "--cluster", ids[1])
        self.assertEqual((json.loads(status.stdout)["cluster"]["id"], status.stderr), (ids[1], ""))
        self.assertEqual(self.run_cli("stop", "--cluster", self.status["cluster"]["id"]).returncode, 0)
        first.communicate(timeout=WAIT_S)
        self.assertNotEqual(first.returncode, 0)
        self.end(second)

    def test_restart(self):
        process = self.start_cluster()
        before = {node["node"]: node for node in self.json_of("nodes", "--json")["nodes"]}
        self.assertEqual(
            self.json_of("restart", "worker:0", "--reason", "new data", "--json"),
            {"node": "worker:0", "executor_id": before["worker:0"]["executor_id"], "attempt": 1})

        def restarted():
            status = self.json_of("status", "--json")
            nodes = {node["node"]: node for node in status["nodes"]}
            worker = nodes["worker:0"]
            return (status, nodes) if (worker["state"], worker["attempt"]) == ("running", 1) else None

        status, after = wait_for(restarted, "worker:0 runs again")
        self.assertEqual(status["cluster"]["phase"], "running")
        self.assertEqual(status["cluster"]["epoch"], self.status["cluster"]["epoch"] + 1)
        self.assertIsNone(status["cluster"]["first_cause"])
        self.assertNotEqual(after["worker:0"]["pid"], before["worker:0"]["pid"])
        self.assertFalse(os.path.exists(f"/proc/{before['worker:0']['pid']}"))
        for name in ("ps:0", "chief:0"):
            self.assertEqual((after[name]["attempt"], after[name]["pid"]), (0, before[name]["pid"]))
        self.assertIn("new data", self.run_cli("events").stdout)
        self.assertEqual(self.run_cli("restart", "worker:7").returncode, 66)
        self.end(process)

    def test_a_viewer_may_look_and_not_touch(self):
        process = self.start_cluster()
        file = self.json_of("clusters", "--json")["clusters"][0]["file"]
        os.remove(file.removesuffix(".json") + ".operator")
        self.assertEqual(self.run_cli("status").returncode, 0)
        for args in (["stop"], ["kv", "list"], ["restart", "worker:0"]):
            self.assertEqual(self.run_cli(*args).returncode, 77, args)
        self.end(process)

    def test_connect(self):
        process = self.start_cluster()
        with open(self.json_of("clusters", "--json")["clusters"][0]["file"], encoding="utf-8") as file:
            cluster = json.load(file)
        self.write("ca.pem", cluster["ca_pem"])
        self.write("identity.pem", cluster["identity_pem"], 0o600)
        self.write("token", cluster["viewer_token"] + "\n", 0o600)
        self.write("wrong", "0" * 64, 0o600)
        way = ["--connect", cluster["address"], "--ca", "ca.pem", "--identity", "identity.pem", "--token-file"]
        status = self.json_of("status", "--json", *way, "token")
        self.assertEqual(status["cluster"]["id"], cluster["cluster_id"])
        wrong = self.run_cli("status", *way, "wrong")
        self.assertEqual(wrong.returncode, 77, wrong.stderr)
        self.assertNotIn("0000", wrong.stderr)
        self.assertEqual(self.run_cli("status", "--connect", cluster["address"]).returncode, 64)
        self.end(process)


class NoClusterTest(CliTestCase):
    def test_says_how_to_start_one(self):
        for args in (["status"], ["nodes"], ["events"], ["logs"], ["kv", "list"], ["stop"],
                     ["restart", "worker:0"]):
            with self.subTest(args=args):
                done = self.run_cli(*args)
                self.assertEqual(done.returncode, 69, done.stderr)
                self.assertEqual(done.stdout, "")
                self.assertIn("or start one: `millrace run", done.stderr)
        done = self.run_cli("clusters")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.assertEqual(self.json_of("clusters", "--json"), {"clusters": []})

    def test_a_run_that_failed_is_told_of_afterwards(self):
        done = self.run_cli("run", "-n", "2", "--log-dir", "logs", "--", "sh", "-c",
                            'test "$RANK" = 1 || exec sleep 600; echo out of cheese >&2; exit 3')
        self.assertEqual(done.returncode, 3, done.stderr)
        error = done.stderr.splitlines()[-1]
        log = re.search(r"; its output: (\S+)$", error)
        self.assertTrue(log, error)
        with open(self.path(log.group(1)), encoding="utf-8") as file:
            self.assertEqual(file.read(), "out of cheese\n")
        cause = error.removeprefix("millrace: ").removesuffix(log.group(0))
        for command in ("status", "nodes", "events", "logs"):
            with self.subTest(command=command):
                later = self.run_cli(command)
                self.assertEqual((later.returncode, later.stdout), (69, ""), later.stderr)
                last, none = later.stderr.splitlines()
                self.assertRegex(last, r"^millrace: the last cluster, [0-9a-f]+ \(sh -c '.*exit 3'\), failed .* ago: ")
                self.assertIn(cause, last)
                self.assertTrue(last.endswith(f"; its output and events.jsonl: {self.path('logs')}"), last)
                self.assertIn("no cluster of yours runs", none)
        # What ended well is the last one then.
        self.assertEqual(self.run_cli("run", "--", "true").returncode, 0)
        self.assertRegex(self.run_cli("status").stderr,
                         r"\Amillrace: the last cluster, [0-9a-f]+ \(true\), ended .* ago\n")

    def test_a_cluster_that_is_not_there(self):
        done = self.run_cli("status", "--cluster", "feed")
        self.assertEqual(done.returncode, 66, done.stderr)
        self.assertEqual(self.run_cli("status", "--cluster", "./no.json").returncode, 66)

    def test_the_file_of_a_driver_that_is_gone_is_removed(self):
        process = self.start_cli("run", "-n", "1", "--", "sh", "-c", ": > up; exec sleep 600")
        self.wait_for_file("up")
        wait_for(lambda: os.path.isdir(self.path("clusters")) and os.listdir(self.path("clusters")),
                 "a cluster file")
        process.kill()
        process.wait(timeout=WAIT_S)
        done = self.run_cli("status")
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertEqual(os.listdir(self.path("clusters")), ["ended"])
        self.assertRegex(done.stderr, r"\Amillrace: the last cluster, [0-9a-f]+ \(sh -c '.*600'\), was lost .* ago: "
                                      r"its driver was killed\nmillrace: no cluster of yours runs")


class NameTest(CliTestCase):
    def test_a_cluster_is_shown_by_its_name_and_its_command(self):
        process = self.start_cli("run", "--name", "digits", "--", "sh", "-c", ": > up; sleep 600", "two words")
        self.wait_for_file("up")
        command = "sh -c ': > up; sleep 600' 'two words'"
        cluster = self.json_of("status", "--json")["cluster"]
        self.assertEqual((cluster["name"], cluster["command"], os.path.basename(cluster["program"])),
                         ("digits", command, "sh"))
        listed = self.json_of("clusters", "--json")["clusters"]
        self.assertEqual([(each["name"], each["command"]) for each in listed], [("digits", command)])
        shown = self.run_cli("status").stdout
        self.assertRegex(shown, r"^cluster \w+ digits: running")
        self.assertIn(f"\nprogram {command}\n", shown)
        table = self.run_cli("clusters", env={"COLUMNS": "200"}).stdout
        self.assertRegex(table, r"^CLUSTER +NAME ")
        self.assertIn(" digits ", table)
        self.assertIn(command, table)
        top = self.run_cli("top", "--once", "--interval", "100ms", env={"COLUMNS": "200"}).stdout.splitlines()[0]
        self.assertRegex(top, r"^millrace \S digits \S \w+ \S running ")
        self.assertIn(command, top)
        self.assertIn('name="digits"', self.run_cli("metrics").stdout)
        self.assertIn(f" of {command}", self.run_cli("events").stdout)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S)
        last = self.run_cli("status")
        self.assertIn(f"(digits, {command})", last.stderr)

    def test_names_that_cannot_be_shown_are_refused(self):
        for name in ("x" * 65, "a\nb", "a\x1b[2J"):
            done = self.run_cli("run", "--name", name, "--", "true")
            self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
            self.assertTrue(done.stderr.startswith("millrace: name: "), done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
