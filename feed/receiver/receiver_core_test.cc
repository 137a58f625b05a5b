// The node's side without sockets: what goes out for what comes in.

#include "feed/receiver/receiver_core.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/receiver/equal_steps.h"
#include "feed/receiver/receiver_core_testing.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/data_feed.h"
#include "millrace/record_batch.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kReportInterval = absl::Milliseconds(20);  // as receiver_core.cc has it

// ----------------------------------------------------------------------------------------- OPEN

TEST_F(ReceiverCoreTest, WhoComesAfterTheEndLearnsHowItWas) {
  ASSERT_THAT(core_->Finish(absl::OkStatus()), IsOk());
  Open(1);
  EXPECT_THAT(Due(1), ElementsAre("TERMINATED"));
  EXPECT_EQ(Open(2, FeedMode::kInference), nullptr);
  EXPECT_THAT(Due(2),
              ElementsAre("ERROR FAILED_PRECONDITION: worker:0 is exiting (program_ended)"));
}

TEST_F(ReceiverCoreTest, WhoComesAfterAFailureIsRefused) {
  ASSERT_THAT(core_->Finish(absl::InternalError("loss is NaN")), IsOk());
  EXPECT_EQ(Open(1), nullptr);
  EXPECT_THAT(Due(1),
              ElementsAre("ERROR FAILED_PRECONDITION: worker:0 is exiting (program_ended)"));
}

TEST_F(ReceiverCoreTest, AnotherNonceIsFailedPrecondition) {
  EXPECT_EQ(core_->Open("feeder/a", 5, 1, 1, {.queue = "input", .node_nonce = "other"}), nullptr);
  EXPECT_THAT(Due(5), ElementsAre(AllOf(HasSubstr("ERROR FAILED_PRECONDITION"),
                                        HasSubstr("(program_ended)"))));
}

TEST_F(ReceiverCoreTest, AFeederOfAVersionTooFarAwayIsRefused) {
  EXPECT_EQ(core_->Open("feeder/a", 5, 1, 1,
                        {.queue = "input", .node_nonce = "nonce", .version = "9.9.9"}),
            nullptr);
  EXPECT_THAT(Due(5), ElementsAre(AllOf(HasSubstr("ERROR FAILED_PRECONDITION: the feeder is "
                                                  "version 9.9.9 of Millrace and worker:0 version"),
                                        Not(HasSubstr("(program_ended)")))));
}

TEST_F(ReceiverCoreTest, AnUnknownQueueIsNotFoundAndNamesThoseThereAre) {
  EXPECT_EQ(core_->Open("feeder/a", 5, 1, 1, {.queue = "inptu", .node_nonce = "nonce"}), nullptr);
  EXPECT_THAT(Due(5), ElementsAre("ERROR NOT_FOUND: no queue \"inptu\" at worker:0; there are: "
                                  "input, control"));
}

TEST_F(ReceiverCoreTest, AnUnknownQueueOfTheProgramIsNotFound) {
  EXPECT_THAT(core_->OpenReader("inptu", FeedMode::kTrain),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("input, control")));
}

TEST_F(ReceiverCoreTest, AFloodOfSessionsIsResourceExhausted) {
  for (uint64_t id = 1; id <= 4096; ++id) ASSERT_NE(Open(id), nullptr);
  EXPECT_EQ(Open(5000), nullptr);
  EXPECT_NE(Open(5001, FeedMode::kTrain, 0, "feeder/b"), nullptr);
  EXPECT_THAT(Due(5000), ElementsAre(HasSubstr("RESOURCE_EXHAUSTED")));
}

// ----------------------------------------------------------------------------------------- WAIT

TEST_F(ReceiverCoreTest, WaitComesAtOnceAndEachSecond) {
  Open(1);
  EXPECT_THAT(Due(1), ElementsAre("WAIT 1"));
  EXPECT_EQ(next_, absl::Seconds(1));
  EXPECT_THAT(Due(1), IsEmpty());
  clock_.Advance(absl::Milliseconds(999));
  EXPECT_THAT(Due(1), IsEmpty());
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_THAT(Due(1), ElementsAre("WAIT 1"));
}

// ----------------------------------------------------------------------------------------- REVOKE

