#include "feed/feeder/train_job.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job_fixture.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Pair;
using ::testing::SizeIs;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;
using State = FeedTarget::State;

TEST_F(TrainJobTest, EveryRowArrivesExactlyOnce) {
  FakeFeedNode& a = AddNode("worker:0", FakeFeedNode::ReadAll());
  FakeFeedNode& b = AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(/*partitions=*/7, /*rows=*/33);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows(), 7 * 33);
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_GT(result->elapsed, absl::ZeroDuration());
  std::vector<int64_t> all = a.values();
  const std::vector<int64_t> others = b.values();
  EXPECT_THAT(all, Not(IsEmpty()));
  EXPECT_THAT(others, Not(IsEmpty()));
  EXPECT_EQ(result->rows_by_node["worker:1"], static_cast<int64_t>(others.size()));
  all.insert(all.end(), others.begin(), others.end());
  EXPECT_EQ(Sorted(all), IdRange(0, 7 * 33));
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f", false)));
  // On a slow machine some are told of while they go on.
  EXPECT_GE(observer_.Count(PartitionProgress::State::kFeeding), 7);
  EXPECT_GE(observer_.Count(PartitionProgress::State::kReceived), 7);
  EXPECT_EQ(observer_.Count(PartitionProgress::State::kAcknowledged), 7);
  absl::Duration credit;
  for (const PartitionProgress& report : observer_.reports()) {
    if (report.state != PartitionProgress::State::kAcknowledged) continue;
    EXPECT_EQ(report.acked_rows, 33);
    EXPECT_GT(report.times.source, absl::ZeroDuration());
    EXPECT_GT(report.times.encode, absl::ZeroDuration());
    EXPECT_GT(report.times.wire, absl::ZeroDuration());
    credit += report.times.credit;
  }
  // Until they were accepted: on a slow machine some are before they have something to send.
  EXPECT_GT(credit, absl::ZeroDuration());
}

TEST_F(TrainJobTest, EpochsFollowOneAnotherWithinOneFeed) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(2, 10);
  auto result = Run(source, Options(/*epochs=*/3));
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 60);
  std::vector<std::pair<int64_t, int64_t>> order;
  for (const Event& event : node.events()) {
    if (event.type != FrameType::kOpen) continue;
    order.emplace_back(event.open.data_epoch, event.open.partition);
    EXPECT_EQ(event.open.feed_id, "f");
  }
  EXPECT_THAT(order,
              ElementsAre(Pair(0, 0), Pair(0, 1), Pair(1, 0), Pair(1, 1), Pair(2, 0), Pair(2, 1)));
  EXPECT_THAT(observer_.ends(), SizeIs(1));
}

TEST_F(TrainJobTest, EmptyPartitionsAndAnEmptySourceAreFed) {
  AddNode("worker:0", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(5, 0);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 0);
  EXPECT_EQ(observer_.Count(PartitionProgress::State::kAcknowledged), 5);
}

TEST_F(TrainJobTest, MoreNodesThanPartitionsIsFine) {
  for (int i = 0; i < 4; ++i) AddNode(absl::StrCat("worker:", i), FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(1, 5);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 5);
}

// Of equal feeds. A received partition changes lists: its rows count all the same.
TEST_F(TrainJobTest, TheNodeWithTheFewestRowsGetsTheNextPartition) {
  AddNode("worker:0", FakeFeedNode::ReadAll());
  AddNode("worker:1", FakeFeedNode::ReadAll());
  directory_.SetEqual();
  Notification first_received, last_begun;
  std::string many, last;  // nodes
  observer_.on_partition = [&](const PartitionProgress& report) {
    if (report.state == PartitionProgress::State::kFeeding && report.partition == 2 &&
        !last_begun.HasBeenNotified()) {
      last = report.node;
      last_begun.Notify();
    }
    if (report.state != PartitionProgress::State::kReceived) return;
    if (report.partition == 0) {
      many = report.node;
      if (!first_received.HasBeenNotified()) first_received.Notify();
      last_begun.WaitForNotificationWithTimeout(absl::Seconds(10));
    } else if (report.partition == 1) {
      first_received.WaitForNotification();
    }
  };
  std::vector<std::vector<RecordBatch>> partitions;
  partitions.push_back({Ids(0, 100)});
  partitions.push_back({Ids(100, 1)});
  partitions.push_back({Ids(101, 1)});
  const auto source = MemorySource::Create(std::move(partitions));
  ASSERT_THAT(source, IsOk());
  ASSERT_THAT(Run(**source, Options()), IsOk());
  EXPECT_NE(last, many);
}

