"""The Debian packages: lintian, what they need, their service, and that a purge leaves nothing.

    debs_test.py NAME=ROOT... FILE...      as page_test.py
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import page
import root_folder
from eventually import wait_for

_ROOTS = dict(argument.split("=") for argument in sys.argv[1:] if "=" in argument)
_PRODUCTS = page.products_of([argument for argument in sys.argv[1:] if "=" not in argument])
del sys.argv[1:]
_PACKAGES = ("libmillrace-dev", "millrace", "millrace-dashboard")
_UNIT = "lib/systemd/system/millrace-agent.service"
# What every installation and removal writes.
_OF_DPKG = re.compile(r"/(var/lib/(dpkg|apt|systemd)|var/log|var/cache|run|typed|tmp|proc|dev)(/|$)"
                      r"|/etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|/etc/\.pwd\.lock$|/etc/ld\.so\.cache$")


# The libraries for static linking are one object each, with a section for every function: readelf prints their
# relocations for minutes, which lintian reads, and then looks for sections that should not be there.
_READELF = """\
#!/bin/sh
for last; do :; done
case "$last" in
*.a) {readelf} --file-header --section-headers --wide "$last" |
  grep -Ev ' (\\.(text|rela|rodata|data|bss|gcc_except)|\\.group)' ;;
