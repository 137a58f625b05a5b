"""The wheel, installed where there are Python and the C and C++ libraries, and nothing of Millrace."""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

_WHEEL = os.path.abspath(sys.argv.pop(1))
# Where administrators' programs are, which is not in everybody's PATH.
_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
# Of glibc, GCC and zlib, on which manylinux counts; and what Python needs besides.
_EVERYWHERE = {
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0",
    "libresolv.so.2", "librt.so.1", "libstdc++.so.6", "libutil.so.1", "libz.so.1",
}  # fmt: skip
_OF_PYTHON = {"libexpat.so.1", "libffi.so.8"}


def _needed(program):
    dynamic = subprocess.run(["readelf", "-dW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))


def _libraries_of(program):
    """Paths by name."""
    told = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=False).stdout
    return {os.path.basename(path): path for path in re.findall(r"(/\S+) \(0x", told)}


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.root = os.path.join(cls.folder, "root")
        # A virtual environment whose path is the same in the root.
        cls.home = os.path.join(cls.root, "home")
        subprocess.run([sys.executable, "-s", "-m", "venv", "--without-pip", cls.home], check=True)
        cls.site = glob.glob(os.path.join(cls.home, "lib/python3*/site-packages"))[0]
        pip = [sys.executable, "-s", "-m", "pip", "--python", os.path.join(cls.home, "bin/python"), "install"]
        quiet = ["--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-index", "--no-compile"]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        subprocess.run([*pip, *quiet, _WHEEL], env=environment, check=True)
        # NumPy, which its own wheel would bring.
        import numpy

        packages = os.path.dirname(os.path.dirname(numpy.__file__))
        for name in ("numpy", "numpy.libs"):
            shutil.copytree(os.path.join(packages, name), os.path.join(cls.site, name), symlinks=False)

    def test_it_says_what_it_is(self):
        self.assertRegex(os.path.basename(_WHEEL), r"^millrace-[0-9.]+-py3-none-manylinux_2_[0-9]+_x86_64\.whl$")
        with zipfile.ZipFile(_WHEEL) as archive:
            names = archive.namelist()
            self.assertEqual(archive.testzip(), None)
        for name in (
            "bin/millrace", "bin/millrace-agent", "bin/millrace-gpu", "lib/libmillrace.so", "py.typed", "__init__.py",
            "lib/libmillrace_cluster.so", "lib/millrace-spark.jar", "examples/digits.py", "examples/digits.csv",
        ):  # fmt: skip
            self.assertIn("millrace/" + name, names)
        self.assertTrue([name for name in names if re.search(r"\.dist-info/licenses/libssl3$", name)], names)

    def test_what_it_needs_comes_with_it_or_is_everywhere(self):
        brought = {os.path.basename(path) for path in glob.glob(os.path.join(self.site, "millrace.libs", "*"))}
        self.assertTrue(brought)
        for path in glob.glob(os.path.join(self.site, "millrace.libs", "*")) + [
            os.path.join(self.site, "millrace", name)
            for name in ("bin/millrace", "bin/millrace-agent", "bin/millrace-gpu", "lib/libmillrace.so",
                         "lib/libmillrace_cluster.so")
        ]:  # fmt: skip
            self.assertLessEqual(_needed(path), brought | _EVERYWHERE, path)

    # ---- in a root of its own ------------------------------------------------------------------------------

    def _make_root(self):
        self._namespace = ["unshare", "--map-root-user", "--mount"]
        done = subprocess.run(self._namespace + ["chroot", "/", "true"], env={"PATH": _PATH}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        if done.returncode:
            self.skipTest("this machine does not allow mount namespaces: " + done.stdout)
        standard = os.path.dirname(os.__file__)
        interpreter = os.path.realpath(sys.executable)
        for path in ("proc", "dev", "tmp", standard.lstrip("/")):
            os.makedirs(os.path.join(self.root, path), exist_ok=True)
        modules = glob.glob(os.path.join(standard, "lib-dynload", "_ctypes.*.so"))
        compiled = [interpreter, *modules, os.path.join(self.site, "millrace/lib/libmillrace.so")]
        for program in compiled:
            for name, path in _libraries_of(program).items():
                if name in _EVERYWHERE | _OF_PYTHON and not path.startswith(self.root):
                    self._put(path)
        # What nothing of these names, but other programs may.
        folder = os.path.dirname(_libraries_of(interpreter)["libc.so.6"])
        for path in (os.path.join(folder, name) for name in _EVERYWHERE):
            if os.path.exists(path):
                self._put(path)
        self._put(interpreter)
        python = os.path.join(self.home, "bin", "python")
        while os.path.islink(python):
            target = os.readlink(python)
            if not os.path.isabs(target):
                python = os.path.join(os.path.dirname(python), target)
                continue
            # The interpreter by the name that the environment has for it.
            link = self.root + target
            os.makedirs(os.path.dirname(link), exist_ok=True)
            if not os.path.lexists(link):
                os.symlink(interpreter, link)
            break
        return standard

    def _put(self, path):
        to = self.root + path
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if not os.path.exists(to):
            shutil.copy(path, to)

    def _run(self, *command):
        standard = self._make_root()
        script = (
            f'set -e; mount --rbind /proc "{self.root}/proc"; mount --rbind /dev "{self.root}/dev"\n'
            f'mount --bind "{standard}" "{self.root}{standard}"\n'
            f'exec env -i HOME=/tmp PATH=/home/bin LANG=C.UTF-8 "$(command -v chroot)" "{self.root}" "$@"'
        )
        run = subprocess.run(
            [*self._namespace, "sh", "-c", script, "sh", *command], cwd=self.folder, env={"PATH": _PATH},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stdout)
        return run.stdout

    def test_the_example_trains_and_reads_digits(self):
        told = self._run("/home/bin/python", "-m", "millrace.examples.digits")
        accuracy = re.search(r"^accuracy: ([0-9.]+)$", told, re.MULTILINE)
        self.assertTrue(accuracy, told)
        self.assertGreater(float(accuracy[1]), 0.9)

    def test_the_command_line_is_there(self):
        with zipfile.ZipFile(_WHEEL) as archive:
            version = os.path.basename(_WHEEL).split("-")[1]
            self.assertIn(f"millrace-{version}.dist-info/entry_points.txt", archive.namelist())
        self.assertIn(version, self._run("/home/bin/python", "-m", "millrace._command", "--version"))
        with open(os.path.join(self.home, "bin", "millrace"), encoding="utf-8") as script:
            self.assertIn("millrace._command", script.read())
        self.assertIn("run on a node", self._run(
            "/home/bin/python", "-m", "millrace._command", "run", "-n", "1", "--",
            "/home/bin/python", "-c", "print('run on a node')",
        ))  # fmt: skip

    def test_the_jar_is_found(self):
        told = self._run("/home/bin/python", "-c", "import millrace; print(millrace.spark_jar())")
        self.assertRegex(told, r"/millrace/lib/millrace-spark\.jar\n$")


if __name__ == "__main__":
    unittest.main()
