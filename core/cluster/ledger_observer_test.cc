#include "core/cluster/ledger_observer.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/client/raw_cluster_client.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/train_job_fixture.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using Session = FakeFeedNode::Session;
using RowsByReason = std::map<std::pair<std::string, std::string>, int64_t>;  // and node

class HookedObserver final : public LedgerObserver {
 public:
  using LedgerObserver::LedgerObserver;

  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    if (on_feed_end) std::exchange(on_feed_end, nullptr)();
    return LedgerObserver::FeedEnd(feed_id, aborted);
  }

  std::function<void()> on_feed_end;
};

// Jobs with nodes that do as they are told, and the ledger that their reports make.
class LedgerObserverTest : public TrainJobTest {
 protected:
  void SetUp() override {
    TrainJobTest::SetUp();
    CoordinatorOptions options;
    options.roles = *DealRoles({.num_executors = 2});
    options.program.path = "/bin/true";
    auto coordinator = Coordinator::Start(std::move(options));
    ASSERT_THAT(coordinator, IsOk());
    coordinator_ = *std::move(coordinator);
  }

  // worker:<executor_id>
  FakeFeedNode& AddWorker(int executor_id, FakeFeedNode::Script script, const std::string& nonce) {
    const std::string name = absl::StrCat("worker:", executor_id);
    nodes_.push_back(std::make_unique<FakeFeedNode>(name, std::move(script), nonce));
    FeedTarget target = nodes_.back()->target();
    target.executor_id = executor_id;
    directory_.Set(target);
    return *nodes_.back();
  }

  // Runs a job of one epoch; `on_feed_end` is called once all is received.
  TrainTally RunJob(const PartitionedSource& source, std::function<void()> on_feed_end) {
    HookedObserver observer(coordinator_.get(), /*progress=*/nullptr, Options().feed_id,
                            source.num_partitions(), /*num_epochs=*/1);
    observer.on_feed_end = std::move(on_feed_end);
    EXPECT_THAT(observer.Open("input"), IsOk());
    TrainJob job(feeder_.get(), &directory_, &source, &observer, Options());
    auto tally = job.Run();
    EXPECT_THAT(tally, IsOk());
    return tally.ok() ? *std::move(tally) : TrainTally();
  }

  // What the ledger and the job have counted alike.
  void ExpectSame(const TrainTally& tally) {
    const auto summary = coordinator_->FeedSummaryOf(Options().feed_id);
    ASSERT_THAT(summary, IsOk());
    EXPECT_EQ(static_cast<int64_t>(summary->rows_refed), tally.rows_refed());
    EXPECT_EQ(summary->exactly_once, tally.refed.empty());
    RowsByReason in_ledger;
    for (const RefedSummary& rows : summary->refed) {
      in_ledger[{absl::StrCat("worker:", rows.executor_id), rows.reason}] +=
          static_cast<int64_t>(rows.rows);
    }
    RowsByReason in_job;
    for (const RefedRows& rows : tally.refed) in_job[{rows.node, rows.reason}] += rows.rows;
    EXPECT_EQ(in_ledger, in_job);

    ClusterClientOptions options;
    options.address = coordinator_->address();
    options.ca_pem = coordinator_->ca_pem();
    options.identity_pem = coordinator_->viewer_identity_pem();
    options.viewer_token = coordinator_->tokens().viewer;
    auto client = RawClusterClient::Connect(options);
    ASSERT_THAT(client, IsOk());
    const auto view = (*client)->Snapshot();
    ASSERT_THAT(view, IsOk());
    std::map<std::string, int64_t> rows_by_node;
    for (const v1::WatchUpdate::Node& node : view->nodes()) {
      for (const v1::QueueLedger& queue : node.ledger()) {
        if (queue.rows_acked() == 0) continue;
        rows_by_node[absl::StrCat("worker:", node.executor_id())] +=
            static_cast<int64_t>(queue.rows_acked());
      }
    }
    EXPECT_EQ(rows_by_node, tally.rows_by_node);
  }

  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(LedgerObserverTest, RowsThatWereUsedTwiceCountOnceInTheSumAndTwiceOfTheirNodes) {
  constexpr int64_t kRows = 30;
  FakeFeedNode& old = AddWorker(0, FakeFeedNode::ReceiveOnly(), "old");
  AddWorker(1, FakeFeedNode::ReadAll(), "only");
  Thread restart;
  const auto source = IdSource(/*partitions=*/6, kRows);
  const TrainTally tally = RunJob(source, [&] {
    old.Post([](Session& session) { session.Ack(20); });
    old.Kill();
    directory_.SetState("worker:0", FeedTarget::State::kRestarting);
    const int before = directory_.lookups();
    restart = Thread("restart", [this, before] {
      EXPECT_TRUE(directory_.WaitForLookups(before + 2));
      AddWorker(0, FakeFeedNode::ReadAll(), "new");
    });
  });
  restart.Join();
  EXPECT_FALSE(tally.terminated);
  EXPECT_GT(tally.rows_refed(), 0);
  EXPECT_GT(tally.rows(), 6 * kRows);
  EXPECT_EQ(coordinator_->FeedSummaryOf(Options().feed_id)->rows_acked, 6u * kRows);
  ExpectSame(tally);
}

TEST_F(LedgerObserverTest, WhatNobodyReadsIsNotCounted) {
  for (const int executor_id : {0, 1}) {
    AddWorker(
        executor_id,
        [](Session& session, FrameType type) {
          if (type == FrameType::kOpen) session.CreditAll();
          if (type != FrameType::kBatch) return;
          session.Received(session.row);
          session.Ack(session.row);
          session.Terminated();
        },
        absl::StrCat("nonce", executor_id));
  }
  const TrainTally tally = RunJob(IdSource(/*partitions=*/100, /*rows=*/40), nullptr);
  EXPECT_TRUE(tally.terminated);
  EXPECT_EQ(coordinator_->FeedSummaryOf(Options().feed_id)->rows_acked,
            static_cast<uint64_t>(tally.rows()));
  ExpectSame(tally);
}

}  // namespace
}  // namespace millrace
