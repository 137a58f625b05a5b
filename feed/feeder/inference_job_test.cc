#include "feed/feeder/inference_job.h"

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
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/feeder/fake_feed_node.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job_fixture.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Lt;
using Event = FakeFeedNode::Event;
using Session = FakeFeedNode::Session;
using State = FeedTarget::State;

std::vector<int64_t> Values(const RecordBatch& batch) {
  const int64_t* values = batch.column(0).values<int64_t>();
  return std::vector<int64_t>(values, values + batch.num_rows());
}

class InferenceJobTest : public TrainJobTest {
 protected:
  static InferenceJobOptions Options() {
    return {.feed_id = "f", .feed_timeout = absl::Seconds(20)};
  }

  std::unique_ptr<InferenceJob> Job(const PartitionedSource& source,
                                    const InferenceJobOptions& options) {
    return std::make_unique<InferenceJob>(feeder_.get(), &directory_, &source, &observer_, options);
  }

  // Appends what the reader yields to *values; the status it ends with.
  static absl::Status ReadAll(InferenceReader& reader, std::vector<int64_t>* values) {
    while (true) {
      auto results = reader.Next();
      if (!results.ok()) return results.status();
      if (!results->has_value()) return absl::OkStatus();
      const std::vector<int64_t> more = Values(**results);
      values->insert(values->end(), more.begin(), more.end());
    }
  }
};