// Of equal feeds. A rank takes no more than its budget before the others have rows too.
TEST_F(TrainJobTest, WhatARankIsFedAgainDoesNotKeepTheOthersWaiting) {
  FakeFeedNode& old = AddNode("worker:0", FakeFeedNode::ReceiveOnly(), "old");
  FakeFeedNode& other = AddNode("worker:1", FakeFeedNode::ReadAll());
  directory_.SetEqual();
  std::atomic<bool> waits = true;
  const FakeFeedNode::Script waiting = [&waits, read = FakeFeedNode::ReadAll()](
                                           FakeFeedNode::Session& s, FrameType type) {
    if (!waits) return read(s, type);
    if (type == FrameType::kOpen) s.Credit(1, 0);
  };
  const auto opened = [](const std::vector<FakeFeedNode::Event>& events) {
    return std::count_if(events.begin(), events.end(),
                         [](const auto& event) { return event.type == FrameType::kOpen; });
  };
  Thread restart;
  int received = 0;
  observer_.on_partition = [&](const PartitionProgress& report) {
    if (report.state != PartitionProgress::State::kReceived || report.node != "worker:0") return;
    if (++received != 3) return;
    directory_.SetState("worker:0", State::kRestarting);
    old.Kill();
    const auto before = opened(other.events());
    restart = Thread("restart", [&, before] {
      FakeFeedNode& again = AddNode("worker:0", waiting, "new");
      EXPECT_TRUE(other.WaitFor([&](const auto& events) { return opened(events) > before + 2; }));
      waits = false;
      again.Post([](FakeFeedNode::Session& s) { s.CreditAll(); });
    });
  };
  const absl::StatusOr<TrainTally> result = Run(IdSource(16, 10), Options());
  restart.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows_refed(), 30);
  EXPECT_EQ(result->rows(), 160);
}

// A rank whose connection was lost has had rows of which the feeder knows nothing. It cannot go on
// before the others have as many, so they are not kept waiting for it.
TEST_F(TrainJobTest, WhatARankHasToldIsNotForgotten) {
  FakeFeedNode& other = AddNode("worker:0", FakeFeedNode::ReadAll());
  std::atomic<bool> waits = true;
  FakeFeedNode& full = AddNode("worker:1", [&waits, read = FakeFeedNode::ReadAll()](
                                               FakeFeedNode::Session& s, FrameType type) {
    if (!waits) return read(s, type);
    if (type == FrameType::kOpen) s.Credit(1, 0);
  });
  directory_.SetEqual();
  directory_.SetEqualRows("worker:1", 15);
  Thread relief("relief", [&] {
    EXPECT_TRUE(other.WaitFor([](const std::vector<FakeFeedNode::Event>& events) {
      return std::count_if(events.begin(), events.end(),
                           [](const auto& event) { return event.type == FrameType::kOpen; }) == 2;
    }));
    waits = false;
    full.Post([](FakeFeedNode::Session& s) { s.CreditAll(); });
  });
  const absl::StatusOr<TrainTally> result = Run(IdSource(4, 10), Options());
  relief.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 40);
}

// A thread that has nothing for a rank now does not keep what a restarted one is to be fed again.
TEST_F(TrainJobTest, ARestartedRankIsFedWhileAnotherOneIsFull) {
  std::atomic<bool> waits = true;
  FakeFeedNode& full = AddNode("worker:0", [&waits, read = FakeFeedNode::ReadAll()](
                                               FakeFeedNode::Session& s, FrameType type) {
    if (!waits) return read(s, type);
    if (type == FrameType::kOpen) s.Credit(1, 0);
  });
  FakeFeedNode& old = AddNode("worker:1", FakeFeedNode::ReceiveOnly(), "old");
  directory_.SetEqual();
  Thread restart;
  std::atomic<int> received = 0;
  observer_.on_partition = [&](const PartitionProgress& report) {
    if (report.state != PartitionProgress::State::kReceived || received++ > 0) return;
    restart = Thread("restart", [&] {
      directory_.SetState("worker:1", State::kRestarting);
      old.Kill();
      FakeFeedNode& again = AddNode("worker:1", FakeFeedNode::ReadAll(), "new");
      EXPECT_TRUE(again.WaitFor([](const auto& events) { return !events.empty(); }));
      waits = false;
      full.Post([](FakeFeedNode::Session& s) { s.CreditAll(); });
    });
  };
  const absl::StatusOr<TrainTally> result = Run(IdSource(3, 10), Options());
  restart.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows_refed(), 10);
  EXPECT_EQ(result->rows(), 30);
}