TEST_F(ReceiverCoreTest, RevokedNamesTheRowAndDoneComesWhenTheRowsBeforeItAreUsed) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 6, 100), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  ASSERT_THAT(core_->Revoke(a, 6), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("REVOKED 2"));
  EXPECT_THAT(Due(1), IsEmpty());
  SessionPtr b = Open(2, FeedMode::kTrain, 1);
  Collect();
  ASSERT_THAT(Feed(b, 2, 100), IsOk());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1)) << "those of the other partition";
  EXPECT_THAT(Due(1), ElementsAre("ACK 2", "DONE 2/0"));
}

TEST_F(ReceiverCoreTest, APartitionThatNobodyBeganIsDoneWithNoRows) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 6, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 6), IsOk());
  ASSERT_THAT(core_->Revoke(a, 0), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("REVOKED 0", "DONE 0/0"));
}

// Slices of the batch in hand are made without a lock; no row may be both used and given back.
TEST_F(ReceiverCoreTest, RevokeWhileTheProgramReadsLeavesNoRowTwiceOrMissing) {
  constexpr int64_t kRows = 2000;
  for (uint64_t round = 1; round <= 200; ++round) {
    SessionPtr session = Open(round, FeedMode::kTrain, static_cast<int64_t>(round));
    auto feed = GetFeed();
    Collect();
    ASSERT_THAT(Feed(session, kRows, 400), IsOk());
    ASSERT_THAT(core_->EndPartition(session, kRows), IsOk());
    std::atomic<int64_t> seen{0};
    Thread program("program", [&] {
      while (true) {
        const absl::StatusOr<Batch> batch = feed->NextBatch(1);
        if (!batch.ok() || batch->empty()) return;
        if (Values(*batch).front() >= kRows) return;  // the last one, below
        seen.fetch_add(1);
      }
    });
    while (seen.load() < static_cast<int64_t>(round)) {
    }
    ASSERT_THAT(core_->Revoke(session, kRows), IsOk());
    const int64_t given_back_from = session->revoked ? *session->end_row : kRows;
    SessionPtr last = Open(100000 + round, FeedMode::kTrain, 0);
    Collect();
    ASSERT_THAT(core_->AddRows(last, {.rows = Rows(kRows, 1), .first_row = 0, .bytes = 10}),
                IsOk());
    program.Join();
    EXPECT_EQ(seen.load(), given_back_from) << "round " << round;
    core_->Abort(last);
    Collect();
  }
}

// --------------------------------------------------------------------------------------- Credit

TEST_F(ReceiverCoreTest, AQuarterOfTheBudgetIsPromisedAheadOfNeed) {
  auto feed = GetFeed();
  SessionPtr first = Open(1);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 500/0"));
  for (uint64_t id = 2; id <= 4; ++id) Open(id);
  EXPECT_THAT(Due(4), ElementsAre("CREDIT 500/0"));
  Open(5);
  EXPECT_THAT(Due(5), ElementsAre("CREDIT 0/0")) << "accepted, but the quarter is promised";
  ASSERT_THAT(Feed(first, 1, 450), IsOk());
  EXPECT_THAT(Due(5), ElementsAre("CREDIT 400/0")) << "an equal part of it";
}

TEST_F(ReceiverCoreTest, CreditMovesByQuartersOfAPart) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 1, 100), IsOk());
  EXPECT_THAT(Due(1), IsEmpty()) << "100 bytes are no quarter of 500";
  ASSERT_THAT(Feed(a, 1, 100), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 700/0", "RECEIVED 1"));
}

TEST_F(ReceiverCoreTest, TheBudgetIsFilledAndNotExceeded) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  while (a->received_bytes + 400 <= a->credit_sent.limit) {
    ASSERT_THAT(Feed(a, 1, 400), IsOk());
    Collect();
  }
  EXPECT_EQ(a->received_bytes, kBudget);
  ASSERT_THAT(core_->Block(a, kBudget + 400), IsOk());
  EXPECT_THAT(Due(1), IsEmpty());
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  EXPECT_THAT(Due(1), IsEmpty()) << "the program has the row in hand";
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  clock_.Advance(kReportInterval);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 8400/400", "RECEIVED 19", "ACK 1"));
  EXPECT_EQ(core_->stats().peak_committed_bytes, kBudget);
}