TEST_F(InferenceJobTest, APartitionIsAnsweredRowForRow) {
  AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(3, 105);
  auto job = Job(source, Options());
  for (int partition : {2, 0, 1}) {
    auto reader = job->OpenPartition(partition);
    ASSERT_THAT(reader, IsOk());
    std::vector<int64_t> values;
    EXPECT_THAT(ReadAll(**reader, &values), IsOk());
    EXPECT_EQ(values, IdRange(partition * 105, (partition + 1) * 105));
    EXPECT_EQ((*reader)->rows(), 105);
    EXPECT_THAT((*reader)->Next(), IsOkAndHolds(testing::Eq(std::nullopt)));
  }
  EXPECT_THAT(job->OpenPartition(3), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(job->OpenPartition(-1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(InferenceJobTest, TellsTheLedgerHowFarPartitionsCame) {
  AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(2, 105);
  auto job = Job(source, Options());
  std::vector<int64_t> values;
  EXPECT_THAT(ReadAll(**job->OpenPartition(0), &values), IsOk());
  std::vector<PartitionProgress> reports = observer_.reports();
  ASSERT_GE(reports.size(), 2u);
  EXPECT_EQ(reports.front().state, PartitionProgress::State::kFeeding);
  EXPECT_EQ(reports.back().state, PartitionProgress::State::kAcknowledged);
  EXPECT_EQ(reports.back().node, "worker:0");
  EXPECT_EQ(reports.back().acked_rows, 105);
  EXPECT_EQ(reports.back().returned_rows, 105);
  EXPECT_GT(reports.back().times.source, absl::ZeroDuration());
  EXPECT_GT(reports.back().times.wire, absl::ZeroDuration());
  {
    auto reader = job->OpenPartition(1);
    ASSERT_THAT((*reader)->Next(), IsOk());
  }  // given up
  reports = observer_.reports();
  EXPECT_EQ(reports.back().partition, 1);
  EXPECT_EQ(reports.back().state, PartitionProgress::State::kFailed);
}

TEST_F(InferenceJobTest, AnEmptyPartitionHasNoResults) {
  AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(2, 0);
  auto reader = Job(source, Options())->OpenPartition(1);
  std::vector<int64_t> values;
  EXPECT_THAT(ReadAll(**reader, &values), IsOk());
  EXPECT_TRUE(values.empty());
}

TEST_F(InferenceJobTest, NothingIsSentBeforeTheFirstPull) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(1, 10);
  auto job = Job(source, Options());
  auto reader = job->OpenPartition(0);
  EXPECT_EQ(feeder_->stats().sessions_opened, 0);
  EXPECT_TRUE(node.events().empty());
}

// Answers nothing but the first five batches before the partition ends, and has credit for all
// then.
class SlowPullTest : public InferenceJobTest {
 protected:
  // Pulls two results; how many batches had been sent by then.
  int64_t BatchesSentAfterTwoPulls(InferenceJobOptions options) {
    AddNode("worker:0", [](Session& session, FrameType type) {
      if (type == FrameType::kOpen) session.Credit(1, 0);
      if (type == FrameType::kBlocked && session.row < 50) session.CreditNeeded();
      if (type == FrameType::kBatch && session.row == 50) {
        for (int i = 0; i < 4; ++i) session.Result(session.batches[i], 10 * i);
        session.CreditAll();
        session.Result(session.batches[4], 40);
      }
      if (type != FrameType::kEndPartition) return;
      session.Result(Ids(50, *session.end_row - 50), 50);
      session.Done(*session.end_row, *session.end_row);
    });
    const MemorySource source = IdSource(1, 5000);
    auto job = Job(source, options);
    auto reader = *job->OpenPartition(0);
    EXPECT_THAT(reader->Next(), IsOk());
    // The fifth result comes after the credit.
    EXPECT_TRUE(Eventually([&] { return feeder_->stats().results_received >= 5; }));
    EXPECT_THAT(reader->Next(), IsOk());
    const int64_t sent = feeder_->stats().batches_sent;
    std::vector<int64_t> values;
    EXPECT_THAT(ReadAll(*reader, &values), IsOk());
    EXPECT_EQ(values, IdRange(20, 5000));
    return sent;
  }
};

TEST_F(SlowPullTest, TheWindowBoundsWhatIsSentAhead) {
  InferenceJobOptions options = Options();
  options.window_bytes = 2000;  // eight batches
  EXPECT_THAT(BatchesSentAfterTwoPulls(options), Lt(20));
}

TEST_F(SlowPullTest, UnreadResultsStopTheFeed) {
  InferenceJobOptions options = Options();
  options.max_unread_bytes = 100;  // less than a result
  EXPECT_EQ(BatchesSentAfterTwoPulls(options), 5);
}

// A program that wants all rows before it answers any: the window must not stop the feed.
TEST_F(InferenceJobTest, AProgramMayAskForMoreThanTheWindow) {
  AddNode("worker:0", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kBatch) session.CreditAll();
    if (type != FrameType::kEndPartition) return;
    session.Result(Ids(0, *session.end_row), 0);
    session.Done(*session.end_row, *session.end_row);
  });
  const MemorySource source = IdSource(1, 5000);
  InferenceJobOptions options = Options();
  options.window_bytes = 1000;
  auto reader = *Job(source, options)->OpenPartition(0);
  std::vector<int64_t> values;
  EXPECT_THAT(ReadAll(*reader, &values), IsOk());
  EXPECT_EQ(values, IdRange(0, 5000));
}

TEST_F(InferenceJobTest, CollectGivesThePartitionsInOrder) {
  for (int i = 0; i < 3; ++i) AddNode(absl::StrCat("worker:", i), FakeFeedNode::Echo());
  const MemorySource source = IdSource(17, 33);
  InferenceJobOptions options = Options();
  options.max_unread_bytes = 500;
  auto job = Job(source, options);
  std::vector<int64_t> values;
  int last = 0;
  EXPECT_THAT(job->Collect([&](int partition, RecordBatch results) {
    EXPECT_GE(partition, last);
    last = partition;
    const std::vector<int64_t> more = Values(results);
    values.insert(values.end(), more.begin(), more.end());
    return absl::OkStatus();
  }),
              IsOk());
  EXPECT_EQ(values, IdRange(0, 17 * 33));
}

// Also of the partition that is to be read next: nobody reads it.
TEST_F(InferenceJobTest, ResultsThatNobodyReadsStopTheFeed) {
  AddNode("worker:0", FakeFeedNode::Echo());
  constexpr int64_t kRows = 20000;
  const MemorySource source = IdSource(2, kRows);  // in batches of ten rows
  InferenceJobOptions options = Options();
  options.max_unread_bytes = 1000;
  options.window_bytes = 1000;
  auto job = Job(source, options);
  auto results = *job->Start();
  ASSERT_THAT(results->Next(), IsOk());
  ASSERT_FALSE(Eventually([&] { return feeder_->stats().batches_sent >= kRows / 10; },
                          absl::Milliseconds(300)))
      << "a whole partition was sent";
  int64_t row = 10;
  while (true) {
    auto some = results->Next();
    ASSERT_THAT(some, IsOk());
    if (!some->has_value()) break;
    EXPECT_EQ((*some)->partition, row / kRows);
    ASSERT_EQ(Values((*some)->rows).front(), row);
    row += (*some)->rows.num_rows();
  }
  EXPECT_EQ(row, 2 * kRows);
  EXPECT_FALSE((*results->Next()).has_value()) << "the end stays";
}

TEST_F(InferenceJobTest, ResultsThatAreGivenUpEndTheJob) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(3, 20000);
  InferenceJobOptions options = Options();
  options.max_unread_bytes = 1000;
  auto job = Job(source, options);
  auto results = *job->Start();
  ASSERT_THAT(results->Next(), IsOk());
  results.reset();
  EXPECT_TRUE(
      node.WaitFor([](const auto& events) { return events.back().type == FrameType::kAbort; }));
  EXPECT_LT(feeder_->stats().batches_sent, 6000);
  EXPECT_EQ(observer_.reports().back().state, PartitionProgress::State::kFailed);
}