TEST_F(TrainJobTest, OptionsThatMakeNoSenseAreInvalid) {
  const MemorySource source = IdSource(1, 1);
  EXPECT_THAT(Run(source, Options()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no node to feed")));
  AddNode("worker:0", FakeFeedNode::ReadAll());
  EXPECT_THAT(Run(source, Options(0)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_epochs")));
  TrainJobOptions options = Options();
  options.max_feeding_threads = 0;
  EXPECT_THAT(Run(source, options), StatusIs(absl::StatusCode::kInvalidArgument));
  options = Options();
  options.feed_timeout = absl::ZeroDuration();
  EXPECT_THAT(Run(source, options), StatusIs(absl::StatusCode::kInvalidArgument));
}

// A program that holds the tail of its last batch until feed_end comes.
TEST_F(TrainJobTest, TheFeedEndsWhenAllIsReceivedAndTheCallWhenAllIsAcknowledged) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  observer_.on_feed_end = [&](const std::string&) {
    EXPECT_THAT(node.values(), SizeIs(90));
    node.Post([](Session& s) { s.Done(s.row, 0); });
  };
  const MemorySource source = IdSource(3, 30);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 90);
}

TEST_F(TrainJobTest, NoAcknowledgementAfterTheFeedEndTimesOut) {
  AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  TrainJobOptions options = Options();
  options.feed_timeout = absl::Milliseconds(200);
  const MemorySource source = IdSource(1, 20);
  EXPECT_THAT(Run(source, options),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("worker:0 acknowledged no row of partition 0 (queue 'input') for "
                                 "200ms: 20 rows received, 0 acknowledged")));
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f", false), Pair("f", true)));
  EXPECT_TRUE(nodes_[0]->WaitFor(
      [](const auto& events) { return events.back().type == FrameType::kAbort; }));
}

TEST_F(TrainJobTest, AnErrorOfANodeFailsTheCallAndAbortsTheOthers) {
  AddNode("worker:0", [](Session& session, FrameType type) {
    FakeFeedNode::ReceiveOnly()(session, type);
    if (type == FrameType::kBatch) {
      session.Error(absl::InvalidArgumentError("column x:\n\x1b[31mbad"));
    }
  });
  AddNode("worker:1", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.Credit(1, 0);  // less than any batch
  });
  const MemorySource source = IdSource(4, 50);
  EXPECT_THAT(Run(source, Options()), StatusIs(absl::StatusCode::kInvalidArgument,
                                               AllOf(HasSubstr("worker:0, partition"),
                                                     HasSubstr("column x:\\n\\x1b[31mbad"))));
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f", true)));
}

TEST_F(TrainJobTest, AnErrorOfTheSourceFailsTheCall) {
  AddNode("worker:0", FakeFeedNode::ReadAll());
  const auto source = StreamSource::Create(
      2, [](int, int64_t, ArrowArrayStream*) { return absl::NotFoundError("no file"); }, true);
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT(Run(**source, Options()),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("the source, partition 0"), HasSubstr("no file"))));
}

TEST_F(TrainJobTest, AnErrorOfTheObserverFailsTheCall) {
  AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  observer_.result = absl::UnavailableError("coordinator gone");
  const MemorySource source = IdSource(1, 5);
  EXPECT_THAT(Run(source, Options()), StatusIs(absl::StatusCode::kUnavailable, "coordinator gone"));
}

TEST_F(TrainJobTest, CancelEndsTheCallAtOnce) {
  FakeFeedNode& node = AddNode("worker:0", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.Credit(1, 0);
  });
  const MemorySource source = IdSource(1, 100);
  TrainJob job(feeder_.get(), &directory_, &source, &observer_, Options());
  absl::StatusOr<TrainTally> result;
  absl::Time ended;
  Thread runner("runner", [&] {
    result = job.Run();
    ended = absl::Now();
  });
  ASSERT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 3; }));
  const absl::Time cancelled = absl::Now();
  job.Cancel(absl::CancelledError("not wanted"));
  runner.Join();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, "not wanted"));
  EXPECT_THAT(ended - cancelled, Lt(absl::Milliseconds(500)));
  EXPECT_THAT(observer_.ends(), ElementsAre(Pair("f", true)));
}