TEST_F(ReceiverCoreTest, ReadingWakesTheSocketThreadWhenCreditIsDueAndOtherwiseLeavesItAlone) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  while (a->received_bytes + 400 <= a->credit_sent.limit) {
    ASSERT_THAT(Feed(a, 2, 400), IsOk());
    Collect();
  }
  EXPECT_EQ(a->received_bytes, kBudget);
  ASSERT_THAT(core_->Block(a, kBudget + 800), IsOk());
  wakes_ = 0;
  for (int i = 0; i < 4; ++i) ASSERT_THAT(feed->NextBatch(1), IsOk());
  EXPECT_EQ(wakes_, 0) << "400 bytes are free, and 800 are needed";
  ASSERT_THAT(feed->NextBatch(1), IsOk());
  EXPECT_EQ(wakes_, 1);
}

TEST_F(ReceiverCoreTest, ABatchLargerThanTheBudgetIsRead) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Collect();
  absl::StatusOr<Batch> batch;
  Notification done;
  Thread reader("reader", [&] {
    batch = feed->NextBatch(100);  // 100,000 bytes
    done.Notify();
  });
  int64_t sent = 0;
  while (!done.WaitForNotificationWithTimeout(absl::ZeroDuration())) {
    if (a->next_row < 100 && sent + 1000 <= a->credit_sent.limit) {
      ASSERT_THAT(Feed(a, 1, 1000), IsOk());
      sent += 1000;
    } else if (a->next_row < 100 && !a->blocked()) {
      ASSERT_THAT(core_->Block(a, sent + 1000), IsOk());
    }
    clock_.Advance(absl::Milliseconds(100));
    Collect();
    ASSERT_LE(Committed(), kBudget);
  }
  reader.Join();
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->num_rows(), 100);
  EXPECT_EQ(Values(*batch).back(), 99);
}

// ------------------------------------------------------------------------------ A whole session

TEST_F(ReceiverCoreTest, ATrainSessionFromOpenToDone) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 500/0"));
  ASSERT_THAT(Feed(a, 2, 100), IsOk());
  ASSERT_THAT(Feed(a, 2, 100), IsOk());
  ASSERT_THAT(Feed(a, 1, 100), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("CREDIT 800/0", "RECEIVED 4")) << "one frame for two batches";
  ASSERT_THAT(core_->EndPartition(a, 5), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 5")) << "the last batch counts once its end is here";
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(0, 1));
  EXPECT_THAT(Due(1), IsEmpty()) << "the program may still be at work on them";
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(2, 3));
  EXPECT_THAT(Due(1), IsEmpty()) << "too soon after the frame before";
  EXPECT_LE(next_, kReportInterval);
  clock_.Advance(kReportInterval);
  EXPECT_THAT(Due(1), ElementsAre("ACK 2"));
  core_->EndFeed("input");
  EXPECT_FALSE(feed->ShouldStop());
  EXPECT_THAT(Values(*feed->NextBatch(2)), ElementsAre(4));
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_THAT(Due(1), ElementsAre("ACK 5", "DONE 5/0"));
  EXPECT_EQ(core_->stats().queues[0].rows_acked, 5);
  EXPECT_EQ(core_->stats().queues[0].open_sessions, 0);
}

TEST_F(ReceiverCoreTest, AnEmptyPartitionIsReceivedAndDone) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(core_->EndPartition(a, 0), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 0", "DONE 0/0"));
}

TEST_F(ReceiverCoreTest, AnInferenceSessionFromOpenToDone) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 3), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 3"));
  absl::StatusOr<Batch> batch = feed->NextBatch(8);
  EXPECT_THAT(Values(*batch), ElementsAre(0, 1, 2));
  ASSERT_THAT(feed->BatchResults(Rows(10, 2)), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("SCHEMA", "RESULT 0+2"));
  ASSERT_THAT(feed->BatchResults(Rows(12, 1)), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RESULT 2+1", "ACK 3", "DONE 3/3"));
  EXPECT_EQ(core_->stats().queues[0].rows_returned, 3);
}

