#include "core/agent/modes/coordinator_start.h"

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/state/coordinator_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/cluster_options.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

absl::StatusOr<CoordinatorStart> Parse(const std::string& members) {
  const absl::StatusOr<Json> params = ParseJson("{\"program\": \"/bin/true\"" + members + "}");
  if (!params.ok()) return params.status();
  return ParseCoordinatorStart(*params);
}

TEST(CoordinatorStartTest, WhatIsNotGivenHasTheDefaultOfClusterOptions) {
  const absl::StatusOr<CoordinatorStart> start = Parse("");
  ASSERT_THAT(start, IsOk());
  const CoordinatorOptions& options = start->options;
  const NodeSettings& node = options.node;
  const ClusterOptions defaults;
  EXPECT_EQ(options.roles.size(), static_cast<size_t>(defaults.num_executors));
  EXPECT_EQ(options.reservation_timeout, defaults.reservation_timeout);
  EXPECT_EQ(node.input_mode, defaults.input_mode);
  EXPECT_EQ(node.default_fs, defaults.node.default_fs);
  EXPECT_EQ(node.release_port, defaults.node.release_port);
  EXPECT_EQ(node.gpus_per_node, defaults.node.gpus_per_node);
  EXPECT_EQ(node.sidecars.size(), defaults.node.sidecars.size());
  // 0 is the agent's default (core/coordinator/state/coordinator_options.h).
  EXPECT_EQ(node.log_bytes_per_second, 0);
  EXPECT_EQ(defaults.node.log_bytes_per_second, 64 << 10);
  EXPECT_EQ(node.queues, defaults.feed.queues);
  EXPECT_EQ(node.feed_port_range, defaults.feed.port_range);
  EXPECT_EQ(node.feed_budget_bytes, defaults.feed.budget_bytes);
  EXPECT_EQ(options.restart, defaults.failure.restart);
  EXPECT_EQ(options.restart_by_job, defaults.failure.restart_by_job);
  EXPECT_EQ(options.quarantine, defaults.failure.quarantine);
  EXPECT_EQ(node.stop_grace, defaults.failure.stop_grace);
  EXPECT_EQ(node.stop_timeout, defaults.failure.stop_timeout);
}

TEST(CoordinatorStartTest, EveryMemberOfAGroupComesToItsPlace) {
  const absl::StatusOr<CoordinatorStart> start = Parse(R"(, "node": {
      "default_fs": "hdfs://n", "release_port": false, "gpus_per_node": 2, "gpus_by_job": {"ps": 1},
      "log_bytes_per_second": 7, "sidecars": [{"name": "s", "program": "p", "node": "worker:0",
      "args": ["a"], "env": {"A": "b"}}]},
    "feed": {"queues": ["q"], "port_range": "9000-9100", "budget_bytes": 5},
    "failure": {"restart": {"max_restarts": 3, "window_ms": 1000, "initial_backoff_ms": 2000,
                            "max_backoff_ms": 3000},
                "restart_by_job": {"ps": {"window_ms": -1}},
                "quarantine": {"failures": 4, "window_ms": 5000, "duration_ms": 6000},
                "stop_grace_ms": 7000, "stop_timeout_ms": 8000})");
  ASSERT_THAT(start, IsOk());
  const CoordinatorOptions& options = start->options;
  const NodeSettings& node = options.node;
  EXPECT_EQ(node.default_fs, "hdfs://n");
  EXPECT_FALSE(node.release_port);
  EXPECT_EQ(node.gpus_per_node, 2);
  EXPECT_THAT(node.gpus_by_job, ElementsAre(Pair("ps", 1)));
  EXPECT_EQ(node.log_bytes_per_second, 7);
  ASSERT_EQ(node.sidecars.size(), 1u);
  EXPECT_EQ(node.sidecars[0].node, "worker:0");
  EXPECT_THAT(node.sidecars[0].args, ElementsAre("a"));
  EXPECT_THAT(node.sidecars[0].env, ElementsAre(Pair("A", "b")));
  EXPECT_THAT(node.queues, ElementsAre("q"));
  EXPECT_EQ(node.feed_port_range, "9000-9100");
  EXPECT_EQ(node.feed_budget_bytes, 5);
  const RestartPolicy all = {.max_restarts = 3,
                             .window = absl::Seconds(1),
                             .initial_backoff = absl::Seconds(2),
                             .max_backoff = absl::Seconds(3)};
  EXPECT_EQ(options.restart, all);
  // It takes nothing from that of all.
  EXPECT_THAT(options.restart_by_job, ElementsAre(Pair("ps", RestartPolicy())));
  const QuarantinePolicy quarantine = {
      .failures = 4, .window = absl::Seconds(5), .duration = absl::Seconds(6)};
  EXPECT_EQ(options.quarantine, quarantine);
  EXPECT_EQ(node.stop_grace, absl::Seconds(7));
  EXPECT_EQ(node.stop_timeout, absl::Seconds(8));
}

TEST(CoordinatorStartTest, AFieldThatThereIsNotIsNamedAndSoIsWhereItIs) {
  const auto refused = [](const std::string& members, const std::string& part) {
    EXPECT_THAT(Parse(members), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refused(R"(, "stop_grace_ms": 1)", R"("params.stop_grace_ms" is unknown: there is "params.fail)");
  refused(R"(, "failure": {"queues": []})", R"(there is "params.feed.queues")");
  refused(R"(, "failure": {"restart": {"backoff_ms": 1}})",
          "params.failure.restart has initial_backoff_ms, max_backoff_ms, max_restarts, window_ms");
  refused(R"(, "roles": [{"job_name": "ps", "index": 1}])", R"("params.roles.index" is unknown)");
  refused(R"(, "nodes": null)", R"("params.nodes" is unknown: params has advertise_host, args)");
  refused(R"(, "feed": 3)", R"("params.feed" must be an object, found integer)");
  refused(R"(, "\u001b": 1)", R"("params.\x1b" is unknown)");
}

}  // namespace
}  // namespace millrace
