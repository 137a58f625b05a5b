"""`millrace run` from end to end: real agents, real programs."""

import os
import resource
import shutil
import signal
import subprocess
import unittest

from cli_testing import PYTHON, WAIT_S, CliTestCase, line_with, millrace_path
from eventually import wait_for


class RunTest(CliTestCase):
    def test_tells_every_node_its_place_and_ends_well(self):
        done = self.run_cli(
            "run", "-n", "4", "--num-ps", "1", "--master-node", "chief", "--", "sh", "-c",
            'echo "rank=${RANK-none} of ${WORLD_SIZE-none}"; echo complaint >&2; '
            'case "$TF_CONFIG" in *\'"type":"ps"\'*|*\'"type": "ps"\'*) exec sleep 600;; esac',
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(
            done.stdout.splitlines(),
            ["ps:0| rank=none of none", "chief:0| rank=0 of 3", "worker:0| rank=1 of 3",
             "worker:1| rank=2 of 3"],
        )
        self.assertCountEqual(
            done.stderr.splitlines(),
            [f"{node}| complaint" for node in ("ps:0", "chief:0", "worker:0", "worker:1")],
        )

    def test_passes_the_exit_code_of_the_node_that_failed_on(self):
        done = self.run_cli(
            "run", "-n", "3", "--", "sh", "-c",
            'test "$RANK" = 1 || exec sleep 600; echo out of cheese >&2; exit 3',
        )
        self.assertEqual(done.returncode, 3, done.stderr)
        told = [line for line in done.stderr.splitlines() if line.startswith("millrace: ")]
        self.assertEqual(len(told), 1, done.stderr)
        self.assertRegex(told[0], "worker:1 .*exited with code 3.*out of cheese")

    def test_the_error_names_the_file_with_the_output_of_the_node_that_failed(self):
        done = self.run_cli("run", "-n", "2", "--log-dir", "logs", "--", "sh", "-c",
                            'test "$RANK" = 1 || exec sleep 600; echo out of cheese >&2; exit 3')
        self.assertEqual(done.returncode, 3, done.stderr)
        error = done.stderr.splitlines()[-1]
        self.assertTrue(error.endswith("; its output: logs/worker-1.0.log"), error)
        with open(self.path("logs/worker-1.0.log"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "out of cheese\n")

    def test_a_killed_node_is_128_and_the_signal(self):
        done = self.run_cli("run", "-n", "2", "--", "sh", "-c",
                            'test "$RANK" = 0 || exec sleep 600; kill -KILL $$')
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn("SIGKILL", done.stderr)

    def test_a_killed_agent_is_69_whatever_it_was_killed_with(self):
        process = self.start_cli("run", "--", "sh", "-c", "echo $PPID; exec sleep 600")
        agent = int(process.stdout.readline().split("| ")[1])
        os.kill(agent, signal.SIGKILL)
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 69, err)
        self.assertRegex(err, "^millrace: worker:0 .*was lost: its agent was killed by SIGKILL")

    def test_a_restart_is_one_line_of_millrace(self):
        done = self.run_cli("run", "--max-restarts", "1", "--", "sh", "-c",
                            'test -e "$0" || { : > "$0"; exit 3; }', self.path("once"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"\Amillrace: worker:0 .*exited with code 3.*; worker:0 is "
                                      r"started again in .* \(restart 1 of 1\)\n\Z")

    def test_a_short_reservation_timeout_is_told_as_it_is(self):
        done = self.run_cli("run", "--reservation-timeout", "1ms", "--", "true")
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertRegex(done.stderr, r"^millrace: 1 of 1 slot did not arrive in (?!0 s)[0-9.]+ s: worker:0")

    def test_a_program_that_cannot_be_run_is_told_before_anything_starts(self):
        missing = self.run_cli("run", "--", "no-such-program-anywhere")
        self.assertEqual(missing.returncode, 127)
        self.assertIn("no program 'no-such-program-anywhere' in PATH", missing.stderr)
        self.write("plain", "text")
        plain = self.run_cli("run", "--", "./plain")
        self.assertEqual(plain.returncode, 126)
        self.assertIn("chmod +x", plain.stderr)
        folder = self.run_cli("run", "--", "/")
        self.assertEqual(folder.returncode, 126)
        self.assertIn("/ is a folder", folder.stderr)

    def test_a_program_that_the_system_refuses_is_126(self):
        self.write("no-format", "not a program")
        os.chmod(self.path("no-format"), 0o755)
        done = self.run_cli("run", "--", "./no-format")
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertIn("no executable format", done.stderr)

    def test_a_log_dir_that_cannot_be_written_is_told_before_anything_starts(self):
        self.write("file", "text")
        done = self.run_cli("run", "--log-dir", "file/logs", "--", "echo", "hello")
        self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
        self.assertRegex(done.stderr, "^millrace: --log-dir file/logs: .*Not a directory")

    def test_an_agent_that_cannot_begin_is_told_at_once(self):
        done = self.run_cli("run", "--", "echo", "hello", env={"TMPDIR": self.path("gone")})
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertRegex(done.stderr, "cannot make the runtime_dir .*/gone/")

    def test_what_is_not_utf8_is_told_before_anything_starts(self):
        for args in (["--", "echo", b"\xff"], ["--env", b"X=\xff", "--", "true"]):
            with self.subTest(args=args):
                done = self.run_cli("run", *args)
                self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
                self.assertRegex(done.stderr, r"^millrace: .* is not UTF-8: '\\xff'.*\n$")

    def test_options_without_sense_are_64_and_one_line(self):
        for args in (
            ["run"],
            ["run", "--"],
            ["run", "--num-executor", "3", "true"],
            ["run", "-n", "1", "--num-ps", "1", "--", "true"],
            ["run", "--timeout", "soon", "--", "true"],
            ["run", "--env", "NOVALUE", "--", "true"],
            ["run", "--output", "loud", "--", "true"],
            ["walk"],
            ["status", "extra"],
        ):
            with self.subTest(args=args):
                done = self.run_cli(*args)
                self.assertEqual(done.returncode, 64, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_what_mpirun_and_torchrun_take_is_told_in_their_words(self):
        for args, told in (
            (["-np", "2"], "-np is mpirun's option: write -n NODES"),
            (["-np2"], "-np2 is mpirun's option: write -n NODES"),
            (["--env", "RANK=7"], "--env RANK: millrace sets RANK for each node"),
            (["--env", "TF_CONFIG={}"], "--env TF_CONFIG: millrace sets"),
            (["--gpus-per-node", "1", "--env", "CUDA_VISIBLE_DEVICES=0"],
             "--env CUDA_VISIBLE_DEVICES: millrace sets"),
            (["--env", "=x"], "--env =x: write NAME=VALUE, or NAME"),
            (["--env", "NOT_SET_HERE"], "--env NOT_SET_HERE: there is no such variable here"),
            (["--log-dir", "hdfs://nn/logs"], "--log-dir hdfs://nn/logs: logs are files"),
            (["--log-dir", "file://host/logs"], "--log-dir file://host/logs: logs are files"),
        ):
            with self.subTest(args=args):
                done = self.run_cli("run", *args, "--", "true")
                self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
                self.assertTrue(done.stderr.startswith(f"millrace: {told}"), done.stderr)
                self.assertEqual(os.listdir(self.folder), ["tmp"])
        program = self.run_cli("run", "--output", "raw", "--", "echo", "-np", "2")
        self.assertEqual((program.returncode, program.stdout), (0, "-np 2\n"), program.stderr)

    def test_a_variable_without_value_is_taken_from_here(self):
        done = self.run_cli("run", "--output", "raw", "--env", "KEY", "--env", "EMPTY", "--", "sh", "-c",
                            'echo "$KEY|${EMPTY-unset}|$(tr "\\0" " " < /proc/$PPID/cmdline)"',
                            env={"KEY": "secret=1", "EMPTY": ""})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("secret=1||"), done.stdout)
        self.assertEqual(done.stdout.count("secret"), 1)

    def test_logs_in_a_file_url_are_in_that_folder(self):
        done = self.run_cli("run", "--log-dir", "file://" + self.path("logs"), "--", "echo", "hello")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(os.listdir(self.folder), ["clusters", "logs", "tmp"])
        self.assertCountEqual(os.listdir(self.path("logs")), ["events.jsonl", "worker-0.0.log"])

    def test_a_script_with_windows_line_ends_is_told_as_such(self):
        self.write("dos", "#!/bin/sh\r\necho hello\r\n", 0o755)
        for program, env in (("./dos", {}), ("dos", {"PATH": self.folder})):
            with self.subTest(program=program):
                done = self.run_cli("run", "--", program, env=env)
                self.assertEqual((done.returncode, done.stdout), (126, ""), done.stderr)
                self.assertRegex(done.stderr, r"^millrace: .*dos has Windows line ends \(CR LF\).*: "
                                              r"sed -i 's/\\r\$//' .*dos\n$")
        self.write("unix", "#!/bin/sh\n# \r\necho hello\n", 0o755)
        self.assertEqual(self.run_cli("run", "--", "./unix").returncode, 0)

    def test_what_follows_the_program_is_the_programs(self):
        done = self.run_cli("run", "--output", "raw", PYTHON, "-c",
                            "import sys; print(sys.argv[1:])", "-n", "7", "--", "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "['-n', '7', '--', '--help']\n")

    def test_environment_working_dir_and_logs(self):
        os.mkdir(self.path("there"))
        done = self.run_cli(
            "run", "-n", "1", "--env", "COLOUR=a=b", "--working-dir", "there", "--log-dir", "logs",
            "--output", "none", "--", "sh", "-c", "pwd; echo $COLOUR; echo err >&2",
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(self.path("logs/worker-0.0.log"), encoding="utf-8") as log:
            self.assertCountEqual(log.read().splitlines(), [self.path("there"), "a=b", "err"])

    def test_a_time_limit_is_75(self):
        done = self.run_cli("run", "-n", "2", "--timeout", "1s", "--stop-grace", "1s", "--",
                            "sleep", "600")
        self.assertEqual(done.returncode, 75, done.stderr)
        self.assertIn("--timeout of 1.0 s", done.stderr)

    def test_colours_are_for_terminals(self):
        args = ["run", "-n", "2", "--", "echo", "hello"]
        self.assertNotIn("\x1b", self.run_cli(*args).stdout)
        code, shown = self.run_on_terminal(*args)
        self.assertEqual(code, 0, shown)
        self.assertRegex(shown, "\x1b\\[36mworker:0\\| \x1b\\[0mhello")
        code, shown = self.run_on_terminal(*args, env={"NO_COLOR": "1"})
        self.assertEqual(code, 0, shown)
        self.assertIn("worker:0| hello", shown)
        self.assertNotIn("\x1b[36m", shown)

    def test_a_terminal_gets_no_control_characters_of_nodes(self):
        evil = "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2Kworker:0| \u0085\tgood"
        self.write("evil", evil + "\n")
        run = ["run", "--", "sh", "-c", "cat evil; cat evil >&2"]
        code, shown = self.run_on_terminal(*run, env={"NO_COLOR": "1"})
        self.assertEqual(code, 0, shown)
        harmless = r"worker:0| \x1b]52;c;ZXZpbA==\x07\x1b]0;title\x07\x1b[2Kworker:0| \xc2\x85" + "\tgood"
        self.assertEqual(shown.count(harmless), 2, shown)
        self.assertNotIn("\x07", shown)
        done = self.run_cli(*run)
        self.assertEqual((done.returncode, done.stdout), (0, f"worker:0| {evil}\n"))
        code, shown = self.run_on_terminal("run", "--output", "raw", *run[1:])
        self.assertEqual(code, 0, shown)
        self.assertEqual(shown.count(evil), 2, shown)


class StdinTest(CliTestCase):
    def lines(self, *args, stdin="one\ntwo\n"):
        done = self.run_cli("run", *args, stdin=stdin)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_the_node_of_rank_0_reads_it_and_no_other(self):
        self.assertEqual(self.lines("-n", "3", "--num-ps", "1", "--", "cat"), ["worker:0| one", "worker:0| two"])
        self.assertEqual(self.lines("-n", "3", "--num-ps", "1", "--master-node", "chief", "--", "cat"),
                         ["chief:0| one", "chief:0| two"])

    def test_or_the_node_that_is_named(self):
        self.assertEqual(self.lines("-n", "2", "--stdin", "worker:1", "--", "cat"), ["worker:1| one", "worker:1| two"])
        self.assertEqual(self.lines("-n", "2", "--stdin", "none", "--", "cat"), [])

    def test_all_of_it_arrives_as_fast_as_the_node_reads(self):
        self.assertEqual(self.lines("--", "sh", "-c", "wc -c", stdin="x" * 5_000_000), ["worker:0| 5000000"])

    def test_what_no_node_reads_holds_up_nothing_and_stays(self):
        done = subprocess.run(["sh", "-c", f"{millrace_path()} run -n 2 -- true && cat"], cwd=self.folder, env=self.env,
                              input="x" * 5_000_000, capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertEqual((done.returncode, done.stderr, len(done.stdout)), (0, "", 5_000_000))
        read_end, write_end = os.pipe()  # which is silent, and does not end
        self.addCleanup(os.close, write_end)
        process = subprocess.Popen([millrace_path(), "run", "--", "true"], cwd=self.folder, env=self.env,
                                   stdin=read_end, stdout=subprocess.DEVNULL)
        os.close(read_end)
        self.assertEqual(process.wait(timeout=WAIT_S), 0)

    def test_whoever_writes_there_learns_that_the_nodes_have_ended(self):
        done = subprocess.run(["sh", "-c", f"yes | {millrace_path()} run -- head -n 1"], cwd=self.folder, env=self.env,
                              capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "worker:0| y\n"))

    def test_a_node_that_is_started_again_reads_on(self):
        done = self.run_cli("run", "--max-restarts", "1", "--initial-backoff", "10ms", "--", "sh", "-c",
                            'read line; echo "$line"; test "$line" = two', stdin="one\ntwo\n")
        self.assertEqual((done.returncode, done.stdout), (0, "worker:0| one\nworker:0| two\n"), done.stderr)

    def test_a_terminal_is_left_alone(self):
        code, shown = self.run_on_terminal("run", "--", "cat")
        self.assertEqual(code, 0, shown)
        code, shown = self.run_on_terminal("run", "--stdin", "worker:0", "--", "cat")
        self.assertEqual(code, 64, shown)
        self.assertIn("cat | millrace run", shown)

    def test_mistakes(self):
        for args, told in (
            (["--stdin", "worker:1"], "--stdin worker:1: the cluster has no such node; it has 1 worker"),
            (["--on", "static", "--members", '{"worker": ["127.0.0.1:1"]}', "--secret-file", "none", "--stdin",
              "worker:0"], "--stdin is for nodes on this machine"),
        ):
            done = self.run_cli("run", *args, "--", "cat")
            self.assertEqual((done.returncode, done.stdout), (64, ""), done.stderr)
            self.assertTrue(done.stderr.startswith(f"millrace: {told}"), done.stderr)


class TensorBoardTest(CliTestCase):
    FAKE = f"""#!{PYTHON}
import http.server, sys
args = dict(zip(sys.argv[1::2], sys.argv[2::2]))
open("board.args", "w").write(" ".join(sys.argv[1:]))
server = http.server.HTTPServer((args["--host"], int(args["--port"])), http.server.SimpleHTTPRequestHandler)
open("board.up", "w").close()
server.serve_forever()
"""

    def test_runs_beside_the_chief_and_ends_with_it(self):
        os.mkdir(self.path("bin"))
        self.write("bin/tensorboard", self.FAKE, 0o755)
        path = self.path("bin") + os.pathsep + self.env.get("PATH", "/usr/bin:/bin")
        process = self.start_cli(
            "run", "-n", "2", "--master-node", "chief", "--tensorboard", "--log-dir", "logs", "--",
            "sh", "-c", "while [ ! -e done ]; do sleep 0.05; done", env={"PATH": path})
        line = self.board_line(process)
        self.assertRegex(line, r"^millrace: chief:0: tensorboard: http://127\.0\.0\.1:\d+$")
        port = line.rsplit(":", 1)[1]
        with open(self.path("board.args"), encoding="utf-8") as args:
            self.assertEqual(args.read(), f"--logdir {self.path('logs')} --port {port} --host 127.0.0.1")
        self.write("done", "")
        process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0)
        self.assertNotIn(f":{int(port):04X} 00000000:0000 0A", self.listening())

    @staticmethod
    def listening():
        with open("/proc/net/tcp", encoding="ascii") as table:
            return table.read()

    def test_nothing_is_left_of_one_that_daemonizes(self):
        os.mkdir(self.path("bin"))
        self.write("bin/tensorboard", self.FAKE.replace("import http.server, sys", """import http.server, os, sys
if os.fork() != 0:
    os.wait()
    sys.exit()
os.setsid()""").replace('open("board.up", "w").close()', 'open("board.up", "w").write(str(os.getpid()))'), 0o755)
        path = self.path("bin") + os.pathsep + self.env.get("PATH", "/usr/bin:/bin")
        process = self.start_cli("run", "--tensorboard", "--log-dir", "logs", "--", "sh", "-c",
                                 "while [ ! -e done ]; do sleep 0.05; done", env={"PATH": path})
        self.board_line(process)
        with open(self.path("board.up"), encoding="ascii") as file:
            pid = int(file.read())
        self.write("done", "")
        process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0)
        self.assertFalse(os.path.exists(f"/proc/{pid}"), "the daemon is there still")

    def test_a_host_without_it_says_so_and_goes_on(self):
        os.mkdir(self.path("bin"))
        self.write("bin/python3", "#!/bin/sh\nexit 1\n", 0o755)
        process = self.start_cli("run", "--tensorboard", "--", "/bin/sh", "-c",
                                 "while [ ! -e done ]; do /bin/sleep 0.05; done",
                                 env={"PATH": self.path("bin")})
        line_with(process.stderr, "no TensorBoard on this host")
        self.write("done", "")
        process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0)

    def test_a_sidecar_is_started_again_with_its_node(self):
        os.mkdir(self.path("bin"))
        self.write("bin/tensorboard", self.FAKE.replace(
            'open("board.up", "w").close()', 'import os; open("board.pids", "a").write(f"{os.getpid()}\\n")'),
            0o755)
        path = self.path("bin") + os.pathsep + self.env.get("PATH", "/usr/bin:/bin")
        process = self.start_cli(
            "run", "-n", "1", "--tensorboard", "--log-dir", "logs", "--", "sh", "-c",
            "while [ ! -e done ]; do sleep 0.05; done", env={"PATH": path})
        first = self.board_line(process).rsplit(" ", 1)[1]
        node = self.json_of("nodes", "--json")["nodes"][0]
        self.assertEqual(node["endpoints"], {"tensorboard": first})
        done = self.run_cli("restart", "worker:0")
        self.assertEqual(done.stdout, "worker:0 starts again as attempt 1\n", done.stderr)
        second = self.board_line(process).rsplit(" ", 1)[1]

        def published():
            now = self.json_of("nodes", "--json")["nodes"][0]
            return now["attempt"] == 1 and now["endpoints"] == {"tensorboard": second}

        wait_for(published, "the second address is published")
        with open(self.path("board.pids"), encoding="ascii") as file:
            pids = file.read().split()
        self.assertEqual(len(pids), 2)
        wait_for(lambda: not os.path.exists(f"/proc/{pids[0]}"), "the first sidecar is gone")
        self.assertTrue(os.path.exists(f"/proc/{pids[1]}"))
        self.write("done", "")
        process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 0)
        for name in ("tensorboard.0.log", "tensorboard.1.log", "worker-0.0.log", "worker-0.1.log"):
            self.assertTrue(os.path.exists(self.path(f"logs/{name}")), name)

    def board_line(self, process):
        """What is said when a sidecar answers: its node and its address."""
        return line_with(process.stderr, "tensorboard: http://").strip()