TEST_F(TrainJobTest, CancelEndsAWaitForARestartAtOnce) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  directory_.SetState("worker:0", State::kRestarting);
  const MemorySource source = IdSource(1, 100);
  TrainJob job(feeder_.get(), &directory_, &source, &observer_, Options());
  absl::StatusOr<TrainTally> result;
  Thread runner("runner", [&] { result = job.Run(); });
  ASSERT_TRUE(directory_.WaitForLookups(2));
  const absl::Time cancelled = absl::Now();
  job.Cancel(absl::CancelledError("not wanted"));
  runner.Join();
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled, "not wanted"));
  EXPECT_THAT(absl::Now() - cancelled, Lt(absl::Milliseconds(500)));
  EXPECT_THAT(node.events(), IsEmpty());
}

// ------------------------------------------------------------------------------ nodes that stop

// Yields one batch, then waits for rows that never come.
class WaitingSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return true; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    return std::make_unique<Reader>(this);
  }
  mutable Notification waiting;
  mutable std::atomic<int> cancelled{0};

 private:
  class Reader final : public RecordBatchReader {
   public:
    explicit Reader(const WaitingSource* source) : source_(source) {}
    const Schema& schema() const override { return rows_.schema(); }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (!std::exchange(read_, true)) return std::optional(rows_);
      source_->waiting.Notify();
      cancel_.WaitForNotification();
      return absl::CancelledError("cancelled");
    }
    void Cancel() override {
      if (source_->cancelled++ == 0) cancel_.Notify();
    }

   private:
    const WaitingSource* const source_;
    const RecordBatch rows_ = Ids(0, 10);
    bool read_ = false;
    Notification cancel_;
  };
};

TEST_F(TrainJobTest, AnEarlyStopEndsTheSourceThatWaits) {
  WaitingSource source;
  AddNode("worker:0", [&source](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type != FrameType::kBatch) return;
    session.Ack(10);
    source.waiting.WaitForNotification();
    session.Terminated();
  });
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->terminated);
  EXPECT_EQ(result->rows(), 10);
  EXPECT_GE(source.cancelled, 1);
}

TEST_F(TrainJobTest, AnErrorOfANodeEndsTheSourceThatWaits) {
  WaitingSource source;
  AddNode("worker:0", [&source](Session& session, FrameType type) {
    FakeFeedNode::ReceiveOnly()(session, type);
    if (type != FrameType::kBatch) return;
    source.waiting.WaitForNotification();
    session.Error(absl::InvalidArgumentError("column x"));
  });
  EXPECT_THAT(Run(source, Options()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column x")));
  EXPECT_GE(source.cancelled, 1);
}

TEST_F(TrainJobTest, CancelEndsTheSourceThatWaits) {
  WaitingSource source;
  AddNode("worker:0", FakeFeedNode::ReadAll());
  TrainJob job(feeder_.get(), &directory_, &source, &observer_, Options());
  Thread cancel("cancel", [&] {
    source.waiting.WaitForNotification();
    job.Cancel(absl::AbortedError("enough"));
  });
  EXPECT_THAT(job.Run(), StatusIs(absl::StatusCode::kAborted, "enough"));
  cancel.Join();
}

TEST_F(TrainJobTest, WhatATerminatedNodeDidNotUseGoesToTheOthers) {
  // Takes 25 rows, uses 15 of them.
  FakeFeedNode& quitter = AddNode("worker:0", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kBatch && session.row >= 20) {
      session.Received(session.row);
      session.Ack(15);
      session.Terminated();
    }
  });
  const MemorySource source = IdSource(6, 40);
  AddNode("worker:1", FakeFeedNode::ReadAll());
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows(), 240);
  EXPECT_THAT(result->refed, IsEmpty());
  int64_t opens = 0;
  for (const Event& event : quitter.events()) opens += event.type == FrameType::kOpen;
  // Both feeding threads may have chosen it before it stopped; no thread may afterwards.
  EXPECT_THAT(opens, testing::AnyOf(1, 2));
  EXPECT_EQ(result->rows_by_node["worker:0"], 15 * opens);
  bool resumed = false;
  for (const Event& event : nodes_[1]->events()) {
    resumed |= event.type == FrameType::kOpen && event.open.first_row == 15;
  }
  EXPECT_TRUE(resumed);
}