TEST_F(ReceiverCoreTest, BatchResultsWaitsUntilTheFeederTakesWhatCameBefore) {
  auto feed = GetFeed(/*train=*/false);
  result_limit_ = 1;  // the first result may go beyond it
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 3), IsOk());
  ASSERT_THAT(feed->NextBatch(3), IsOk());
  ASSERT_THAT(feed->BatchResults(Rows(10, 1)), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RECEIVED 3", "SCHEMA", "RESULT 0+1"));

  std::atomic<bool> answered{false};
  Thread program("program", [&] {
    EXPECT_THAT(feed->BatchResults(Rows(11, 2)), IsOk());
    answered = true;
  });
  while (core_->stats().queues[0].rows_returned < 3) EXPECT_THAT(Due(1), IsEmpty());
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Due(1), IsEmpty()) << "no DONE either";
  EXPECT_FALSE(answered);
  ASSERT_THAT(core_->RaiseResultLimit(a, 1 << 20), IsOk());
  EXPECT_THAT(Due(1), ElementsAre("RESULT 1+2", "ACK 3", "DONE 3/3"));
  program.Join();
  EXPECT_TRUE(answered);
}

TEST_F(ReceiverCoreTest, AnEndedSessionKeepsNoProgramWaiting) {
  auto feed = GetFeed(/*train=*/false);
  result_limit_ = 0;
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(feed->NextBatch(3), IsOk());
  Thread program("program", [&] { EXPECT_THAT(feed->BatchResults(Rows(0, 3)), IsOk()); });
  while (core_->stats().queues[0].rows_returned < 3) Collect();
  core_->Abort(a);
  Collect();
  program.Join();
}

TEST_F(ReceiverCoreTest, AResultCreditThatNoFeederWouldSendIsRefused) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference);
  EXPECT_THAT(core_->RaiseResultLimit(a, 5), StatusIs(absl::StatusCode::kInvalidArgument));
  SessionPtr b = Open(2);
  EXPECT_THAT(core_->RaiseResultLimit(b, 1 << 30),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("training")));
}

