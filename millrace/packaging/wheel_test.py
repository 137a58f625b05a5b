"""The wheel, installed by pip where there are Python and the C and C++ libraries, and nothing of Millrace.

    wheel_test.py WHEEL PROGRAM VERSION=ROOT...

PROGRAM is wheel_test_program.py. ROOT is an archive of a root folder with that Python, or a text that says why there
is none; a Python that this machine has itself is put into a root folder here.
"""

import glob
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

import pip

_WHEEL, _PROGRAM, *_ROOTS = sys.argv[1:]
del sys.argv[1:]
_WHEEL, _PROGRAM = os.path.abspath(_WHEEL), os.path.abspath(_PROGRAM)
_VERSIONS = [f"3.{minor}" for minor in range(9, 15)]
_OWN_VERSION = "%d.%d" % sys.version_info[:2]
# Where administrators' programs are, which is not in everybody's PATH.
_PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
_NAMESPACE = ["unshare", "--map-root-user", "--mount"]
# Of glibc, GCC and zlib, on which manylinux counts.
_EVERYWHERE = {
    "ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0",
    "libresolv.so.2", "librt.so.1", "libstdc++.so.6", "libutil.so.1", "libz.so.1",
}  # fmt: skip
_MOST_CPU_S = 60  # to install it and to learn the digits


def _needed(program):
    dynamic = subprocess.run(["readelf", "-dW", program], stdout=subprocess.PIPE, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))


def _libraries_of(program):
    """Their paths."""
    told = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", told))


class _Root:
    """A root folder, in which commands run."""

    def __init__(self, path, python, mounts=()):
        self._path = path
        self._mounts = [("/proc", "/proc"), ("/dev", "/dev"), *mounts]
        self._python = python  # in the root
        for name in ["tmp", *[place.lstrip("/") for _, place in self._mounts]]:
            os.makedirs(os.path.join(path, name), exist_ok=True)
        shutil.copytree(os.path.dirname(pip.__file__), os.path.join(path, "tmp/packages/pip"))
        for file in (_WHEEL, _PROGRAM):
            shutil.copy(file, os.path.join(path, "tmp"))

    def run(self, *command, **environment):
        """What it writes."""
        script = ["set -e"]
        script += [f'mount --rbind "{source}" "{self._path}{place}"' for source, place in self._mounts]
        variables = {"HOME": "/tmp", "PATH": "/home/bin", "LANG": "C.UTF-8", **environment}
        given = " ".join(f"{name}='{value}'" for name, value in variables.items())
        script += [f'exec env -i {given} "$(command -v chroot)" "{self._path}" "$@"']
        ran = subprocess.run(
            [*_NAMESPACE, "sh", "-c", "\n".join(script), "sh", *command], env={"PATH": _PATH},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            check=False,
        )  # fmt: skip
        if ran.returncode:
            raise AssertionError(f"{command} ended with {ran.returncode}: {ran.stdout}")
        return ran.stdout

    def install(self):
        """Into an environment in /home, as users do."""
        self.run(self._python, "-m", "venv", "--without-pip", "/home")
        quiet = ["--quiet", "--no-index", "--no-cache-dir", "--disable-pip-version-check"]
        wheel = f"/tmp/{os.path.basename(_WHEEL)}"
        self.run("/home/bin/python", "-m", "pip", "install", *quiet, wheel, PYTHONPATH="/tmp/packages")

    def python(self, *arguments):
        return self.run("/home/bin/python", *arguments)


def _unpacked_root(archive, folder):
    """Of a release of Debian."""
    subprocess.run(["tar", "-x", "--no-same-owner", "-C", folder, "-f", archive], check=True)
    (python,) = glob.glob(os.path.join(folder, "usr/bin/python3.[0-9]*"))
    return _Root(folder, python.removeprefix(folder))


_ASK = """\
import glob, json, os, sys
standard = os.path.dirname(os.__file__)
print(json.dumps({
    "python": os.path.realpath(sys.executable), "standard": standard,
    "compiled": glob.glob(os.path.join(standard, "lib-dynload", "*.so")),
}))
"""


