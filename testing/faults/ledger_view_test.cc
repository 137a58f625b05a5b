// The ledger as a reader sees it, in what `millrace` prints and in the watch stream, while nodes of
// a cluster are killed: exact at the end, by feed, by node and queue, and by reason.

#include <signal.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/cli/output/terminal.h"
#include "core/cli/view/view_json.h"
#include "core/cli/view/view_text.h"
#include "core/client/cluster_file.h"
#include "core/client/cluster_view.h"
#include "core/client/raw_cluster_client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/status_macros.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class LedgerViewTest : public FaultTest {
 protected:
  LedgerViewTest() {
    gone_within_ = absl::Seconds(5);
    ::setenv("MILLRACE_CLUSTERS_DIR", JoinPath(leaks_.folder(), "clusters").c_str(), 1);
    leaks_.AllowPath("clusters");
  }

  ClusterOptions HealingOptions() {
    ClusterOptions options = Options(2);
    options.failure.restart = {.max_restarts = 1000,
                               .initial_backoff = absl::Milliseconds(20),
                               .max_backoff = absl::Milliseconds(50)};
    options.failure.quarantine.failures = 1000;
    return options;
  }

  // Slow enough for what is killed while it is fed to be killed before everything is read.
  static NodeProgram SlowProgram() { return Program("", "", {"--pause_ms=20"}); }

  // What `millrace status --json` and `millrace nodes --json` print now.
  absl::StatusOr<Json> Status() { return Look(cli::StatusJson); }
  absl::StatusOr<Json> Nodes() { return Look(cli::NodesJson); }
  absl::StatusOr<Json> Look(OrderedJson (*print)(const ClusterView& view)) {
    MILLRACE_ASSIGN_OR_RETURN(const ClusterView view, client_->Snapshot());
    return ParseJson(DumpJson(print(view)));
  }

  // Follows the watch stream of the cluster.
  void Watch(const Cluster& cluster) {
    auto file = FindClusterFile(cluster.cluster_id());
    ASSERT_THAT(file, IsOk());
    auto client = RawClusterClient::Connect(ClusterClientOptionsFrom(*file));
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
    RawWatchCallbacks callbacks;
    callbacks.on_update = [this](const v1::WatchUpdate&, const ClusterView& view) {
      MutexLock lock(&mu_);
      feeds_.assign(view.feeds().begin(), view.feeds().end());
      nodes_.assign(view.nodes().begin(), view.nodes().end());
      for (const auto& [id, feed] : feeds_) {
        EXPECT_LE(feed.rows_acked(), feed.rows_received()) << feed.ShortDebugString();
      }
      changed_.SignalAll();
    };
    auto watch = client_->Watch({.interval = absl::Milliseconds(20)}, std::move(callbacks));
    ASSERT_THAT(watch, IsOk());
    watch_ = *std::move(watch);
  }

  // The only feed, once it is closed.
  v1::FeedInfo WaitForClosedFeed(size_t feeds = 1) {
    MutexLock lock(&mu_);
    const absl::Time deadline = absl::Now() + kPatience;
    while (absl::Now() < deadline) {
      for (const auto& entry : feeds_) {
        const v1::FeedInfo& feed = entry.second;
        const bool newest = std::none_of(feeds_.begin(), feeds_.end(), [&](const auto& other) {
          return other.second.opened().seconds() > feed.opened().seconds() ||
                 (other.second.opened().seconds() == feed.opened().seconds() &&
                  other.second.opened().nanos() > feed.opened().nanos());
        });
        if (feeds_.size() == feeds && newest && feed.closed()) return feed;
      }
      changed_.WaitWithTimeout(&mu_, absl::Seconds(1));
    }
    ADD_FAILURE() << "no feed was closed";
    return {};
  }

  std::vector<v1::WatchUpdate::Node> WatchedNodes() {
    MutexLock lock(&mu_);
    return nodes_;
  }

  void TearDown() override {
    watch_.reset();
    client_.reset();
    FaultTest::TearDown();
  }

  // Whatever was fed again, with the node that had it and why.
  using Refed = std::map<std::pair<std::string, std::string>, int64_t>;

  static Refed RefedOf(const Json& feed) {
    Refed refed;
    for (const Json& rows : feed.at("refed")) {
      refed[{rows.at("node").get<std::string>(), rows.at("reason").get<std::string>()}] +=
          rows.at("rows").get<int64_t>();
    }
    return refed;
  }

  // The ledger of `queue` by node, as the CLI tells it.
  static std::map<std::string, Json> NodesOf(const Json& nodes, const std::string& queue) {
    std::map<std::string, Json> found;
    for (const Json& node : nodes.at("nodes")) {
      for (const Json& ledger : node.at("ledger")) {
        if (ledger.at("queue") == queue) found[node.at("node")] = ledger;
      }
    }
    return found;
  }

  static void Kill(const Cluster& cluster, int executor_id) {
    const int64_t pid = NodePid(cluster, executor_id);
    if (pid > 1) ::kill(static_cast<pid_t>(pid), SIGKILL);
  }

  std::unique_ptr<RawClusterClient> client_;
  std::unique_ptr<ClusterWatch> watch_;
  Mutex mu_;
  CondVar changed_;
  std::vector<std::pair<std::string, v1::FeedInfo>> feeds_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::WatchUpdate::Node> nodes_ ABSL_GUARDED_BY(mu_);
};

