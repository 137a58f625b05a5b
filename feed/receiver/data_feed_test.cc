// What a program reads, on a ReceiverCore without sockets.

#include "feed/receiver/data_feed.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/receiver/receiver_core.h"
#include "feed/receiver/receiver_core_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DataFeedTest : public ReceiverCoreTest {};

TEST_F(DataFeedTest, NextBatchRefusesLessThanOneRow) {
  auto feed = GetFeed();
  EXPECT_THAT(feed->NextBatch(0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(feed->NextBatch(-1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(DataFeedTest, ColumnsHaveTheNamesOfTheMapping) {
  auto feed = GetFeed(true, {{"id", "x"}});
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 2, 10), IsOk());
  absl::StatusOr<Batch> batch = feed->NextBatch(2);
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->column<int64_t>("x")[1], 1);
  EXPECT_FALSE(batch->has_column("id"));
}

TEST_F(DataFeedTest, AMappingOfAMissingColumnIsNotFound) {
  auto feed = GetFeed(true, {{"image", "x"}});
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 2, 10), IsOk());
  EXPECT_THAT(feed->NextBatch(2), StatusIs(absl::StatusCode::kNotFound, HasSubstr("image")));
}

TEST_F(DataFeedTest, TheBatchWithoutRowsHasItsColumns) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 1, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 1), IsOk());
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  core_->EndAllFeeds();
  absl::StatusOr<Batch> batch = feed->NextBatch(1);
  ASSERT_THAT(batch, IsOk());
  EXPECT_TRUE(batch->empty());
  EXPECT_EQ(batch->column<int64_t>("id").size(), 0u);
}

TEST_F(DataFeedTest, MoreRowsThanAskedForAreTakenOnlyOfTheBatchInHand) {
  auto feed = GetFeed();
  SessionPtr a = Open(1), b = Open(2, FeedMode::kTrain, 1);
  Due(1);
  ASSERT_THAT(Feed(a, 12, 10), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2, 6)), ElementsAre(0, 1));
  EXPECT_THAT(Values(*feed->NextBatch(2, 5)), ElementsAre(2, 3, 4, 5)) << "a multiple of two";
  EXPECT_EQ(a->used_row.load(), 2) << "what is in hand may not be used yet";
  EXPECT_THAT(Values(*feed->NextBatch(4, 100)), ElementsAre(6, 7, 8, 9));
  EXPECT_EQ(a->used_row.load(), 6);
  ASSERT_THAT(core_->AddRows(b, {.rows = Rows(70, 2), .bytes = 10}), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(4, 100)), ElementsAre(10, 11, 70, 71));
  EXPECT_THAT(feed->NextBatch(0, 5), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(DataFeedTest, EndFeedWakesAWaitingNextBatchWithoutRows) {
  auto feed = GetFeed();
  EXPECT_FALSE(feed->ShouldStop());
  Thread reader("reader", [&] {
    absl::StatusOr<Batch> batch = feed->NextBatch(4);
    ASSERT_THAT(batch, IsOk());
    EXPECT_TRUE(batch->empty());
    EXPECT_TRUE(batch->column<float>("x").empty()) << "a program need not know";
    EXPECT_TRUE(feed->ShouldStop());
  });
  core_->EndFeed("input");
  reader.Join();
}

TEST_F(DataFeedTest, TerminateWakesAWaitingNextBatch) {
  auto feed = GetFeed();
  Thread reader("reader", [&] { EXPECT_TRUE(feed->NextBatch(4)->empty()); });
  EXPECT_THAT(feed->Terminate(), IsOk());
  reader.Join();
  EXPECT_TRUE(feed->ShouldStop());
  Open(1);
  EXPECT_THAT(Due(1), ElementsAre("TERMINATED"));
}

TEST_F(DataFeedTest, ABrokenReceiverIsAnErrorAndNotAnEnd) {
  auto feed = GetFeed();
  core_->Break(absl::InternalError("no sockets"));
  EXPECT_FALSE(feed->ShouldStop());
  EXPECT_THAT(feed->NextBatch(1), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(DataFeedTest, ANewDataFeedGoesOnWhereTheOldOneStopped) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 6, 10), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  auto second = GetFeed();
  feed.reset();
  EXPECT_THAT(Values(*second->NextBatch(2)), ElementsAre(2, 3));
  EXPECT_THAT(Values(*second->NextBatch(2)), ElementsAre(4, 5));
}

TEST_F(DataFeedTest, RowsInHandAreNotReturnedOnceTheirSessionHasFailed) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference), b = Open(2, FeedMode::kInference, 1);
  Collect();
  ASSERT_THAT(Feed(a, 4, 10), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  core_->Fail(a, absl::UnavailableError("gone"));
  Collect();
  ASSERT_THAT(core_->AddRows(b, {.rows = Rows(70, 2), .bytes = 10}), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(70, 71));
  EXPECT_EQ(a->handed.row(), 2);
  ASSERT_THAT(feed->BatchResults(Rows(0, 2)), IsOk()) << "for the lost rows";
  ASSERT_THAT(feed->BatchResults(Rows(0, 2)), IsOk());
  EXPECT_EQ(b->result_row, 2);
}

TEST_F(DataFeedTest, TheEndIsNotSeenBeforeTheRowsInHandAreRead) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  ASSERT_THAT(Feed(a, 4, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 4), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  core_->EndFeed("input");
  EXPECT_FALSE(feed->ShouldStop());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(2, 3));
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_FALSE(core_->stats().queues[0].program_done) << "inference may follow";
}