TEST_F(ReceiverCoreTest, ResultsKeepOneSchema) {
  auto feed = GetFeed(/*train=*/false);
  SessionPtr a = Open(1, FeedMode::kInference);
  Due(1);
  ASSERT_THAT(Feed(a, 3, 100), IsOk());
  ASSERT_THAT(feed->NextBatch(3), IsOk());
  ASSERT_THAT(feed->BatchResults(Rows(0, 1)), IsOk());
  const RecordBatch other = *BatchBuilder().AddColumn("id", std::vector<float>{1}).Build();
  EXPECT_THAT(feed->BatchResults(other), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(feed->BatchResults(Rows(0, 2)), IsOk());
}

// Both at once, which DataFeed allows: ThreadSanitizer looks at what encoding reads meanwhile.
TEST_F(ReceiverCoreTest, RowsMayBeGivenUpWhileTheirResultsAreEncoded) {
  BatchBuilder columns;  // many, so that it takes a while
  for (int i = 0; i < 1000; ++i) {
    columns.AddColumn(absl::StrCat("c", i), std::vector<int64_t>{i});
  }
  const RecordBatch answer = *columns.Build();
  for (int round = 0; round < 20; ++round) {
    core_ = NewCore();
    seqs_.clear();
    auto feed = GetFeed(/*train=*/false);
    SessionPtr a = Open(1, FeedMode::kInference);
    Due(1);
    ASSERT_THAT(Feed(a, 1, 100), IsOk());
    ASSERT_THAT(core_->EndPartition(a, 1), IsOk());
    ASSERT_THAT(feed->NextBatch(1), IsOk());
    Thread results("results", [&] { feed->BatchResults(answer).IgnoreError(); });  // too late
    Thread next("next", [&] { EXPECT_THAT(feed->NextBatch(1), IsOk()); });
    results.Join();
    core_->EndAllFeeds();
    next.Join();
    EXPECT_THAT(Due(1).back(), testing::AnyOf("DONE 1/1", HasSubstr("row 0 is unanswered")));
  }
}

TEST_F(ReceiverCoreTest, ExitAcknowledgesWhatWasHandedOutAndTerminatesTheRest) {
  auto feed = GetFeed();
  SessionPtr a = Open(1), b = Open(2, FeedMode::kTrain, 1);
  Collect();
  ASSERT_THAT(Feed(a, 2, 100), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 2), IsOk());
  ASSERT_THAT(Feed(b, 2, 100), IsOk());
  Collect();
  EXPECT_THAT(Values(*feed->NextBatch(3)), ElementsAre(0, 1, 0));
  ASSERT_THAT(core_->Finish(absl::OkStatus()), IsOk());
  std::vector<std::string> of_a, of_b;
  for (const OutgoingFrame& frame : Collect()) {
    (frame.header.session == 1 ? of_a : of_b).push_back(Text(frame));
  }
  EXPECT_THAT(of_a, ElementsAre("ACK 2", "DONE 2/0"));
  EXPECT_THAT(of_b, ElementsAre("ACK 1", "TERMINATED"));
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_TRUE(feed->NextBatch(1)->empty());
  EXPECT_THAT(core_->OpenReader("input", FeedMode::kTrain),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(ReceiverCoreTest, PoisonFailsEverySessionOfThatPrincipalAndNoOther) {
  auto feed = GetFeed();
  Open(1);
  Open(2, FeedMode::kInference, 0, "feeder/a");
  Open(3, FeedMode::kTrain, 1, "feeder/b");
  Collect();
  core_->Poison("feeder/a", absl::InvalidArgumentError("bad"));
  std::vector<std::string> all;
  for (const OutgoingFrame& frame : Collect()) {
    all.push_back(absl::StrCat(frame.header.session, " ", Text(frame)));
  }
  EXPECT_THAT(all, testing::IsSupersetOf(
                       {"1 ERROR INVALID_ARGUMENT: bad", "2 ERROR INVALID_ARGUMENT: bad"}));
  EXPECT_THAT(all, testing::Not(testing::Contains(HasSubstr("3 ERROR"))));
  EXPECT_EQ(core_->stats().poisoned_principals, 1);
}

TEST_F(ReceiverCoreTest, NothingIsSaidToADetachedSession) {
  auto feed = GetFeed();
  SessionPtr a = Open(1);
  Due(1);
  ASSERT_THAT(Feed(a, 1, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(a, 1), IsOk());
  core_->LinkLost(1);
  EXPECT_THAT(Due(1), IsEmpty());
  EXPECT_THAT(Values(*feed->NextBatch(1)), ElementsAre(0));
  core_->EndFeed("input");
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_THAT(Due(1), IsEmpty());
  EXPECT_EQ(core_->stats().queues[0].open_sessions, 0);
  EXPECT_EQ(core_->stats().queues[0].rows_acked, 1);
}

// --------------------------------------------------------------------------------- Equal ranks

// As after a lost connection: all is granted, and the rank is asked once more how much it has.
TEST_F(ReceiverCoreTest, AnAnswerLetsABatchThatWaitsBeFilled) {
  std::atomic<uint64_t> answer = 0;
  core_ = std::make_shared<ReceiverCore>(
      ReceiverCore::Options{.node_name = "worker:0",
                            .nonce = "nonce",
                            .queues = {"input"},
                            .budget_bytes = kBudget,
                            .clock = &clock_,
                            .tell_rows = [&](const ReceiverRows& rows) { answer = rows.answer; }},
      [this] { ++wakes_; });
  ASSERT_THAT(core_->SetEqual("input", /*batch_rows=*/4, /*pad=*/true), IsOk());
  const absl::StatusOr<size_t> queue = core_->OpenReader("input", FeedMode::kTrain);
  ASSERT_THAT(queue, IsOk());
  const std::unique_ptr<DataFeed> feed =
      MakeDataFeed(core_, *queue, {.equal = EqualRanks::kPad, .batch_rows = 4});
  SessionPtr session = Open(1);
  Collect();
  Grant(session, 10);
  ASSERT_THAT(Feed(session, 1, 10), IsOk());
  ASSERT_THAT(core_->EndPartition(session, 1), IsOk());

  const int wakes = wakes_;
  std::atomic<int64_t> rows = 0;
  Thread program("program", [&] { rows = feed->NextBatch(4)->num_rows(); });
  EXPECT_TRUE(Eventually([&] { return wakes_ > wakes; }));  // it waits
  core_->Grant({.queue = "input",
                .feed_id = "f1",
                .generation = 1,
                .steps = 1,
                .last = true,
                .question = 7});
  EXPECT_EQ(answer, 7);
  EXPECT_TRUE(Eventually([&] { return rows == 4; }));  // one, and it again
  core_->EndAllFeeds();
  program.Join();
}

}  // namespace
}  // namespace millrace