// A node that is asked to stop while its program uses a batch.
TEST_F(TrainJobTest, WhatATerminatedNodeHadInHandIsFedAgainAndCounted) {
  AddNode("worker:0", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kBatch && session.row >= 20) {
      session.Received(session.row);
      session.Ack(15);
      session.Terminated(18);
    }
  });
  const MemorySource source = IdSource(6, 40);
  AddNode("worker:1", FakeFeedNode::ReadAll());
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 240);
  ASSERT_FALSE(result->refed.empty());
  for (const RefedRows& refed : result->refed) EXPECT_EQ(refed.rows, 3);
}

TEST_F(TrainJobTest, ReceivedPartitionsOfATerminatedNodeGoToTheOthersToo) {
  FakeFeedNode& quitter = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  AddNode("worker:1", FakeFeedNode::ReadAll());
  bool first = true;
  observer_.on_feed_end = [&](const std::string& feed_id) {
    if (!std::exchange(first, false)) return;
    EXPECT_EQ(feed_id, "f");
    quitter.Post([](Session& s) { s.Terminated(); });
  };
  const MemorySource source = IdSource(4, 20);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 80);
  EXPECT_THAT(result->rows_by_node, ElementsAre(Pair("worker:1", 80)));
  EXPECT_EQ(Sorted(nodes_[1]->values()), IdRange(0, 80));
  // The first feed was over at the nodes.
  EXPECT_EQ(observer_.ends().front(), (std::pair<std::string, bool>("f", false)));
  EXPECT_EQ(observer_.ends().back(), (std::pair<std::string, bool>("f.1", false)));
}

TEST_F(TrainJobTest, TheCallIsOkWhenNoNodeReadsAnyMore) {
  for (const char* name : {"worker:0", "worker:1"}) {
    AddNode(name, [](Session& session, FrameType type) {
      if (type == FrameType::kOpen) session.CreditAll();
      if (type == FrameType::kBatch) {
        session.Received(session.row);
        session.Ack(session.row);
        session.Terminated();
      }
    });
  }
  const MemorySource source = IdSource(100, 40);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->terminated);
  // Ten rows of each session; what the first node left may have reached the second before it
  // stopped.
  EXPECT_EQ(result->rows_by_node.size(), 2u);
  EXPECT_THAT(result->rows(), testing::AnyOf(20, 30));
}

TEST_F(TrainJobTest, ANodeThatFinishedIsAsOneThatTerminated) {
  AddNode("worker:0", FakeFeedNode::ReadAll());
  AddNode("worker:1", FakeFeedNode::ReadAll()).Kill();
  directory_.SetState("worker:1", State::kFinished);
  const MemorySource source = IdSource(4, 10);
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->rows_by_node, ElementsAre(Pair("worker:0", 40)));
}

// ---- nodes that are lost

TEST_F(TrainJobTest, AFailedNodeFailsTheCallWithItsCause) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  AddNode("worker:1", FakeFeedNode::ReadAll());
  const MemorySource source = IdSource(2, 20);
  observer_.on_feed_end = [&](const std::string&) {
    node.Kill();
    directory_.SetState("worker:0", State::kFailed,
                        absl::AbortedError("killed by signal 11 (SIGSEGV)"));
  };
  EXPECT_THAT(Run(source, Options()), StatusIs(absl::StatusCode::kAborted,
                                               "worker:0 failed: killed by signal 11 (SIGSEGV)"));
}

// The process is gone, and the coordinator does not know yet.
TEST_F(TrainJobTest, TheCauseIsWaitedForWhenTheConnectionBreaksFirst) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  const MemorySource source = IdSource(1, 20);
  Thread coordinator;
  observer_.on_feed_end = [&](const std::string&) {
    const int before = directory_.lookups();
    node.Kill();
    coordinator = Thread("coordinator", [this, before] {
      EXPECT_TRUE(directory_.WaitForLookups(before + 3));
      directory_.SetState("worker:0", State::kFailed, absl::AbortedError("exit code 3"));
    });
    observer_.on_feed_end = nullptr;
  };
  EXPECT_THAT(Run(source, Options()),
              StatusIs(absl::StatusCode::kAborted, "worker:0 failed: exit code 3"));
}

