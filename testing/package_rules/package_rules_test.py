"""Holds the packages of this repository to rules.py."""

import os
import pathlib
import unittest

from package_graph import PackageGraph, package_of
import rules


class PackageRulesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = pathlib.Path(os.environ["TEST_SRCDIR"], os.environ["TEST_WORKSPACE"])
        text = (folder / "testing/package_rules/packages.xml").read_text(encoding="utf-8")
        cls.graph = PackageGraph.from_query_xml(text)

    def test_packages_depend_on_what_they_may(self):
        found = rules.violations(self.graph)
        if found:
            self.fail("\n" + "\n".join(found))

    def test_the_query_sees_the_packages(self):
        packages = {package_of(label) for label in self.graph.rules}
        self.assertLessEqual({"core/base", "core/cluster_spec", "core/proto", "feed"}, packages)
        # The names that rules.py looks for.
        self.assertTrue(self.graph.path("//core/proto:spec_proto", rules._is_grpc_or_protobuf))
        self.assertTrue(any(rules._is_zeromq_or_curl(name) for _, name in self.graph.edges()))


if __name__ == "__main__":
    unittest.main()
