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
  const ClusterOptions defaults;
  EXPECT_EQ(start->options.roles.size(), static_cast<size_t>(defaults.num_executors));
  EXPECT_EQ(start->options.reservation_timeout, defaults.reservation_timeout);
  EXPECT_EQ(start->options.input_mode, defaults.input_mode);
}

TEST(CoordinatorStartTest, EventsAreWrittenInALogDirOfThisHost) {
  const auto folder = [](const std::string& log_dir) {
    const auto start = Parse(", \"log_dir\": \"" + log_dir + "\"");
    return start.ok() ? start->options.event_log_dir : start.status().ToString();
  };
  EXPECT_EQ(folder("/shared/logs"), "/shared/logs");
  EXPECT_EQ(folder("file:///shared/logs"), "/shared/logs");
  EXPECT_EQ(folder("hdfs://n/logs"), "");
  EXPECT_EQ(folder(""), "");
}

TEST(CoordinatorStartTest, EveryMemberOfAGroupComesToItsPlace) {
  const absl::StatusOr<CoordinatorStart> start = Parse(R"(, "node": {
      "default_fs": "hdfs://n", "release_port": false, "gpus_per_node": 2, "gpus_by_job": {"ps": 1},
      "log_bytes_per_second": 7, "sidecars": [{"name": "s", "program": "p", "node": "worker:0",
      "args": ["a"], "env": {"A": "b"}}]},
    "feed": {"queues": ["q"], "port_range": "9000-9100", "budget_bytes": 5,
             "shared_memory": true},
    "failure": {"restart": {"max_restarts": 3, "window_ms": 1000, "initial_backoff_ms": 2000,
                            "max_backoff_ms": 3000},
                "restart_by_job": {"ps": {"window_ms": -1}},
                "quarantine": {"failures": 4, "window_ms": 5000, "duration_ms": 6000},
                "stop_grace_ms": 7000, "stop_timeout_ms": 8000})");
  ASSERT_THAT(start, IsOk());
  const CoordinatorOptions& options = start->options;
  const NodeOptions& node = options.node;
  const FeedOptions& feed = options.feed;
  const FailureOptions& failure = options.failure;
  EXPECT_EQ(node.default_fs, "hdfs://n");
  EXPECT_FALSE(node.release_port);
  EXPECT_EQ(node.gpus_per_node, 2);
  EXPECT_THAT(node.gpus_by_job, ElementsAre(Pair("ps", 1)));
  EXPECT_EQ(node.log_bytes_per_second, 7);
  ASSERT_EQ(node.sidecars.size(), 1u);
  EXPECT_EQ(node.sidecars[0].node, "worker:0");
  EXPECT_THAT(node.sidecars[0].args, ElementsAre("a"));
  EXPECT_THAT(node.sidecars[0].env, ElementsAre(Pair("A", "b")));
  EXPECT_THAT(feed.queues, ElementsAre("q"));
  EXPECT_EQ(feed.port_range, "9000-9100");
  EXPECT_EQ(feed.budget_bytes, 5);
  EXPECT_TRUE(feed.shared_memory);
  const RestartPolicy all = {.max_restarts = 3,
                             .window = absl::Seconds(1),
                             .initial_backoff = absl::Seconds(2),
                             .max_backoff = absl::Seconds(3)};
  EXPECT_EQ(failure.restart, all);
  // It takes nothing from that of all.
  EXPECT_THAT(failure.restart_by_job, ElementsAre(Pair("ps", RestartPolicy())));
  const QuarantinePolicy quarantine = {
      .failures = 4, .window = absl::Seconds(5), .duration = absl::Seconds(6)};
  EXPECT_EQ(failure.quarantine, quarantine);
  EXPECT_EQ(failure.stop_grace, absl::Seconds(7));
  EXPECT_EQ(failure.stop_timeout, absl::Seconds(8));
}

TEST(CoordinatorStartTest, AFieldThatThereIsNotIsNamedAndSoIsWhereItIs) {
  const auto refused = [](const std::string& members, const std::string& part) {
    EXPECT_THAT(Parse(members), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(part)));
  };
  refused(R"(, "stop_grace_ms": 1)", R"("params.stop_grace_ms" is unknown: there is "params.fail)");
  refused(R"(, "failure": {"queues": []})", R"(there is "params.feed.queues")");
  refused(R"(, "failure": {"restart": {"backoff_ms": 1}})",
          "params.failure.restart has initial_backoff_ms, max_backoff_ms, max_restarts, window_ms");
  refused(R"(, "node": {"sidecars": [{"name": "s", "program": "p", "role": "ps:0"}]})",
          R"("params.node.sidecars.role" is unknown)");
  refused(R"(, "nodes": null)", R"("params.nodes" is unknown: params has advertise_host, args)");
  refused(R"(, "feed": 3)", R"("params.feed" must be an object, found integer)");
  refused(R"(, "\u001b": 1)", R"("params.\x1b" is unknown)");
}

}  // namespace
}  // namespace millrace
