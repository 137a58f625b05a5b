"""Each rule accepts the design's graph and refuses a bad edge, naming it."""

import unittest

from package_graph import PackageGraph, Rule
import rules

GRPC = "@com_github_grpc_grpc//:grpc++"
ZEROMQ = "@millrace_libzmq//:libzmq"

GOOD = {
    "//:node": ["//core/node:node"],
    "//core/base:json": ["@com_google_absl//absl/status:status"],
    "//core/cluster_spec:cluster_spec": ["//core/base:json"],
    "//core/proto:spec_proto": ["//core/cluster_spec:cluster_spec", "@com_google_protobuf//:protobuf"],
    "//core/client:client": ["//core/proto:spec_proto", GRPC],
    "//millrace:batch_headers": ["@com_google_absl//absl/status:status"],
    "//millrace/c:node": ["//core/node:node"],
    "//feed/arrow:batch": ["//core/base:json", "//millrace:batch_headers"],
    "//feed/feeder:feeder": ["//core/base:json", ZEROMQ],
    "//feed/receiver:receiver": ["//feed/wire:frame", ZEROMQ],
    "//core/node:node": ["//feed/receiver:receiver", "//core/cluster_spec:cluster_spec"],
    "//core/node:cluster_server": ["//core/node:node", GRPC],
    "//core/node:server_options": ["//core/node:cluster_server"],
    "//resolver:static": ["//core/cluster_spec:cluster_spec"],
    "//core/coordinator:coordinator": ["//core/client:client"],
    "//core/agent/modes:coordinator_mode": ["//core/coordinator:coordinator"],
    "//core/agent:millrace-agent": ["//core/agent/modes:coordinator_mode", "//core/client:client"],
    "//core/cluster:cluster": ["//core/launch:agent_process", "//resolver:static", "//feed/feeder:feeder"],
    "//core/cli:millrace": ["//core/cluster:cluster"],
    "//dashboard/model:model": ["//core/proto:spec_proto"],
    "//dashboard/views:views": ["//dashboard/model:model", "@millrace_imgui_bundle//:imgui"],
    "//:cluster": ["//core/cluster:cluster"],
    "//examples/digits:digits": ["//:cluster", "//:node", "//examples:runfiles"],
}


def graph(extra=(), for_tests=()):
    dependencies = {label: list(names) for label, names in GOOD.items()}
    for label, name in extra:
        dependencies.setdefault(label, []).append(name)
    return PackageGraph(
        [Rule(label, "cc_library", label in for_tests, names) for label, names in dependencies.items()]
    )