// Its own error comes before the coordinator knows of its end.
TEST_F(TrainJobTest, AProgramThatEndsWithAnErrorIsFedAgainWhereItIsStartedAgain) {
  const absl::Status error = absl::InternalError("loss is NaN");
  AddNode(
      "worker:0",
      [&](Session& session, FrameType type) {
        FakeFeedNode::ReceiveOnly()(session, type);
        if (type == FrameType::kBatch) session.Error(error, /*program_ended=*/true);
      },
      "old");
  const MemorySource source = IdSource(1, 30);
  const Thread restart("restart", [this] {
    EXPECT_TRUE(directory_.WaitForLookups(3));
    directory_.SetState("worker:0", State::kRestarting);
    EXPECT_TRUE(directory_.WaitForLookups(5));
    AddNode("worker:0", FakeFeedNode::ReadAll(), "new");
  });
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->rows_by_node, ElementsAre(Pair("worker:0", 30)));
}

TEST_F(TrainJobTest, AProgramThatEndsWithAnErrorFailsTheCallWhereItIsNot) {
  AddNode("worker:0", [this](Session& session, FrameType type) {
    FakeFeedNode::ReceiveOnly()(session, type);
    if (type != FrameType::kBatch) return;
    session.Error(absl::InternalError("loss is NaN"), /*program_ended=*/true);
    directory_.SetState("worker:0", State::kFailed, absl::AbortedError("exit code 1"));
  });
  EXPECT_THAT(Run(IdSource(1, 30), Options()),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("loss is NaN")));
}

TEST_F(TrainJobTest, ARestartedNodeIsFedFromRowZeroAndTheRowsAreCounted) {
  FakeFeedNode& old = AddNode("worker:0", FakeFeedNode::ReceiveOnly(), "old");
  const MemorySource source = IdSource(1, 30);
  Thread restart;
  observer_.on_feed_end = [&](const std::string&) {
    observer_.on_feed_end = nullptr;
    old.Post([](Session& s) { s.Ack(20); });
    old.Kill();
    directory_.SetState("worker:0", State::kRestarting);
    const int before = directory_.lookups();
    restart = Thread("restart", [this, before] {
      EXPECT_TRUE(directory_.WaitForLookups(before + 2));
      AddNode("worker:0", FakeFeedNode::ReadAll(), "new");
    });
  };
  auto result = Run(source, Options());
  restart.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(nodes_[1]->values(), IdRange(0, 30));
  EXPECT_EQ(result->rows_refed(), 30);
  ASSERT_THAT(result->refed, SizeIs(1));
  EXPECT_EQ(result->refed[0].reason, "worker:0 was restarted");
  EXPECT_EQ(result->rows_by_node["worker:0"], 20 + 30);
}

TEST_F(TrainJobTest, ANodeThatDoesNotComeBackIsUnavailable) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  const MemorySource source = IdSource(1, 20);
  observer_.on_feed_end = [&](const std::string&) {
    directory_.SetState("worker:0", State::kRestarting);
    node.Kill();
  };
  TrainJobOptions options = Options();
  options.feed_timeout = absl::Milliseconds(300);
  EXPECT_THAT(Run(source, options),
              StatusIs(absl::StatusCode::kUnavailable, AllOf(HasSubstr("worker:0, partition 0"),
                                                             HasSubstr("restarting for 300ms"))));
}

// Further apart than feed_timeout, with rows in between.
TEST_F(TrainJobTest, ASecondFailureOfALongPartitionIsNoTimeout) {
  int batches = 0;
  AddNode("worker:0", [&batches, read = FakeFeedNode::ReadAll()](Session& s, FrameType type) {
    if (type == FrameType::kBatch && ++batches <= 3) {
      s.Received(s.row);
      s.Ack(s.row);
      if (batches > 1) absl::SleepFor(absl::Milliseconds(2200));
      return s.Error(absl::UnavailableError("the connection was lost"));
    }
    return read(s, type);
  });
  const MemorySource source = IdSource(1, 40);
  TrainJobOptions options = Options();
  options.batch_bytes = 100;
  options.feed_timeout = absl::Seconds(4);
  auto result = Run(source, options);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 40);
  EXPECT_GT(batches, 3);
}

// The same process behind another socket stands for a connection that was lost.
class LostConnectionTest : public TrainJobTest {
 protected:
  // Acknowledges 12 of 30 rows, then the connection is lost; the process listens again.
  absl::StatusOr<TrainTally> LoseConnection(const PartitionedSource& source) {
    FakeFeedNode& old = AddNode("worker:0", FakeFeedNode::ReceiveOnly(), "same");
    observer_.on_feed_end = [this, &old](const std::string&) {
      observer_.on_feed_end = nullptr;
      old.Post([](Session& s) { s.Ack(12); });
      AddNode("worker:0", FakeFeedNode::ReadAll(), "same");
      old.Kill();
    };
    return Run(source, Options());
  }
};