TEST_F(LedgerViewTest, TrainingWhoseNodesAreKilledIsExactInTheCliAndInTheWatchStream) {
  constexpr int64_t kRows = 20000;
  auto cluster = Run(HealingOptions(), SlowProgram());
  ASSERT_THAT(cluster, IsOk());
  Watch(**cluster);
  absl::StatusOr<TrainResult> result = absl::UnknownError("not run");
  Thread train("train",
               [&] { result = (*cluster)->Train(RowSource(kRows, 8), {.batch_bytes = 4096}); });
  EXPECT_TRUE(log_.WaitForLine("worker:1", "fed"));
  for (int i = 0; i < 3; ++i) {
    Kill(**cluster, 1 - i % 2);
    absl::SleepFor(absl::Milliseconds(RandomU64() % 300));
  }
  train.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(result->rows_refed, 0);

  const v1::FeedInfo watched = WaitForClosedFeed();
  EXPECT_EQ(watched.rows_acked(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(watched.rows_received(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(watched.rows_refed(), static_cast<uint64_t>(result->rows_refed));
  EXPECT_EQ(watched.done(), 8);
  EXPECT_FALSE(watched.exactly_once());

  const absl::StatusOr<Json> status = Status();
  ASSERT_THAT(status, IsOk());
  const Json& feeds = status->at("feeds");
  ASSERT_THAT(feeds, SizeIs(1));
  EXPECT_EQ(feeds[0].at("rows_acked"), kRows);
  EXPECT_EQ(feeds[0].at("rows_refed"), result->rows_refed);
  std::map<std::string, int64_t> refed_by_node;
  int64_t refed = 0;
  for (const auto& [node_and_reason, rows] : RefedOf(feeds[0])) {
    EXPECT_THAT(node_and_reason.second, HasSubstr(node_and_reason.first));
    refed_by_node[node_and_reason.first] += rows;
    refed += rows;
  }
  EXPECT_EQ(refed, result->rows_refed);
  EXPECT_EQ(feeds[0].at("exactly_once"), false);
  const absl::StatusOr<ClusterView> view = client_->Snapshot();
  ASSERT_THAT(view, IsOk());
  EXPECT_THAT(cli::StatusText(*view, cli::Styler(false), 1000), HasSubstr("was restarted"));
  EXPECT_THAT(cli::NodesText(*view, cli::Styler(false), 1000), HasSubstr("RE-FED"));

  const absl::StatusOr<Json> nodes = Nodes();
  ASSERT_THAT(nodes, IsOk());
  const std::map<std::string, Json> ledger = NodesOf(*nodes, "input");
  ASSERT_THAT(ledger, SizeIs(2));
  int64_t acked = 0;  // by any attempt
  for (const auto& [node, queue] : ledger) {
    acked += queue.at("rows_acked").get<int64_t>();
    EXPECT_EQ(queue.at("rows_refed"), refed_by_node[node]) << node;
    EXPECT_EQ(queue.at("rows_returned"), 0) << node;
    EXPECT_GE(queue.at("rows_received"), queue.at("rows_acked")) << node;
    EXPECT_GT(queue.at("feeders").at("encode_us"), 0) << node;
    EXPECT_GT(queue.at("feeders").at("wire_us"), 0) << node;
  }
  EXPECT_GE(acked, kRows);
  EXPECT_LE(acked, kRows + refed);
  // The stream's nodes are the same.
  std::map<std::string, uint64_t> watched_acked;
  const std::vector<v1::WatchUpdate::Node> seen = WatchedNodes();
  for (size_t i = 0; i < seen.size(); ++i) {  // by executor id
    for (const v1::QueueLedger& queue : seen[i].ledger()) {
      watched_acked[absl::StrCat("worker:", i)] += queue.rows_acked();
    }
  }
  for (const auto& [node, queue] : ledger) {
    EXPECT_EQ(queue.at("rows_acked"), watched_acked[node]) << node;
  }
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(LedgerViewTest, InferenceIsInTheLedgerWithWhatCameBack) {
  constexpr int64_t kRows = 6000;
  auto cluster = Run(HealingOptions(), SlowProgram());
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(RowSource(100, 4), {.end_of_feed = true}), IsOk());
  Watch(**cluster);
  absl::Status status;
  int64_t results = 0;
  Thread infer("infer", [&] {
    auto result = (*cluster)->Inference(std::make_shared<MemorySource>(RowSource(kRows, 8)),
                                        {.batch_bytes = 2048});
    status = result.status();
    if (!result.ok()) return;
    status = result->ForEach([&](int, const RecordBatch& rows) {
      results += rows.num_rows();
      return absl::OkStatus();
    });
  });
  EXPECT_TRUE(log_.WaitForLine("worker:1", "inferring"));
  Kill(**cluster, 1);
  infer.Join();
  ASSERT_THAT(status, IsOk());
  EXPECT_EQ(results, kRows);

  const v1::FeedInfo watched = WaitForClosedFeed(2);
  EXPECT_EQ(watched.rows_returned(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(watched.rows_acked(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(watched.done(), 8);
  uint64_t refed = 0;
  for (const v1::RefedRows& rows : watched.refed()) {
    EXPECT_EQ(rows.executor_id(), 1);
    EXPECT_THAT(rows.reason(), HasSubstr("worker:1"));
    refed += rows.rows();
  }
  EXPECT_EQ(watched.rows_refed(), refed);
  EXPECT_EQ(watched.exactly_once(), refed == 0);
  const absl::StatusOr<Json> nodes = Nodes();
  ASSERT_THAT(nodes, IsOk());
  int64_t returned = 0;
  for (const auto& [node, queue] : NodesOf(*nodes, "input")) {
    returned += queue.at("rows_returned").get<int64_t>();
  }
  EXPECT_GE(returned, kRows);
  EXPECT_LE(returned, kRows + static_cast<int64_t>(refed));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(LedgerViewTest, WhatAProgramDidNotReadIsNotAcknowledged) {
  constexpr int64_t kRows = 20000;
  auto cluster = Run(Options(2), Program("terminate", "", {"--pause_ms=4"}));
  ASSERT_THAT(cluster, IsOk());
  Watch(**cluster);
  const absl::StatusOr<TrainResult> result =
      (*cluster)->Train(RowSource(kRows, 8), {.batch_bytes = 4096});
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->terminated);
  const v1::FeedInfo watched = WaitForClosedFeed();
  EXPECT_EQ(watched.rows_refed(), static_cast<uint64_t>(result->rows_refed));
  EXPECT_LT(watched.rows_acked(), static_cast<uint64_t>(kRows));
  EXPECT_EQ(watched.failed(), 0);
  const absl::StatusOr<Json> nodes = Nodes();
  ASSERT_THAT(nodes, IsOk());
  int64_t acked = 0;
  for (const auto& [node, queue] : NodesOf(*nodes, "input")) {
    acked += queue.at("rows_acked").get<int64_t>();
  }
  EXPECT_EQ(acked, result->rows);
  EXPECT_FALSE(result->exactly_once);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(LedgerViewTest, AFailedCallLeavesItsPartitionsFailedAndNothingAcknowledgedInAdvance) {
  constexpr int64_t kRows = 20000;
  auto cluster = Run(Options(2), SlowProgram());
  ASSERT_THAT(cluster, IsOk());
  Watch(**cluster);
  absl::StatusOr<TrainResult> result = absl::UnknownError("not run");
  Thread train("train",
               [&] { result = (*cluster)->Train(RowSource(kRows, 8), {.batch_bytes = 4096}); });
  EXPECT_TRUE(log_.WaitForLine("worker:1", "fed"));
  Kill(**cluster, 1);
  train.Join();
  EXPECT_THAT(result, Not(IsOk()));
  const v1::FeedInfo watched = WaitForClosedFeed();
  EXPECT_GT(watched.failed(), 0);
  EXPECT_EQ(watched.feeding(), 0);
  EXPECT_EQ(watched.received(), 0);
  EXPECT_LT(watched.rows_acked(), static_cast<uint64_t>(kRows));
  // Where its connection is seen to break before its death, that is tried again.
  for (const auto& refed : watched.refed()) {
    EXPECT_EQ(refed.reason(), "the connection to worker:1 was lost");
  }
}

}  // namespace
}  // namespace millrace::faults