TEST_F(DataFeedTest, AQueueIsReadInOneModeAtATime) {
  auto feed = GetFeed();
  EXPECT_THAT(core_->OpenReader("input", FeedMode::kInference),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(core_->OpenReader("control", FeedMode::kInference), IsOk());
  core_->EndFeed("input");
  auto serve = GetFeed(/*train=*/false);
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_FALSE(serve->ShouldStop());
  SessionPtr a = Open(1, FeedMode::kInference);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 500/0"));
  Open(2);
  EXPECT_THAT(Due(2), ElementsAre("TERMINATED"));
}

TEST_F(DataFeedTest, ADestroyedDataFeedMakesRoomForTheOtherMode) {
  GetFeed().reset();
  EXPECT_THAT(core_->OpenReader("input", FeedMode::kInference), IsOk());
}

TEST_F(DataFeedTest, ResultsInTrainingAreAnError) {
  auto feed = GetFeed();
  EXPECT_THAT(feed->BatchResults(Rows(0, 1)), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(DataFeedTest, RowsSurviveABusyReaderAndABusySender) {
  auto feed = GetFeed();
  SessionPtr a = Open(1), b = Open(2, FeedMode::kTrain, 1);
  Collect();
  constexpr int64_t kRows = 20'000;
  int64_t sum = 0, rows = 0;
  Thread reader("reader", [&] {
    while (!feed->ShouldStop()) {
      absl::StatusOr<Batch> batch = feed->NextBatch(7);
      ASSERT_THAT(batch, IsOk());
      for (int64_t value : Values(*batch)) sum += value;
      rows += batch->num_rows();
    }
  });
  while (a->next_row < kRows || b->next_row < kRows) {
    for (const SessionPtr& s : {a, b}) {
      const int64_t n = std::min<int64_t>(1 + (s->next_row * 7) % 60, kRows - s->next_row);
      if (n == 0 || s->blocked()) continue;
      if (s->received_bytes + n * 10 > s->credit_sent.limit) {
        ASSERT_THAT(core_->Block(s, s->received_bytes + n * 10), IsOk());
        continue;
      }
      ASSERT_THAT(Feed(s, n, n * 10), IsOk());
    }
    clock_.Advance(absl::Milliseconds(1));
    Collect();
    ASSERT_LE(Committed(), kBudget);
  }
  ASSERT_THAT(core_->EndPartition(a, kRows), IsOk());
  ASSERT_THAT(core_->EndPartition(b, kRows), IsOk());
  core_->FeedEnd("f1", false);
  core_->EndFeed("input");
  reader.Join();
  Collect();
  EXPECT_EQ(rows, 2 * kRows);
  EXPECT_EQ(sum, kRows * (kRows - 1));
  EXPECT_EQ(core_->stats().queues[0].rows_acked, 2 * kRows);
  EXPECT_EQ(core_->stats().queues[0].open_sessions, 0);
}

TEST_F(DataFeedTest, CountsWhatWaitsAndWhereTheTimeWent) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  auto stats = [&] { return core_->stats().queues[0]; };
  EXPECT_EQ(stats().wait_time + stats().compute_time, absl::ZeroDuration());

  // Starved: the program waits until 10 rows are there.
  Thread reader("reader", [&] { EXPECT_EQ(feed->NextBatch(10)->num_rows(), 10); });
  while (stats().wait_time == absl::ZeroDuration()) clock_.Advance(absl::Milliseconds(1));
  clock_.Advance(absl::Seconds(2));
  EXPECT_GE(stats().wait_time, absl::Seconds(2));
  Grant(a, 3000);
  ASSERT_THAT(Feed(a, 10, 3000), IsOk());
  reader.Join();
  const absl::Duration waited = stats().wait_time;
  // The clock may have gone on before the reader had come as far as to wait.
  const absl::Duration before = stats().compute_time;
  clock_.Advance(absl::Seconds(5));
  EXPECT_EQ(stats().wait_time, waited);
  EXPECT_EQ(stats().compute_time, before + absl::Seconds(5));
  EXPECT_EQ(stats().full_time, absl::ZeroDuration());

  // Backpressured: of 8,000 bytes 6,000 are held, and another 3,000 do not fit.
  Grant(a, 3000);
  ASSERT_THAT(Feed(a, 10, 3000), IsOk());
  ASSERT_THAT(core_->Block(a, 9000), IsOk());
  Collect();
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(stats().full_time, absl::Seconds(3));
  EXPECT_EQ(stats().queued_time, absl::Seconds(3));
  EXPECT_EQ(stats().queued_rows, 10);
  EXPECT_EQ(stats().queued_bytes, 6000);
  EXPECT_EQ(stats().batches_received, 2);

  ASSERT_THAT(feed->NextBatch(10), IsOk());
  Collect();
  const absl::Duration full = stats().full_time;
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(stats().full_time, full);
  EXPECT_EQ(stats().queued_time, absl::Seconds(3));
  EXPECT_EQ(stats().queued_rows, 0);
  EXPECT_FALSE(stats().program_done);

  EXPECT_THAT(core_->Terminate(0, FeedMode::kTrain), IsOk());
  const absl::Duration computed = stats().compute_time;
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(stats().compute_time, computed);
  EXPECT_TRUE(stats().program_done);
}

TEST_F(DataFeedTest, AProgramThatFailedIsNotDone) {
  auto feed = GetFeed();
  const auto stats = [&] { return core_->stats().queues[0]; };
  EXPECT_FALSE(stats().program_done);
  core_->Finish(absl::InternalError("as the test says")).IgnoreError();
  EXPECT_FALSE(stats().program_done);
}

}  // namespace
}  // namespace millrace