class StartedByBazelTest(CliTestCase):
    def test_paths_mean_the_folder_where_the_person_stood(self):
        """As ./bazelw run //:millrace -- run -n 3 -- python3 examples/env_only/allreduce.py does it."""
        program = self.path("bin/millrace")
        started_in = self.path("bin/millrace.runfiles/millrace")
        os.makedirs(started_in)
        shutil.copy(millrace_path(), program)
        os.makedirs(self.path("here/examples"))
        self.write("here/examples/where.py", "import os; print(os.getcwd())")
        agent = os.path.join(os.path.dirname(os.path.dirname(millrace_path())), "agent", "millrace-agent")
        env = {**self.env, "BUILD_WORKING_DIRECTORY": self.path("here"), "MILLRACE_AGENT": agent}
        args = [program, "run", "-n", "2", "--log-dir", "logs", "--", PYTHON, "examples/where.py"]
        done = subprocess.run(args, cwd=started_in, env=env, capture_output=True, text=True,
                              timeout=WAIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        here = os.path.realpath(self.path("here"))
        self.assertCountEqual(done.stdout.splitlines(), [f"worker:0| {here}", f"worker:1| {here}"])
        self.assertTrue(os.path.exists(self.path("here/logs/worker-0.0.log")))
        # Started in any other folder, by a program that bazel run has started, say, that one counts.
        done = subprocess.run([program, "run", "--", "pwd"], cwd=self.path("bin"), env=env,
                              capture_output=True, text=True, timeout=WAIT_S, check=False)
        self.assertEqual(done.stdout, f"worker:0| {os.path.realpath(self.path('bin'))}\n", done.stderr)


class PythonOutputTest(CliTestCase):
    PROGRAM = ["--", PYTHON, "-c", "import os, signal; print('here'); os.kill(os.getpid(), signal.SIGKILL)"]

    def test_what_python_printed_before_it_was_killed_is_there(self):
        done = self.run_cli("run", *self.PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (137, "worker:0| here\n"), done.stderr)

    def test_who_wants_it_buffered_says_so(self):
        for options, env in ((["--env", "PYTHONUNBUFFERED="], {}), ([], {"PYTHONUNBUFFERED": ""})):
            with self.subTest(options=options):
                done = self.run_cli("run", *options, *self.PROGRAM, env=env)
                self.assertEqual((done.returncode, done.stdout), (137, ""), done.stderr)


class LimitsTest(CliTestCase):
    """What a run needs of its machine is told before anything starts, and nothing is left behind."""

    def refused(self, prefix, *args, limit=None, program=None):
        done = subprocess.run(
            [*prefix, program or millrace_path(), "run", *args, "--", "echo", "hello"],
            cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=WAIT_S, check=False,
            preexec_fn=limit and (lambda: resource.setrlimit(limit[0], (limit[1], limit[1]))))
        self.assertEqual((done.returncode, done.stdout), (70, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(os.listdir(self.path("tmp")), [])
        self.assertFalse(os.path.exists(self.path("clusters")))
        return done.stderr

    def test_files_that_may_not_be_written(self):
        self.assertIn("ulimit -f unlimited", self.refused([], limit=(resource.RLIMIT_FSIZE, 0)))

    def test_too_few_descriptors(self):
        told = self.refused([], "-n", "64", limit=(resource.RLIMIT_NOFILE, 100))
        self.assertRegex(told, r"^millrace: 64 nodes take about \d+ file descriptors, and 100 are allowed")

    def test_too_few_processes(self):
        prefix, program = [], millrace_path()
        if os.geteuid() == 0:  # whom no limit holds
            os.chmod(self.folder, 0o755)
            os.chmod(self.path("tmp"), 0o777)
            program = shutil.copy(program, self.path("millrace"))
            prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            if subprocess.run([*prefix, program, "version"], capture_output=True, check=False).returncode:
                self.skipTest("another user cannot run a program in this folder")
        told = self.refused(prefix, limit=(resource.RLIMIT_NPROC, 20), program=program)
        self.assertRegex(told, r"processes and threads; this user has \d+ now and may have 20: ulimit -u")

    def test_no_proc(self):
        if "ASAN_OPTIONS" in os.environ:
            self.skipTest("AddressSanitizer itself reads /proc, its options included")
        hide = ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']
        if subprocess.run([*hide, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no mount namespace can be made here")
        root = os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"]
        done = subprocess.run(
            [*hide, millrace_path(), "run", "--reservation-timeout", "60s", "-n", "2", "--", "echo", "hello"],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=WAIT_S,
            check=False, env={**self.env, "MILLRACE_AGENT": f"{root}/millrace/core/agent/millrace-agent"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertCountEqual(done.stdout.splitlines(), ["worker:0| hello", "worker:1| hello"])

    def test_no_loopback(self):
        prefix = ["unshare", "--map-root-user", "--net"]
        if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no network namespace can be made here")
        self.assertIn("ip link set lo up", self.refused(prefix))


class HelpTest(CliTestCase):
    def test_help_goes_to_stdout_and_is_well(self):
        for args in (["--help"], ["help"], [], ["run", "--help"], ["help", "run"], ["kv", "get", "-h"]):
            with self.subTest(args=args):
                done = self.run_cli(*args)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertIn("millrace", done.stdout)
        self.assertIn("usage: millrace run", self.run_cli("run", "--help").stdout)

    def test_version(self):
        self.assertRegex(self.run_cli("version").stdout, r"^millrace \d+\.\d+\.\d+ ")
        self.assertEqual(self.run_cli("--version").stdout, self.run_cli("version").stdout)

    def test_the_program_under_test_is_there(self):
        self.assertTrue(os.access(millrace_path(), os.X_OK))


if __name__ == "__main__":
    unittest.main()
