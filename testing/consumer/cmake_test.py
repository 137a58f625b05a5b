"""The program of testing/consumer with what //:install lays out: by CMake, and by pkg-config."""

import os
import subprocess
import tempfile
import unittest

import consumer_testing
from consumer_testing import RESULT, SUM

RUNFILES = os.environ.get("TEST_SRCDIR") or os.environ["RUNFILES_DIR"]
INSTALL = os.path.join(RUNFILES, "millrace", "millrace", "packaging", "install")
PUBLIC_HEADERS = os.path.join(RUNFILES, "millrace", "millrace", "packaging", "public_headers.txt")
# As README has it.
INSTALL_COMMAND = "(cd ../millrace && ./bazelw run -c opt //:install -- --prefix $HOME/millrace)"


class InstalledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.home = os.path.join(folder, "home")
        cls.environment = {"HOME": cls.home, "PATH": os.environ["PATH"]}
        cls.project = os.path.join(folder, "centroids")
        consumer_testing.make_project("cmake", cls.project)
        subprocess.run([INSTALL, "--prefix", os.path.join(cls.home, "millrace")], check=True)

    def test_cmake(self):
        self.assertIn(INSTALL_COMMAND, consumer_testing.commands("cmake"))
        self.check("cmake", RESULT, SUM)

    def test_pkg_config(self):
        self.check("pkg-config", RESULT)

    def test_c(self):
        self.check("C", SUM)

    def check(self, section, *results):
        commands = consumer_testing.commands(section)
        self.assertTrue(commands)
        printed = []
        for command in commands:
            if command == INSTALL_COMMAND:
                continue  # the same program, see setUpClass
            printed += consumer_testing.run(command, self.project, self.environment)
        for result in results:
            self.assertIn(result, printed)

    def test_headers_have_the_names_that_they_have_in_the_repository(self):
        include = os.path.join(self.home, "millrace", "include")
        self.assertEqual(os.listdir(include), ["millrace"])
        with open(PUBLIC_HEADERS, encoding="utf-8") as file:
            names = file.read().split()
        self.assertIn("millrace/node.h", names)
        subprocess.run(["g++", "-std=c++20", "-fsyntax-only", "-I", include, "-x", "c++", "-"], check=True, text=True,
                       input="".join(f'#include "{name}"\n' for name in names))

    def test_installing_again_leaves_what_others_have_put_there(self):
        prefix = os.path.join(self.home, "millrace")
        other = os.path.join(prefix, "lib", "libother.so")
        gone = os.path.join(prefix, "include", "millrace", "of_an_earlier_version.h")
        for path in (other, gone):
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n")
        subprocess.run([INSTALL, "--prefix", prefix], check=True)
        self.assertTrue(os.path.exists(other))
        self.assertFalse(os.path.exists(gone))


if __name__ == "__main__":
    unittest.main()