TEST_F(LostConnectionTest, ResumesAtTheFirstRowNotAcknowledged) {
  const MemorySource source = IdSource(1, 30);
  auto result = LoseConnection(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(nodes_[1]->values(), IdRange(12, 30));
  EXPECT_EQ(nodes_[1]->events()[0].open.first_row, 12);
  EXPECT_EQ(result->rows(), 30);
  // The rest may have been used too, and word of it lost.
  EXPECT_EQ(result->rows_refed(), 18);
  ASSERT_THAT(result->refed, SizeIs(1));
  EXPECT_EQ(result->refed[0].reason, "the connection to worker:0 was lost");
}

// The node may see it first, and say so where replies still go.
TEST_F(LostConnectionTest, ThatTheNodeTellsIsNoFailureOfTheNode) {
  const MemorySource source = IdSource(1, 30);
  bool told = false;
  FakeFeedNode& node = AddNode("worker:0", [&told](Session& session, FrameType type) {
    if (told) return FakeFeedNode::ReadAll()(session, type);
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kEndPartition) {
      told = true;
      session.Ack(12);
      session.Error(absl::UnavailableError("worker:0 lost the data connection of this session"));
    }
  });
  auto result = Run(source, Options());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->rows(), 30);
  EXPECT_EQ(result->rows_refed(), 18);
  bool resumed = false;
  for (const Event& event : node.events()) {
    resumed |= event.type == FrameType::kOpen && event.open.first_row == 12;
  }
  EXPECT_TRUE(resumed);
}

TEST_F(LostConnectionTest, BeginsAgainIfTheSourceIsNotDeterministic) {
  const UnstableSource source(IdSource(1, 30));
  auto result = LoseConnection(source);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(nodes_[1]->values(), IdRange(0, 30));
  EXPECT_EQ(result->rows_refed(), 30);
  EXPECT_EQ(observer_.Count(PartitionProgress::State::kRefeeding), 1);
}

// ---- while the source waits

// Yields rows 0 to 9, then, once Notify()ed, 10 to 14. Its readers cannot be cancelled.
class LiveSource final : public PartitionedSource {
 public:
  explicit LiveSource(bool deterministic = true) : deterministic_(deterministic) {}
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return deterministic_; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    ++opened;
    return std::make_unique<Reader>(this);
  }
  Notification go;
  mutable Notification waiting;
  mutable std::atomic<int> opened{0};

 private:
  class Reader final : public RecordBatchReader {
   public:
    explicit Reader(const LiveSource* source) : source_(source) {}
    const Schema& schema() const override { return rows_.schema(); }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (batch_ == 2) return std::optional<RecordBatch>();
      if (batch_++ == 0) return std::optional(rows_);
      source_->waiting.Notify();
      source_->go.WaitForNotification();
      return std::optional(Ids(10, 5));
    }

   private:
    const LiveSource* const source_;
    const RecordBatch rows_ = Ids(0, 10);
    int batch_ = 0;
  };

  const bool deterministic_;
};

class LiveSourceTest : public TrainJobTest {
 protected:
  // Once it has a batch, worker:0 acknowledges the rows before `row` and dies; the next one, which
  // is returned, does as `script` says, and has a batch too although the source waits.
  FakeFeedNode& Replace(FakeFeedNode& node, int64_t row, const std::string& nonce,
                        FakeFeedNode::Script script) {
    EXPECT_TRUE(node.WaitFor(HasBatch));
    node.Post([row](Session& session) { session.Ack(row); });
    FakeFeedNode& next = AddNode("worker:0", std::move(script), nonce);
    node.Kill();
    EXPECT_TRUE(next.WaitFor(HasBatch));
    return next;
  }

  static bool HasBatch(const std::vector<Event>& events) {
    return std::any_of(events.begin(), events.end(),
                       [](const Event& event) { return event.type == FrameType::kBatch; });
  }
};