TEST_F(InferenceJobTest, AnErrorOfTheSinkEndsCollect) {
  AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(5, 30);
  auto job = Job(source, Options());
  int calls = 0;
  EXPECT_THAT(job->Collect([&](int, RecordBatch) {
    ++calls;
    return absl::ResourceExhaustedError("disk full");
  }),
              StatusIs(absl::StatusCode::kResourceExhausted, "disk full"));
  EXPECT_EQ(calls, 1);
}

TEST_F(InferenceJobTest, CancelEndsAPullAtOnce) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  const MemorySource source = IdSource(1, 10);
  auto job = Job(source, Options());
  absl::Status status;
  absl::Time ended;
  Thread collector("collector", [&] {
    status = job->Collect([](int, RecordBatch) { return absl::OkStatus(); });
    ended = absl::Now();
  });
  ASSERT_TRUE(node.WaitFor([](const auto& events) { return events.size() >= 4; }));
  const absl::Time cancelled = absl::Now();
  job->Cancel(absl::CancelledError("not wanted"));
  collector.Join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, "not wanted"));
  EXPECT_THAT(ended - cancelled, Lt(absl::Milliseconds(500)));
}

TEST_F(InferenceJobTest, AReaderThatGoesGivesThePartitionUp) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::Echo());
  const MemorySource source = IdSource(1, 100);
  auto job = Job(source, Options());
  auto reader = *job->OpenPartition(0);
  InferenceJobOptions options = Options();
  ASSERT_THAT(reader->Next(), IsOk());
  reader.reset();
  EXPECT_TRUE(node.WaitFor([](const auto& events) {
    return events.back().type == FrameType::kAbort ||
           events.back().type == FrameType::kEndPartition;
  }));
}

TEST_F(InferenceJobTest, NoResultsForFeedTimeoutSaysWhatIsMissing) {
  AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  const MemorySource source = IdSource(3, 64);
  InferenceJobOptions options = Options();
  options.feed_timeout = absl::Milliseconds(200);
  auto reader = *Job(source, options)->OpenPartition(2);
  EXPECT_THAT(reader->Next(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("worker:0 received 64 rows of partition 2 (queue 'input') and "
                                 "returned none for 200ms")));
  EXPECT_THAT(reader->Next(), StatusIs(absl::StatusCode::kDeadlineExceeded)) << "errors stay";
}

TEST_F(InferenceJobTest, ShortResultsAreDataLossAndErrorsPassThrough) {
  AddNode("worker:0", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type != FrameType::kEndPartition) return;
    if (session.open.partition == 0) {
      session.Result(Ids(0, 9), 0);
      session.Done(10, 10);
    } else {
      session.Error(absl::FailedPreconditionError("rows 0 to 9 have no results"));
    }
  });
  const MemorySource source = IdSource(2, 10);
  auto job = Job(source, Options());
  auto first = *job->OpenPartition(0);
  std::vector<int64_t> values;
  EXPECT_THAT(ReadAll(*first, &values), StatusIs(absl::StatusCode::kDataLoss));
  auto second = *job->OpenPartition(1);
  EXPECT_THAT(second->Next(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       AllOf(HasSubstr("worker:0, partition 1"),
                                             HasSubstr("rows 0 to 9 have no results"))));
}

// ------------------------------------------------------------------------------ nodes that stop

TEST_F(InferenceJobTest, ANodeThatReadsNoMoreIsReplacedByAnother) {
  AddNode("worker:0", [](Session& session, FrameType type) {
    if (type == FrameType::kOpen) session.CreditAll();
    if (type == FrameType::kBatch) session.Terminated();
  });
  AddNode("worker:1", FakeFeedNode::Echo());
  const MemorySource source = IdSource(1, 50);
  auto reader = *Job(source, Options())->OpenPartition(0);
  std::vector<int64_t> values;
  EXPECT_THAT(ReadAll(*reader, &values), IsOk());
  EXPECT_EQ(values, IdRange(0, 50));
}

TEST_F(InferenceJobTest, WithoutAnyReaderThePartitionFails) {
  AddNode("worker:0", [](Session& session, FrameType) { session.Terminated(); });
  const MemorySource source = IdSource(1, 50);
  auto reader = *Job(source, Options())->OpenPartition(0);
  EXPECT_THAT(reader->Next(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("no node reads queue 'input'")));
}

