"""The Maven repository, as Spark and Maven use it, neither of which reaches another one.

    maven_repository_test.py REPOSITORY.tar.gz
"""

import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ElementTree
import zipfile

import page
import spark_cluster

_ARCHIVE = pathlib.Path(sys.argv.pop(1)).resolve()
_UNPACKED = tempfile.TemporaryDirectory(prefix="maven-", ignore_cleanup_errors=True)
_REPOSITORY = pathlib.Path(_UNPACKED.name) / _ARCHIVE.name.removesuffix(".tar.gz")
_ROOT = pathlib.Path(os.environ["TEST_SRCDIR"], "millrace")
_DIGITS = _ROOT / "examples/digits"
_NAMES = "{http://maven.apache.org/POM/4.0.0}"
# Plugins as Debian has them; the project of the test needs no others. One of them names JUnit's versions.
_DEBIAN = pathlib.Path("/usr/share/maven-repo")
_PACKAGES = {
    "junit5": "org/junit/junit-bom",
    "libmaven-compiler-plugin-java": "org/apache/maven/plugins/maven-compiler-plugin",
    "libmaven-resources-plugin-java": "org/apache/maven/plugins/maven-resources-plugin",
}
# A proxy that is not there, for whoever asks somebody else all the same.
_NOBODY = "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=9 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"
_SETTINGS = """\
<settings>
  <localRepository>{local}</localRepository>
  <mirrors><mirror><id>here</id><mirrorOf>central</mirrorOf><url>file://{debian}</url></mirror></mirrors>
</settings>
"""


def setUpModule():
    unittest.addModuleCleanup(_UNPACKED.cleanup)
    subprocess.run(["tar", "xzf", _ARCHIVE, "-C", _UNPACKED.name], check=True)


def _version():
    return ElementTree.parse(next(_REPOSITORY.rglob("*.pom"))).getroot().findtext(_NAMES + "version")


class RepositoryTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="maven-", ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self._folder = pathlib.Path(folder.name)
        self._files = _REPOSITORY / f"io/millrace/millrace-spark/{_version()}"

    def _jar(self, kind):
        return zipfile.ZipFile(self._files / f"millrace-spark-{_version()}{kind}.jar")

    def test_it_holds_one_artifact_and_the_sums_of_each_of_its_files(self):
        sums = ("md5", "sha1", "sha256", "sha512")
        stem = f"{self._files.relative_to(_REPOSITORY)}/millrace-spark-{_version()}"
        expected = {f"{stem}{end}" for end in (".jar", ".pom", "-sources.jar", "-javadoc.jar")}
        expected.add("io/millrace/millrace-spark/maven-metadata.xml")
        there = {path.relative_to(_REPOSITORY).as_posix() for path in _REPOSITORY.rglob("*") if path.is_file()}
        self.assertEqual(there, expected | {f"{path}.{kind}" for path in expected for kind in sums})
        for path in expected:
            for kind in sums:
                told = (_REPOSITORY / f"{path}.{kind}").read_text(encoding="ascii")
                self.assertEqual(told, hashlib.new(kind, (_REPOSITORY / path).read_bytes()).hexdigest(), path)
        metadata = ElementTree.parse(_REPOSITORY / "io/millrace/millrace-spark/maven-metadata.xml").getroot()
        self.assertEqual(metadata.findtext("versioning/versions/version"), _version())

    def test_the_sources_are_those_of_the_classes_and_the_pages_those_of_the_api(self):
        with self._jar("") as jar, self._jar("-sources") as sources, self._jar("-javadoc") as pages:
            ours = {n for n in jar.namelist() if n.startswith("io/millrace/") and n.endswith(".class")}
            outer = {re.sub(r"(\$.*)?\.class$", ".java", name) for name in ours}
            written = {name for name in sources.namelist() if name.endswith(".java")}
            # A file may have more than one class at its top.
            self.assertLessEqual(written - {n for n in written if n.endswith("package-info.java")}, outer)
            self.assertIn("io/millrace/spark/MillraceCluster.java", written)
            self.assertGreater(len(written), 100)
            self.assertIn("io/millrace/spark/MillraceCluster.html", pages.namelist())
            self.assertFalse([name for name in pages.namelist() if "/internal/" in name and name.endswith(".html")])

    def test_what_the_page_says_trains_the_digits_by_coordinates_alone(self):
        try:
            home, java = spark_cluster.spark_home(), spark_cluster.java_home()
        except spark_cluster.SparkUnavailable as why:
            if os.environ.get("MILLRACE_REQUIRE_SPARK") == "1":
                raise
            self.skipTest(str(why))
        package = spark_cluster.zip_package(_ROOT / "millrace/python/millrace", self._folder / "millrace.zip")
        data = shutil.copy((_DIGITS / "digits.csv").resolve(), self._folder / "digits.csv")
        options = f"-Duser.home={self._folder} -Djava.io.tmpdir={self._folder} {_NOBODY}"
        (self._folder / "conf").mkdir()
        (self._folder / "conf/spark-defaults.conf").write_text(
            f"spark.master local[4]\nspark.driver.memory 1g\nspark.submit.pyFiles {package}\n"
            f"spark.ui.enabled false\nspark.jars.ivy {self._folder}/ivy\n"
            f"spark.driver.extraJavaOptions {spark_cluster.jvm_options(home)} {options}\n",
            encoding="ascii",
        )
        # What the page says, in a folder that has what was fetched.
        shutil.copy(_ARCHIVE, self._folder)
        application = [_DIGITS / "digits_spark.py", (_DIGITS / "digits_node").resolve(), data]
        (script,) = page.sections()["Maven"]
        self.assertIn(" APPLICATION\n", script)
        script = script.replace("APPLICATION", shlex.join(map(str, application)))
        environment = {
            "PATH": f"{home}/bin:/usr/bin:/bin", "HOME": str(self._folder), "TMPDIR": str(self._folder),
            "JAVA_HOME": str(java), "SPARK_HOME": str(home), "SPARK_CONF_DIR": str(self._folder / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_DIRS": str(self._folder),
            "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable, "LANG": "C.UTF-8",
            # In place of the central repository.
            "DEFAULT_ARTIFACT_REPOSITORY": f"file:{self._folder}/none/",
        }  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(
            ["sh", "-euc", script], env=environment, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout[-8000:])
        print(f"docs/install.md: the digits after {time.monotonic() - began:.1f} s", flush=True)
        self.assertIn(f"found io.millrace#millrace-spark;{_version()} in repo-1", done.stdout)
        accuracy = float(re.search(r"(?m)^accuracy: (\S+)$", done.stdout).group(1))
        self.assertGreaterEqual(accuracy, 0.96)

    def _mvn(self, *arguments, environment=None):
        settings = self._folder / "settings.xml"
        settings.write_text(_SETTINGS.format(local=self._folder / "local", debian=_DEBIAN), encoding="ascii")
        done = subprocess.run(
            [shutil.which("mvn"), "-B", "-s", settings, *arguments],
            env={"PATH": "/usr/bin:/bin", "HOME": str(self._folder), "LANG": "C.UTF-8",
                 "MAVEN_OPTS": f"-Duser.home={self._folder} -Xmx256m -XX:TieredStopAtLevel=1 {_NOBODY}"},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def test_mavens_own_model_has_nothing_to_complain_of_in_the_pom(self):
        if not shutil.which("mvn"):
            self.skipTest("mvn is not installed")
        pom = shutil.copy(self._files / f"millrace-spark-{_version()}.pom", self._folder / "pom.xml")
        code, told = self._mvn("-o", "-f", pom, "validate")
        self.assertEqual(code, 0, told)
        self.assertNotIn("WARNING", told)

    def test_a_project_of_maven_uses_it(self):
        if not shutil.which("mvn"):
            self.skipTest("mvn is not installed")
        if missing := [package for package, path in _PACKAGES.items() if not (_DEBIAN / path).is_dir()]:
            self.skipTest(f"there are no plugins of Maven: install {' '.join(missing)}")
        project = self._folder / "project"
        shutil.copytree(_ROOT / "spark_connector/testing/maven_project", project)
        options = [f"-Dmillrace.version={_version()}", f"-Dmillrace.repository=file://{_REPOSITORY}"]
        code, told = self._mvn("-f", project / "pom.xml", *options, "compile")
        self.assertEqual(code, 0, told)
        jar = self._folder / f"local/io/millrace/millrace-spark/{_version()}/millrace-spark-{_version()}.jar"
        java = shutil.which("java", path="/usr/bin:/bin")
        ran = subprocess.run(
            [java, "-cp", f"{project}/target/classes:{jar}", "example.UsesMillrace"], stdout=subprocess.PIPE, text=True,
            check=True,
        )  # fmt: skip
        self.assertEqual(ran.stdout.strip(), "4 executors run /bin/true")

        # What was changed on its way is refused.
        changed = self._folder / "changed"
        shutil.copytree(_REPOSITORY, changed)
        jar = next(changed.rglob(f"millrace-spark-{_version()}.jar"))
        jar.chmod(0o644)
        with open(jar, "ab") as file:
            file.write(b"x")
        shutil.rmtree(self._folder / "local/io")
        options[1] = f"-Dmillrace.repository=file://{changed}"
        code, told = self._mvn("-f", project / "pom.xml", *options, "compile")
        self.assertNotEqual(code, 0)
        self.assertIn("hecksum", told)


if __name__ == "__main__":
    unittest.main()