TEST_F(LiveSourceTest, WhatALostConnectionHadIsFedAgainWithoutTheNextRow) {
  LiveSource source;
  FakeFeedNode* node = &AddNode("worker:0", FakeFeedNode::ReceiveOnly(), "same");
  Thread life("life", [&] {
    source.waiting.WaitForNotification();
    node = &Replace(*node, 4, "same", FakeFeedNode::ReceiveOnly());
    EXPECT_EQ(node->values(), IdRange(4, 10));
    node = &Replace(*node, 6, "same", FakeFeedNode::ReadAll());
    EXPECT_EQ(node->values(), IdRange(6, 10));
    source.go.Notify();
  });
  auto result = Run(source, Options());
  life.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(node->values(), IdRange(6, 15));
  EXPECT_EQ(result->rows(), 15);
  EXPECT_EQ(result->rows_refed(), 6 + 4);
  EXPECT_EQ(source.opened, 1) << "what was read is kept";
}

// The second time from a reader of its own.
TEST_F(LiveSourceTest, ARestartedNodeIsFedFromRowZeroWithoutTheNextRow) {
  LiveSource source(/*deterministic=*/false);
  FakeFeedNode* node = &AddNode("worker:0", FakeFeedNode::ReceiveOnly(), "old");
  Thread life("life", [&] {
    source.waiting.WaitForNotification();
    node = &Replace(*node, 4, "new", FakeFeedNode::ReadAll());
    source.go.Notify();
  });
  auto result = Run(source, Options());
  life.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(node->values(), IdRange(0, 15));
  EXPECT_EQ(result->rows_by_node["worker:0"], 4 + 15);
  EXPECT_EQ(result->rows_refed(), 10);
  EXPECT_EQ(source.opened, 2);
}

TEST_F(LiveSourceTest, WhatATerminatedNodeDidNotUseGoesToAnotherWithoutTheNextRow) {
  LiveSource source;
  std::atomic<bool> told = false;
  Notification elsewhere;
  const auto script = [&](Session& session, FrameType type) {
    if (type != FrameType::kBatch || told.exchange(true)) {
      FakeFeedNode::ReadAll()(session, type);
      if (type == FrameType::kBatch) elsewhere.Notify();
      return;
    }
    source.waiting.WaitForNotification();
    session.Received(session.row);
    session.Ack(4);
    session.Terminated();
  };
  AddNode("worker:0", script);
  AddNode("worker:1", script);
  Thread life("life", [&] {
    EXPECT_TRUE(elsewhere.WaitForNotificationWithTimeout(absl::Seconds(40)));
    source.go.Notify();
  });
  auto result = Run(source, Options());
  life.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows(), 15);
  EXPECT_THAT(result->refed, IsEmpty());
  EXPECT_EQ(source.opened, 1);
}

// The feeder hears its wrong logins: it does not wait for a right one until the open_timeout is
// over.
TEST_F(TrainJobTest, ANodeThatLogsInWithAnotherKeyFailsTheCallSoonAndIsNamed) {
  constexpr absl::Duration kOpenTimeout = absl::Seconds(40);
  feeder_ = *Feeder::Start({.open_timeout = kOpenTimeout});
  nodes_.push_back(std::make_unique<FakeFeedNode>("worker:0", FakeFeedNode::ReadAll(), "",
                                                  /*reply_key=*/"another"));
  const FeedTarget target = nodes_.back()->target();
  directory_.Set(target);
  const MemorySource source = IdSource(1, 30);
  const absl::Time began = absl::Now();
  EXPECT_THAT(
      Run(source, Options()),
      StatusIs(absl::StatusCode::kUnauthenticated,
               AllOf(HasSubstr(absl::StrCat("worker:0 at ", target.ipc_endpoint,
                                            ": a process logged in to this feeder's reply "
                                            "endpoint ipc://@millrace-")),
                     HasSubstr(absl::StrCat("; then: worker:0 at ", target.tcp_endpoint)),
                     HasSubstr(absl::StrCat(" as node/", target.nonce,
                                            " with a password that is not of that node's key")))));
  // A tenth of it by each of two ways, where a node that says nothing takes half of it, and all.
  EXPECT_THAT(absl::Now() - began, Lt(kOpenTimeout / 2));
}

TEST_F(TrainJobTest, ARefusedKeyFailsAtOnce) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReadAll());
  FeedTarget target = node.target();
  target.key = "wrong";
  directory_.Set(target);
  const MemorySource source = IdSource(1, 30);
  const absl::Time began = absl::Now();
  EXPECT_THAT(Run(source, Options()),
              StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("worker:0")));
  EXPECT_THAT(absl::Now() - began, Lt(absl::Seconds(3)));
}

}  // namespace
}  // namespace millrace
