"""The connector's jar against every line of Spark: each class, method and field that it uses is there.

    link_test.py --jar=millrace-spark.jar --scala_2_13=A.jar [--scala_2_13=B.jar]...

What Spark 3.5 for Scala 2.12 and Spark 4 are comes from the runfiles; of 3.5 for Scala 2.13 there are
Spark's own jars and Scala's.
"""

import argparse
import os
import re
import unittest

import spark_cluster
from class_files import ACC_ABSTRACT, ACC_INTERFACE, ACC_PRIVATE, ACC_STATIC, ClassPath

_ARGUMENTS = argparse.Namespace()
_JDK = ("java/", "javax/", "jdk/", "sun/")
_OURS = "io/millrace/"
# JeroMQ and jnacl, in the jar.
_IN_JAR = ("org/zeromq/", "zmq/", "com/neilalexander/")
# Seq is another class in each line of Scala, and so are others; these are not.
_DIFFERS = re.compile(r"scala/collection/(?!Iterator;|immutable/List;)")


class _Linker:
    def __init__(self, jar, spark):
        self._jar = jar
        self._spark = spark
        self.errors = []

    def _find(self, name):
        return self._jar.find(name) or self._spark.find(name)

    def _resolve(self, name, member, members, seen):
        """Whether the class or what it stands on has it; True too where that leads out of what is known."""
        if name in seen:
            return False
        seen.add(name)
        if name.startswith(_JDK):
            # `javac --release 8` has looked; of Object every method is there for every class.
            return name != "java/lang/Object" or member[0] in dir(_Object)
        found = self._find(name)
        if found is None:
            return False
        if member in getattr(found, members):
            return True
        parents = ([found.parent] if found.parent else []) + found.interfaces
        return any(self._resolve(parent, member, members, seen) for parent in parents)

    def check(self, found):
        for kind, owner, name, descriptor in sorted(found.uses()):
            what = f"{found.name} uses {kind} {owner}{'.' if name else ''}{name}{descriptor}"
            owner = owner.lstrip("[")
            owner = owner[1:-1] if owner.endswith(";") else owner
            if owner.startswith(_JDK) or len(owner) <= 1:
                continue
            target = self._find(owner)
            if target is None:
                self.errors.append(f"{what}: no such class")
                continue
            if kind == "class":
                continue
            if not owner.startswith((_OURS, *_IN_JAR)) and _DIFFERS.search(descriptor):
                self.errors.append(f"{what}: Scala's collections differ between its lines")
            if not self._resolve(owner, (name, descriptor), "fields" if kind == "field" else "methods", set()):
                self.errors.append(f"{what}: no such {kind}")
            elif kind != "field" and bool(target.flags & ACC_INTERFACE) != (kind == "interface method"):
                self.errors.append(f"{what}: class and interface are mixed up")
        self._check_implements(found)

    def _check_implements(self, found):
        """No abstract method is left of the classes that this one stands on."""
        if found.flags & (ACC_ABSTRACT | ACC_INTERFACE):
            return
        abstract, concrete = set(), set()
        todo, seen = [found.name], set()
        while todo:
            name = todo.pop()
            known = None if name in seen or name.startswith(_JDK) else self._find(name)
            seen.add(name)
            if known is None:
                continue
            for member, flags in known.methods.items():
                if not flags & ACC_STATIC:
                    (abstract if flags & ACC_ABSTRACT else concrete).add(member)
            todo += ([known.parent] if known.parent else []) + known.interfaces
        for name, descriptor in sorted(abstract - concrete):
            if name not in dir(_Object):
                self.errors.append(f"{found.name} does not implement {name}{descriptor}")
        self._check_overrides(found)

    def _check_overrides(self, found):
        """What overrides a method of Spark's in one of its lines, by name and parameters, does in all."""
        ours = {(name, descriptor.partition(")")[0]) for name, descriptor in found.methods if name[0] != "<"}
        parent = found.parent
        while parent and not parent.startswith(_JDK) and (known := self._find(parent)):
            for (name, descriptor), flags in known.methods.items():
                overridable = not flags & (ACC_STATIC | ACC_PRIVATE)
                named = (name, descriptor.partition(")")[0]) in ours
                if overridable and named and (name, descriptor) not in found.methods:
                    self.errors.append(f"{found.name} does not override {parent}.{name}{descriptor}")
            parent = known.parent


class _Object:
    """The names of the methods of java.lang.Object."""

    clone = equals = finalize = getClass = hashCode = notify = notifyAll = toString = wait = None


class LinkTest(unittest.TestCase):
    def setUp(self):
        self.jar = ClassPath([_ARGUMENTS.jar])
        self.addCleanup(self.jar.close)

    def _home_jars(self, version):
        try:
            jars = sorted((spark_cluster.spark_home(version) / "jars").glob("*.jar"))
        except spark_cluster.SparkUnavailable as why:
            if os.environ.get("MILLRACE_REQUIRE_SPARK") == "1":
                raise
            self.skipTest(str(why))
        self.assertGreater(len(jars), 50)
        return jars

    def _link(self, jars):
        spark = ClassPath(jars)
        self.addCleanup(spark.close)
        linker = _Linker(self.jar, spark)
        ours = [name for name in self.jar.names() if name.startswith(_OURS)]
        self.assertGreater(len(ours), 50)
        for name in sorted(ours):
            linker.check(self.jar.find(name))
        self.assertEqual(linker.errors, [], "\n".join(linker.errors[:50]))

    def test_spark_3_5_for_scala_2_12(self):
        self._link(self._home_jars("3_5"))

    def test_spark_3_5_for_scala_2_13(self):
        # What is neither Spark's nor Scala's is the same for both.
        others = [jar for jar in self._home_jars("3_5") if "_2.12" not in jar.name and "scala" not in jar.name]
        self._link(_ARGUMENTS.scala_2_13 + others)

    def test_spark_4(self):
        self._link(self._home_jars("4"))

    def test_everything_runs_on_java_8(self):
        newer = [name for name in self.jar.names() if self.jar.find(name).major > 52 and "META-INF" not in name]
        self.assertEqual(newer, [])

    def test_what_is_missing_is_seen(self):
        # Spark 4 without one of its jars: the test would notice.
        jars = [jar for jar in self._home_jars("4") if not jar.name.startswith("spark-catalyst")]
        with self.assertRaisesRegex(AssertionError, "no such class"):
            self._link(jars)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jar", required=True)
    parser.add_argument("--scala_2_13", action="append", default=[])
    _ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=["link_test.py", *rest])
