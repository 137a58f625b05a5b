"""The program of testing/consumer with what //:install lays out: by CMake, and by pkg-config."""

import os
import subprocess
import tempfile
import unittest

import consumer_testing
from consumer_testing import EVERYWHERE, RESULT, SQUARES, SUM, needed

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
        cls.done = {}
        subprocess.run([INSTALL, "--prefix", os.path.join(cls.home, "millrace")], check=True)

    def test_cmake(self):
        self.assertIn(INSTALL_COMMAND, consumer_testing.commands("cmake"))
        printed = self.printed("cmake")
        self.assertIn(RESULT, printed)
        self.assertIn(SUM, printed)

    def test_squares(self):
        self.assertEqual([line for line in self.printed("squares with CMake") if line in SQUARES], SQUARES)

    def test_pkg_config(self):
        self.assertIn(RESULT, self.printed("pkg-config"))

    def test_c(self):
        self.assertIn(SUM, self.printed("C"))

    def test_a_node_program_needs_the_c_and_cpp_libraries_alone(self):
        """So that NodeProgram::File() is all that a host gets."""
        for section, program in (("cmake", "build/centroids_node"), ("cmake", "build/sum_node"),
                                 ("pkg-config", "centroids_node"), ("C", "sum_node")):
            with self.subTest(f"{program} of {section}"):
                self.printed(section)
                libraries = needed(os.path.join(self.folder(section), program))
                self.assertIn("libc.so.6", libraries)
                self.assertLessEqual(libraries, EVERYWHERE)

    def test_a_program_may_have_a_libzmq_of_its_own(self):
        with open(os.path.join(self.folder("cmake"), "own.c"), "w", encoding="utf-8") as file:
            file.write("#include <stdlib.h>\nvoid* zmq_ctx_new(void) { abort(); }\n")
        self.check_linked("own_node", "gcc -c own.c && g++ {object} own.o -o {program}", "millrace-node")

    def test_the_shared_library(self):
        program = self.check_linked("shared_node", "g++ {object} -o {program}", "millrace-node-shared")
        self.assertIn("libmillrace-node.so.0.2", needed(program))

    def check_linked(self, program, command, package):
        """Links what CMake has compiled in another way, and runs it."""
        self.printed("cmake")
        folder = self.folder("cmake")
        command = command.format(object="build/CMakeFiles/centroids_node.dir/centroids_node.cc.o", program=program)
        consumer_testing.run(f"{command} $(pkg-config --with-path=$HOME/millrace/lib/pkgconfig --libs {package}) "
                             "-Wl,-rpath,$HOME/millrace/lib", folder, self.environment)
        self.assertIn(RESULT, consumer_testing.run(
            f"PATH=$HOME/millrace/bin:$PATH build/centroids ./{program} train.csv test.csv", folder, self.environment))
        return os.path.join(folder, program)

    def folder(self, section):
        return os.path.join(os.path.dirname(self.home), section.replace(" ", "_"))

    def printed(self, section):
        """What the commands of a section print, in a clean folder, where they run once."""
        if section not in self.done:
            folder = self.folder(section)
            if section.startswith("squares"):
                consumer_testing.make_project("squares", folder, program=())
            else:
                consumer_testing.make_project("cmake", folder)
            self.done[section] = []
            for command in consumer_testing.commands(section):
                if command != INSTALL_COMMAND:  # the same program, see setUpClass
                    self.done[section] += consumer_testing.run(command, folder, self.environment)
        return self.done[section]

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
