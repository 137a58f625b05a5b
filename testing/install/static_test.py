"""The archive's programs where there is no library at all, and what is in the archive."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import root_folder

_ARCHIVE = os.path.abspath(sys.argv[1])
del sys.argv[1:]
_NAME = os.path.basename(_ARCHIVE).removesuffix(".tar.gz")
_STATIC = ("bin/millrace", "bin/millrace-agent", "lib/millrace/examples/digits", "lib/millrace/examples/digits_node")


def _output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


class ArchiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        subprocess.run(["tar", "xzf", _ARCHIVE, "-C", cls.folder], check=True)
        cls.top = os.path.join(cls.folder, _NAME)

    def test_programs_are_static(self):
        for name in _STATIC:
            with self.subTest(name):
                path = os.path.join(self.top, name)
                self.assertNotIn("INTERP", _output("readelf", "-lW", path))
                self.assertNotIn("NEEDED", _output("readelf", "-dW", path))

    def test_they_run_where_there_is_nothing_else(self):
        try:
            root_folder.check()
        except root_folder.Unavailable as why:
            self.skipTest(str(why))
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        root = root_folder.RootFolder(folder)
        for name in (*_STATIC, "lib/millrace/examples/digits.csv"):
            root.put(os.path.join(self.top, name), folder="")
        self.assertEqual(sorted(name for name in os.listdir(folder) if os.path.isfile(os.path.join(folder, name))),
                         ["digits", "digits.csv", "digits_node", "millrace", "millrace-agent"])
        self.assertRegex(root.run("/millrace", "--version"), r"^millrace [0-9.]+ \(.*x86_64")
        self.assertIn("worker:1| millrace-agent ", root.run("/millrace", "run", "-n", "2", "--", "/millrace-agent",
                                                            "--version"))
        self.assertRegex(root.run("/digits"), r"(?m)^accuracy: 0\.9[6-9]$")

    def test_names_are_looked_up_without_the_system(self):
        """Where there is neither glibc nor a server of names: an error of the look-up, soon."""
        try:
            root_folder.check()
        except root_folder.Unavailable as why:
            self.skipTest(str(why))
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        root = root_folder.RootFolder(folder)
        root.put(os.path.join(self.top, "bin/millrace"), folder="")
        with root.start("/millrace", "resolve", "spark", "http://driver.example:4040", "--timeout", "5s") as process:
            told, _ = process.communicate()
        self.assertEqual(process.returncode, 69, told)
        self.assertIn("driver.example", told)

    def test_it_is_complete(self):
        with tarfile.open(_ARCHIVE) as archive:
            entries = archive.getmembers()
        names = [entry.name for entry in entries]
        self.assertEqual(names, sorted(names, key=lambda name: name.split("/")))
        self.assertEqual({(entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries},
                         {(0, 0, "root", "root")})
        self.assertEqual(len({entry.mtime for entry in entries}), 1)
        for place in (
            "bin/millrace-gpu", "bin/millrace-dashboard", "include/millrace/node.h", "include/millrace/c/millrace.h",
            "lib/libmillrace-node.a", "lib/libmillrace_cluster.so", "lib/pkgconfig/millrace-node.pc",
            "share/millrace/millrace-spark.jar", "share/man/man1/millrace-run.1", "share/man/man1/millrace-agent.1",
            "share/bash-completion/completions/millrace", "share/fish/vendor_completions.d/millrace.fish",
            "share/zsh/site-functions/_millrace", "share/doc/millrace/licenses/NOTICE", "share/doc/millrace/README.md",
            "share/doc/millrace/docs/install.md", "share/doc/millrace/CHANGELOG.md",
        ):  # fmt: skip
            self.assertIn(f"{_NAME}/{place}", names)
        wheel = re.compile(rf"{_NAME}/share/millrace/millrace-[\d.]+-py3.*\.whl")
        self.assertTrue(any(wheel.fullmatch(name) for name in names))

    def test_no_program_names_a_folder_of_the_machine_that_built_it(self):
        built_in = re.compile(rb"/(?:root|home|tmp)/[\w./-]*(?:bazel|sandbox|execroot)[\w./-]*")
        for folder, _, files in os.walk(self.top):
            for name in files:
                path = os.path.join(folder, name)
                if not os.path.islink(path):
                    with open(path, "rb") as file:
                        self.assertIsNone(built_in.search(file.read()), path)

    def test_the_completions_and_pages_are_those_of_its_programs(self):
        millrace = os.path.join(self.top, "bin/millrace")
        with open(os.path.join(self.top, "share/zsh/site-functions/_millrace"), encoding="utf-8") as file:
            self.assertEqual(file.read(), _output(millrace, "completion", "zsh"))
        pages = os.listdir(os.path.join(self.top, "share/man/man1"))
        for command in _output(millrace, "completion", "commands").splitlines():
            if not command.startswith("kv "):  # which are on one page
                self.assertIn(f"millrace-{command.replace(' ', '-')}.1", pages)


if __name__ == "__main__":
    unittest.main()