*) exec {readelf} "$@" ;;
esac
"""


def _deb(package):
    return _PRODUCTS[package + ".deb"]


def _output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def _field(package, name):
    return _output("dpkg-deb", "--field", _deb(package), name).strip()


class PackagesTest(unittest.TestCase):
    def folder(self):
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def unpacked(self, package):
        folder = self.folder()
        subprocess.run(["dpkg-deb", "--extract", _deb(package), folder], check=True)
        return folder

    def test_lintian_has_nothing_to_say(self):
        if not shutil.which("lintian"):
            self.skipTest("lintian is not installed (Debian package lintian)")
        home = self.folder()
        with open(os.path.join(home, "readelf"), "w", encoding="ascii") as file:
            file.write(_READELF.format(readelf=shutil.which("readelf")))
        os.chmod(file.name, 0o755)
        command = ["lintian", "--fail-on", "error,warning", "--tag-display-limit", "0", "--allow-root",
                   *[_deb(package) for package in _PACKAGES]]  # fmt: skip
        environment = {**os.environ, "HOME": home, "PATH": f"{home}:{os.environ['PATH']}"}
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)  # fmt: skip
        self.assertEqual((ran.returncode, ran.stdout), (0, ""))

    def test_they_depend_on_what_their_programs_need(self):
        self.assertRegex(_field("millrace", "Depends"), r"\blibc6 \(>= 2\.\d+\)")
        for needed in ("libglfw3", "libfreetype6", "libgrpc", "libprotobuf", "libgl1"):
            self.assertIn(needed, _field("millrace-dashboard", "Depends"))
        for needed in ("libabsl-dev", "libsodium-dev", "libgrpc", "libc6"):
            self.assertIn(needed, _field("libmillrace-dev", "Depends"))

    def test_each_file_is_in_one_package(self):
        files = [path for package in _PACKAGES for path in
                 re.findall(r"(?m)^-.* \./(.*)$", _output("dpkg-deb", "--contents", _deb(package)))]  # fmt: skip
        self.assertEqual(len(files), len(set(files)))
        for path in ("usr/bin/millrace", "usr/bin/millrace-agent", "usr/bin/millrace-gpu", "usr/bin/millrace-dashboard",
                     "usr/lib/millrace/examples/digits", "usr/include/millrace/node.h", _UNIT,
                     "usr/share/man/man1/millrace-run.1.gz", "usr/share/doc/millrace/copyright",
                     "usr/share/doc/millrace/changelog.Debian.gz"):  # fmt: skip
            self.assertIn(path, files)

    def test_systemd_has_nothing_to_say_of_the_unit(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is not installed (Debian package systemd)")
        folder = self.unpacked("millrace")
        with open(os.path.join(folder, _UNIT), encoding="utf-8") as file:
            unit = file.read()
        # Where the program is.
        path = os.path.join(folder, "millrace-agent.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(unit.replace("/usr/bin/", f"{folder}/usr/bin/"))
        ran = subprocess.run(["systemd-analyze", "verify", "--man=no", path], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        of_ours = [line for line in ran.stdout.splitlines() if "millrace" in line]
        self.assertEqual(of_ours, [])
        # 0 is closed, 100 open; what is left open is named in the unit.
        ran = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=40", path],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        self.assertEqual(ran.returncode, 0, ran.stdout)


class InstalledTest(unittest.TestCase):
    def setUp(self):
        try:
            root_folder.check()
            folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            self.root = root_folder.RootFolder(folder, _ROOTS["development"])
        except root_folder.Unavailable as why:
            self.skipTest(str(why))
        self.root.put(*[_deb(package) for package in _PACKAGES])

    def install(self, *packages):
        self.root.run("apt-get", "install", "-y", *[f"./{os.path.basename(_deb(package))}" for package in packages])

    def test_a_purge_leaves_nothing(self):
        before = self.root.files()
        self.install(*_PACKAGES)
        installed = self.root.files()
        for path in ("/etc/millrace", "/etc/default/millrace-agent", "/usr/bin/millrace-dashboard", "/usr/" + _UNIT):
            self.assertIn(path, installed)
        self.assertIn("millrace:", self.root.run("cat", "/etc/passwd"))
        # Used: a secret, what a node has left, and the link of `systemctl enable`.
        self.root.run("sh", "-ec", page.sections()["An agent as a service"][0].partition("systemctl")[0])
        self.root.run("sh", "-ec", "mkdir -p /var/lib/millrace /etc/systemd/system/multi-user.target.wants && "
                      "touch /var/lib/millrace/model && ln -s /lib/systemd/system/millrace-agent.service "
                      "/etc/systemd/system/multi-user.target.wants/")  # fmt: skip
        self.root.run("apt-get", "purge", "-y", *_PACKAGES)
        after = self.root.files()
        left = {path for path in set(before) ^ set(after) if not _OF_DPKG.match(path)}
        self.assertEqual(left - {"/etc/systemd/system/multi-user.target.wants"}, set())
        kept = set(before) & set(after)
        changed = {path for path in kept if before[path] != after[path] and not _OF_DPKG.match(path)}
        self.assertEqual(changed, set())

    def test_a_removal_keeps_the_secret_and_an_installation_finds_it(self):
        self.install("millrace")
        secret = page.sections()["An agent as a service"][0].partition("systemctl")[0]
        self.root.run("sh", "-ec", secret)
        self.root.run("apt-get", "remove", "-y", "millrace")
        self.assertNotIn("/usr/bin/millrace", self.root.files())
        self.install("millrace")
        self.assertIn("-rw-r----- 1 root millrace", self.root.run("ls", "-l", "/etc/millrace/agents.json"))

    def test_the_service_runs_nodes_as_its_user(self):
        self.install("millrace")
        script = page.sections()["An agent as a service"][0]
        self.assertEqual([line for line in script.splitlines() if line.startswith("systemctl")],
                         ["systemctl enable --now millrace-agent"])  # there is no systemd in this root
        self.root.run("sh", "-ec", script.partition("systemctl")[0])
        with open(os.path.join(self.root.path, _UNIT), encoding="utf-8") as file:
            unit = dict(line.split("=", 1) for line in file.read().splitlines()
                        if "=" in line and not line.startswith("#"))  # fmt: skip
        self.assertIn("millrace-agent.service", os.path.basename(_UNIT))
        # What systemd would do, with the unit's own words; driver and agent are in one network.
        log = os.path.join(self.root.path, "typed/log")
        command = (
            f". {unit['EnvironmentFile']}; mkdir -p {unit['WorkingDirectory']}; "
            f"chown {unit['User']} {unit['WorkingDirectory']}; "
            f"chroot --userspec={unit['User']}:{unit['Group']} / sh -c "
            f"\"cd {unit['WorkingDirectory']}; exec {unit['ExecStart']}\" >/typed/log 2>&1 & agent=$!; "
            "while ! grep -q listening /typed/log; do kill -0 $agent; sleep 0.1; done; "
            "millrace run --on static --members '{\"worker\": [\"127.0.0.1:7077\"]}' --secret-file agents.json "
            "--driver-host 127.0.0.1 -- sh -c 'id -un; pwd'; "
            "kill $agent; wait $agent || true"
        )  # fmt: skip
        command = command.replace("${MILLRACE_LISTEN}", "$MILLRACE_LISTEN")
        told = self.root.run("sh", "-euc", command)
        wait_for(lambda: os.path.exists(log), "the agent's log")
        with open(log, encoding="utf-8") as file:
            self.assertIn("listening on 0.0.0.0:7077", file.read())
        self.assertRegex(told, r"(?m)^worker:0\| millrace$")


if __name__ == "__main__":
    unittest.main()