def _copied_root(python, folder):
    """Of a Python of this machine, whose modules are seen in it."""
    told = json.loads(subprocess.run([python, "-I", "-c", _ASK], stdout=subprocess.PIPE, text=True, check=True).stdout)
    files = {told["python"]}
    for program in (told["python"], *told["compiled"]):
        files |= _libraries_of(program)
    # What nothing of these names, but other programs may.
    (libc,) = [path for path in files if os.path.basename(path) == "libc.so.6"]
    files |= {os.path.join(os.path.dirname(libc), name) for name in _EVERYWHERE}
    for path in files:
        if os.path.exists(path):
            os.makedirs(folder + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, folder + path)
    standard = told["standard"]
    return _Root(folder, told["python"], [(standard, standard)])


def _of_this_machine(version):
    """The interpreter, or None."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    places = [f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"]
    places += sorted(glob.glob(f"{glob.escape(pyenv)}/versions/{version}.*/bin/python{version}"))
    return next((path for path in places if os.access(path, os.X_OK)), None)


class _InRoots(unittest.TestCase):
    """Root folders by version, each with the wheel once it was asked for."""

    @classmethod
    def setUpClass(cls):
        allowed = subprocess.run([*_NAMESPACE, "chroot", "/", "true"], env={"PATH": _PATH}, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        if allowed.returncode:
            raise unittest.SkipTest("this machine does not allow mount namespaces: " + allowed.stdout)

    def _root(self, version):
        """Without the wheel."""
        folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        why = ""
        for archive in [path for name, _, path in (each.partition("=") for each in _ROOTS) if name == version]:
            if archive.endswith(".tar"):
                return _unpacked_root(archive, folder)
            with open(archive, encoding="utf-8") as reason:
                why = f"; {reason.read().strip()}"
        python = sys.executable if version == _OWN_VERSION else _of_this_machine(version)
        if python is None:
            self.skipTest(f"this machine has no Python {version}{why}")
        return _copied_root(python, folder)


class VersionsTest(_InRoots):
    def _check(self, version):
        root = self._root(version)
        began, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        root.install()
        installed = time.monotonic()
        told = root.python("-m", "millrace.examples.digits")
        ended = time.monotonic()
        accuracy = re.search(r"^accuracy: ([0-9.]+)$", told, re.MULTILINE)
        self.assertTrue(accuracy, told)
        self.assertGreater(float(accuracy[1]), 0.9)
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
        system = root.python("-c", "import os, sys; print(sys.version.split()[0], os.confstr('CS_GNU_LIBC_VERSION'))")
        print(f"Python {system.strip()}: installed in {installed - began:.1f} s, learned in {ended - installed:.1f} s; "
              f"{cpu:.1f} s of a processor", flush=True)  # fmt: skip
        self.assertLess(cpu, _MOST_CPU_S)
        self.assertIn("every row came back", root.python(f"/tmp/{os.path.basename(_PROGRAM)}"))


def _version_test(version):
    return lambda self: self._check(version)


for _version in _VERSIONS:
    setattr(VersionsTest, f"test_python_{_version.replace('.', '_')}_alone_is_enough", _version_test(_version))


class CommandsTest(_InRoots):
    def test_the_command_line_the_agent_and_the_jar_are_there(self):
        version = os.path.basename(_WHEEL).split("-")[1]
        root = self._root(_OWN_VERSION)
        root.install()
        for command in ("millrace", "millrace-agent"):  # the dashboard needs a desktop
            self.assertIn(version, root.run(f"/home/bin/{command}", "--version"))
        self.assertIn("run on a node", root.run(
            "/home/bin/millrace", "run", "-n", "1", "--", "/home/bin/python", "-c", "print('run on a node')",
        ))  # fmt: skip
        jar = root.python("-c", "import millrace; print(millrace.spark_jar())")
        self.assertRegex(jar, r"/millrace/lib/millrace-spark\.jar\n$")


class ContentTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        with zipfile.ZipFile(_WHEEL) as archive:
            cls.broken = archive.testzip()
            archive.extractall(cls.folder)
            cls.names = archive.namelist()

    def test_it_says_what_it_is(self):
        self.assertRegex(os.path.basename(_WHEEL), r"^millrace-[0-9.]+-py3-none-manylinux_2_[0-9]+_x86_64\.whl$")
        self.assertIsNone(self.broken)
        for name in (
            "bin/millrace", "bin/millrace-agent", "bin/millrace-dashboard", "bin/millrace-gpu", "lib/libmillrace.so",
            "lib/libmillrace_cluster.so", "lib/millrace-spark.jar", "py.typed", "__init__.py", "examples/digits.py",
            "examples/digits.csv",
        ):  # fmt: skip
            self.assertIn("millrace/" + name, self.names)

    def test_its_description_links_to_nothing_that_is_not_there(self):
        (metadata,) = glob.glob(os.path.join(self.folder, "millrace-*.dist-info/METADATA"))
        with open(metadata, encoding="utf-8") as file:
            description = file.read().partition("\n\n")[2]
        self.assertIn("without the wheel, a node needs `libmillrace.so`", description.lower())
        self.assertIn("(millrace/c)", description)
        targets = re.findall(r"\[[^]]*\]\(([^)]*)\)", description)
        self.assertEqual([target for target in targets if not target.startswith(("#", "https:"))], [])

    def test_what_it_needs_comes_with_it_or_is_everywhere(self):
        brought = glob.glob(os.path.join(self.folder, "millrace.libs", "*"))
        self.assertTrue(brought)
        own = glob.glob(os.path.join(self.folder, "millrace/bin/*")) + glob.glob(
            os.path.join(self.folder, "millrace/lib/*.so")
        )
        self.assertGreater(len(own), 4)
        names = {os.path.basename(path) for path in brought}
        for path in brought + own:
            needed = _needed(path)
            if "libglfw" in path:
                needed.discard("libX11.so.6")  # the desktop's
            self.assertLessEqual(needed, names | _EVERYWHERE, path)

    def test_the_dashboard_shows_a_cluster(self):
        program = os.path.join(self.folder, "millrace/bin/millrace-dashboard")
        os.chmod(program, 0o755)  # pip does
        if "libX11.so.6 => not found" in subprocess.run(["ldd", program], capture_output=True, text=True).stdout:
            self.skipTest("this machine has no libX11, as desktops do")
        environment = {"PATH": _PATH, "HOME": self.folder, "XDG_CACHE_HOME": self.folder}
        told = subprocess.run([program, "--demo", "4", "--dump-json"], env=environment, stdout=subprocess.PIPE,
                              check=True).stdout  # fmt: skip
        self.assertIn("verdict", json.loads(told))
        if not shutil.which("xvfb-run"):
            self.skipTest("xvfb-run is not installed (Debian package xvfb)")
        picture = os.path.join(self.folder, "picture.png")
        shown = subprocess.run(["xvfb-run", "-a", program, "--demo", "4", "--screenshot", picture], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # fmt: skip
        self.assertEqual(shown.returncode, 0, shown.stdout)
        self.assertGreater(os.path.getsize(picture), 10_000)

    def test_each_work_in_it_has_its_licence(self):
        (licenses,) = glob.glob(os.path.join(self.folder, "millrace-*.dist-info/licenses"))
        with open(os.path.join(licenses, "NOTICE"), encoding="utf-8") as file:
            notice = file.read()
        own, _, debian = notice.partition("In millrace.libs/:")
        for work in (
            "libzmq", "JeroMQ", "libcurl", "cpp-httplib", "simdjson", "ISA-L", "nanoarrow", "flatcc", "jnacl",
            "Dear ImGui", "ImPlot", "Font Awesome",
        ):  # fmt: skip
            self.assertRegex(own, rf"(?m)^{work}\b")
        # The texts that it names, those of each package, and what these refer to.
        folders = "common-licenses|cpp-httplib|curl|debian|flatcc|imgui|implot|isa-l|jeromq|libzmq"
        named = set(re.findall(rf"[ (]((?:{folders})/[\w.-]+\w)", own))
        packages = re.findall(r"^    (\S+) \S+$", debian, re.MULTILINE)
        for package in ("libssl3", "libgrpc29", "libprotobuf32", "libc6-dev", "libgrpc++-dev", "libc-ares-dev"):
            self.assertIn(package, packages)
        for package in ("libcurl4", "libgnutls30", "libkrb5-3"):  # libcurl is built in, with HTTP alone
            self.assertNotIn(package, packages)
        for package in packages:
            with open(os.path.join(licenses, "debian", package), encoding="utf-8") as file:
                referred = re.findall(r"/usr/share/(common-licenses/[A-Z][\w.-]*\w)", file.read())
            named.update(referred)
        self.assertLess({"libzmq/LICENSE.LESSER", "libzmq/libzmq_edits.bzl", "jeromq/jeromq_edits.bzl"}, named)
        self.assertLess({"common-licenses/LGPL-2.1", "common-licenses/MPL-2.0"}, named)
        for path in named:
            self.assertTrue(os.path.getsize(os.path.join(licenses, path)), path)


if __name__ == "__main__":
    unittest.main()