// The first process answers 20 rows and dies, the second answers everything.
class RestartTest : public InferenceJobTest {
 protected:
  absl::Status Restart(const PartitionedSource& source, std::vector<int64_t>* values) {
    AddNode(
        "worker:0",
        [](Session& session, FrameType type) {
          if (type == FrameType::kOpen) session.CreditAll();
          if (type != FrameType::kBatch || session.row > 20) return;
          session.Result(session.batches.back(), session.row - 10);
        },
        "old");
    auto reader = *Job(source, Options())->OpenPartition(0);
    for (int i = 0; i < 2; ++i) {
      auto results = reader->Next();
      if (!results.ok()) return results.status();
      const std::vector<int64_t> more = Values(**results);
      values->insert(values->end(), more.begin(), more.end());
    }
    directory_.SetState("worker:0", State::kRestarting);
    nodes_[0]->Kill();
    const int before = directory_.lookups();
    Thread restart("restart", [this, before] {
      EXPECT_TRUE(directory_.WaitForLookups(before + 2));
      AddNode(
          "worker:0",
          [](Session& session, FrameType type) {
            // Other batches than the first time: 25 rows at once, then as they come.
            if (type == FrameType::kOpen) session.CreditAll();
            if (type == FrameType::kEndPartition) {
              session.Result(Ids(0, 25), 0);
              session.Result(Ids(25, 25), 25);
              session.Done(50, 50);
            }
          },
          "new");
    });
    return ReadAll(*reader, values);
  }
};

TEST_F(RestartTest, ResultsThatWereReturnedAreSkippedTheSecondTime) {
  const MemorySource source = IdSource(1, 50);
  std::vector<int64_t> values;
  EXPECT_THAT(Restart(source, &values), IsOk());
  EXPECT_EQ(values, IdRange(0, 50));
}

TEST_F(RestartTest, WithAnUnstableSourceReturnedResultsCannotBeContinued) {
  const UnstableSource source(IdSource(1, 50));
  std::vector<int64_t> values;
  EXPECT_THAT(Restart(source, &values),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("worker:0, partition 0"), HasSubstr("after 20 results"))));
  EXPECT_EQ(values, IdRange(0, 20));
}

// Yields rows 0 to 9 and then waits, until it is cancelled; opened again it has ended there.
class WaitingSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return true; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    return std::make_unique<Reader>(this, opened++ > 0);
  }
  mutable Notification waiting;
  mutable std::atomic<int> opened{0};

 private:
  class Reader final : public RecordBatchReader {
   public:
    Reader(const WaitingSource* source, bool ends) : source_(source), ends_(ends) {}
    const Schema& schema() const override { return rows_.schema(); }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (!std::exchange(begun_, true)) return std::optional(rows_);
      if (ends_) return std::optional<RecordBatch>();
      source_->waiting.Notify();
      cancelled_.WaitForNotification();
      return absl::CancelledError("no row has come");
    }
    void Cancel() override { cancelled_.Notify(); }

   private:
    const WaitingSource* const source_;
    const bool ends_;
    const RecordBatch rows_ = Ids(0, 10);
    bool begun_ = false;
    Notification cancelled_;
  };
};

TEST_F(InferenceJobTest, WhatADeadNodeHadIsFedAgainThoughTheSourceWaits) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly(), "old");
  WaitingSource source;
  auto reader = *Job(source, Options())->OpenPartition(0);
  Thread killer("killer", [&] {
    source.waiting.WaitForNotification();
    AddNode("worker:0", FakeFeedNode::Echo(), "new");
    node.Kill();
  });
  std::vector<int64_t> values;
  EXPECT_THAT(ReadAll(*reader, &values), IsOk());
  killer.Join();
  EXPECT_EQ(values, IdRange(0, 10));
  EXPECT_EQ(source.opened, 2);
}

TEST_F(InferenceJobTest, AnErrorOfTheNodeIsReturnedThoughTheSourceWaits) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  WaitingSource source;
  auto reader = *Job(source, Options())->OpenPartition(0);
  Thread killer("killer", [&] {
    source.waiting.WaitForNotification();
    directory_.SetState("worker:0", State::kFailed, absl::AbortedError("exit code 1"));
    node.Kill();
  });
  EXPECT_THAT(reader->Next(), StatusIs(absl::StatusCode::kAborted, "worker:0 failed: exit code 1"));
  EXPECT_EQ(source.opened, 1);
}

TEST_F(InferenceJobTest, AFailedNodeFailsThePartitionWithItsCause) {
  FakeFeedNode& node = AddNode("worker:0", FakeFeedNode::ReceiveOnly());
  const MemorySource source = IdSource(1, 50);
  auto reader = *Job(source, Options())->OpenPartition(0);
  Thread killer("killer", [&] {
    EXPECT_TRUE(node.WaitFor([](const auto& events) { return events.size() > 3; }));
    directory_.SetState("worker:0", State::kFailed, absl::AbortedError("exit code 1"));
    node.Kill();
  });
  EXPECT_THAT(reader->Next(), StatusIs(absl::StatusCode::kAborted, "worker:0 failed: exit code 1"));
}

}  // namespace
}  // namespace millrace