class RulesTest(unittest.TestCase):
    def assert_refused(self, label, dependency, *words):
        found = "\n".join(rules.violations(graph([(label, dependency)])))
        for word in (label, dependency, *words):
            self.assertIn(word, found)

    def test_the_design_breaks_no_rule(self):
        self.assertEqual(rules.violations(graph()), [])

    def test_leaves_depend_on_nothing_above_them(self):
        self.assert_refused("//core/base:json", "//core/cluster_spec:cluster_spec", "nothing of ours")
        self.assert_refused("//core/cluster_spec:cluster_spec", "//core/proto:spec_proto")

    def test_public_headers_depend_on_nothing_of_ours(self):
        self.assert_refused("//millrace:batch_headers", "//core/base:json", "nothing of ours")
        self.assert_refused("//millrace:batch_headers", "//feed/arrow:batch", "nothing of ours")
        self.assert_refused("//core/base:json", "//millrace/c:node", "nothing of ours")

    def test_the_ends_of_the_feed_do_not_see_each_other(self):
        self.assert_refused("//feed/receiver:receiver", "//feed/feeder:feeder")
        self.assert_refused("//feed/feeder:feeder", "//feed/receiver:receiver")

    def test_a_driver_does_not_link_the_agent(self):
        self.assert_refused("//core/cluster:cluster", "//core/agent/node:node_runner")
        self.assert_refused("//core/cluster:cluster", "//core/agent:agent")

    def test_a_package_uses_the_nearest_floor_and_not_what_that_is_made_of(self):
        self.assert_refused("//core/cluster:cluster", "//core/coordinator/server:control_plane")
        self.assert_refused("//core/cluster:cluster", "//feed/ipc:ipc")
        self.assert_refused("//core/agent/modes:coordinator_mode", "//core/coordinator/view:view_store")
        self.assert_refused("//core/cli:millrace", "//feed/feeder:feeder")

    def test_nothing_depends_on_what_stands_above_it(self):
        self.assert_refused("//core/coordinator:coordinator", "//core/agent:millrace-agent")
        self.assert_refused("//core/agent:millrace-agent", "//core/cluster:cluster")
        self.assert_refused("//resolver:static", "//core/coordinator:coordinator")
        self.assert_refused("//feed/feeder:feeder", "//core/node:node")
        self.assert_refused("//feed/arrow:batch", "//feed/ipc:ipc")
        self.assert_refused("//core/coordinator/state:kv_store", "//core/coordinator/server:control_plane")
        self.assert_refused("//core/agent/loop:event_loop", "//core/agent/node:node_runner")
        self.assert_refused("//core/cluster:cluster", "//core/cli:millrace")
        self.assert_refused("//dashboard/model:model", "//dashboard/views:views")
        self.assert_refused("//dashboard/views:views", "//dashboard/source:live_source")
        self.assert_refused("//resolver/tensorflow:rules", "//resolver/every:every_resolver")
        # Nor on what lies in its folder and stands above it.
        self.assert_refused("//resolver:static", "//resolver/tensorflow:rules")
        self.assert_refused("//resolver/slurm:slurm", "//resolver/tensorflow:rules")
        self.assert_refused("//resolver:static", "//resolver/every:every_resolver")
        self.assert_refused("//core/cluster:cluster", "//examples/digits:digits")
        self.assert_refused("//core/cluster:cluster", "//testing/fakes:clock")
        self.assert_refused("//core/cluster:cluster", "//:node", "for programs outside")

    def test_examples_depend_on_what_programs_outside_may_depend_on(self):
        self.assert_refused("//examples/digits:digits", "//core/base:mutex", "may depend on //: only")
        self.assert_refused("//examples/digits:digits", "//millrace:status_macros", "may depend on //: only")

    def test_the_node_side_reaches_neither_grpc_nor_protobuf(self):
        self.assert_refused("//feed/feeder:feeder", GRPC, "must not reach gRPC or Protobuf")
        self.assert_refused("//core/node:node", "@com_google_protobuf//:protobuf", "must not reach")
        self.assert_refused("//core/node:node", "//core/proto:spec_proto", "must not reach")
        self.assert_refused("//:node", GRPC, "//:node must not reach")

    def test_a_long_path_is_named_whole(self):
        found = rules.violations(graph([("//core/base:json", "@other//:thing"), ("@other//:thing", GRPC)]))
        self.assertIn(
            f"//feed/feeder:feeder -> //core/base:json -> @other//:thing -> {GRPC}: "
            "//feed/feeder:feeder must not reach gRPC or Protobuf",
            found,
        )

    def test_the_public_node_target_does_not_carry_the_cluster_server(self):
        self.assert_refused("//:node", "//core/node:cluster_server", "//:node must not reach")

    def test_the_agent_reaches_no_zeromq(self):
        self.assert_refused("//core/agent:millrace-agent", ZEROMQ, "must not reach ZeroMQ")

    def test_the_dashboard_reaches_neither_cluster_nor_feed(self):
        self.assert_refused("//dashboard/views:views", "//core/cluster:cluster", "must not reach")
        self.assert_refused("//dashboard/model:model", "//feed/feeder:feeder", "must not reach")

    def test_the_dashboard_model_does_not_reach_imgui(self):
        self.assert_refused("//dashboard/model:model", "@millrace_imgui_bundle//:imgui", "must not reach")

    def test_one_package_uses_curl(self):
        found = rules.violations(graph([("//resolver/http:http_client", "@millrace_curl//:curl")]))
        self.assertEqual(found, [])
        self.assert_refused("//resolver:static", "@millrace_curl//:curl", "only //resolver/http")

    def test_one_package_uses_cpp_httplib(self):
        found = rules.violations(graph([("//core/metrics:metrics_server", "@millrace_cpp_httplib//:httplib")]))
        self.assertEqual(found, [])
        self.assert_refused("//core/cli:run_command", "@millrace_cpp_httplib//:httplib", "only //core/metrics")

    def test_tests_may_use_anything(self):
        label = "//feed/feeder:feeder_test"
        edges = [(label, "//core/cluster:cluster"), (label, "//testing/fakes:clock"), (label, GRPC)]
        self.assertEqual(rules.violations(graph(edges, for_tests=[label])), [])

    def test_a_new_package_needs_a_rule(self):
        found = "\n".join(rules.violations(graph([("//core/novelty:thing", "//core/base:json")])))
        self.assertIn("does not say what //core/novelty may depend on", found)

    def test_query_output_becomes_a_graph(self):
        parsed = PackageGraph.from_query_xml(
            """<?xml version="1.1" encoding="UTF-8" standalone="no"?>
            <query version="2">
              <rule class="genrule" name="//feed:make"><rule-output name="//feed:made.cc"/></rule>
              <rule class="cc_library" name="//feed/feeder:feeder">
                <list name="visibility"><label value="//feed:users"/></list>
                <rule-input name="//feed:made.cc"/><rule-input name="//feed:users"/>
              </rule>
              <rule class="cc_test" name="//feed/feeder:feeder_test"><rule-input name="//feed/feeder:feeder"/></rule>
              <rule class="cc_library" name="//feed:fake"><boolean name="testonly" value="true"/></rule>
            </query>"""
        )
        self.assertEqual(parsed.rules["//feed/feeder:feeder"].dependencies, ["//feed:make"])
        self.assertEqual([rule.label for rule in parsed.products("feed")], ["//feed:make", "//feed/feeder:feeder"])


if __name__ == "__main__":
    unittest.main()
