#include "core/coordinator/state/feed_ledger.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = PartitionState;

PartitionReport At(int64_t partition, State state, uint64_t rows, uint64_t attempt = 0) {
  PartitionReport report;
  report.partition = partition;
  report.state = state;
  report.executor_id = 2;
  report.feeder_attempt = attempt;
  report.rows_received = rows;
  return report;
}

TEST(FeedLedgerTest, ASummaryCountsPartitionsAndRows) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 4), IsOk());
  ASSERT_THAT(ledger.Report("f", At(0, State::kFeeding, 10)), IsOk());
  ASSERT_THAT(ledger.Report("f", At(0, State::kReceived, 100)), IsOk());
  ASSERT_THAT(ledger.Report("f", At(1, State::kFeeding, 7)), IsOk());
  PartitionReport done = At(2, State::kDone, 5);
  done.rows_acked = 5;
  done.rows_returned = 5;
  ASSERT_THAT(ledger.Report("f", done), IsOk());

  FeedSummary summary = *ledger.Summary("f");
  EXPECT_EQ(summary.queue, "input");
  EXPECT_EQ(summary.partitions, 4);
  EXPECT_EQ(summary.pending, 1);
  EXPECT_EQ(summary.feeding, 1);
  EXPECT_EQ(summary.received, 1);
  EXPECT_EQ(summary.done, 1);
  EXPECT_EQ(summary.rows_received, 112u);
  EXPECT_EQ(summary.rows_acked, 5u);
  EXPECT_EQ(summary.rows_returned, 5u);
  EXPECT_TRUE(summary.exactly_once);
}

TEST(FeedLedgerTest, APartitionFedAgainIsCountedWithItsReason) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 1), IsOk());
  ASSERT_THAT(ledger.Report("f", At(0, State::kFeeding, 60, 1)), IsOk());
  PartitionReport again = At(0, State::kFeeding, 0, 2);
  again.refed_reason = "worker:1 died";
  ASSERT_THAT(ledger.Report("f", again), IsOk());
  ASSERT_THAT(ledger.Report("f", again), IsOk());  // the same session: counted once
  ASSERT_THAT(ledger.Report("f", At(0, State::kDone, 100, 2)), IsOk());
  ASSERT_THAT(ledger.Report("f", At(0, State::kFailed, 1, 1)), IsOk());  // late: ignored

  PartitionRecord record = *ledger.Partition("f", 0);
  EXPECT_EQ(record.sessions, 2);
  EXPECT_EQ(record.refed, 1);
  EXPECT_EQ(record.rows_refed, 60u);
  EXPECT_EQ(record.refed_reason, "worker:1 died");
  EXPECT_EQ(record.last.state, State::kDone);
  FeedSummary summary = *ledger.Summary("f");
  EXPECT_EQ(summary.rows_received, 100u);
  EXPECT_FALSE(summary.exactly_once);
  EXPECT_THAT(summary.refed_partitions, ElementsAre(0));
}

TEST(FeedLedgerTest, WhatWasTakenBackIsNotFedAgain) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 2), IsOk());
  // Of one nothing was used, of the other ten rows.
  for (const int64_t partition : {0, 1}) {
    ledger.Assign("f", partition, 2);
    ASSERT_THAT(ledger.Report("f", At(partition, State::kReceived, 100, 1)), IsOk());
    EXPECT_EQ(ledger.OpenSessions("f").size(), static_cast<size_t>(partition) + 1);
    EXPECT_EQ(ledger.Assigned("f", partition), 2);
  }
  for (const int64_t partition : {0, 1}) {
    PartitionReport revoked = At(partition, State::kFailed, partition == 0 ? 0 : 10, 1);
    revoked.rows_acked = revoked.rows_received;
    ASSERT_THAT(ledger.Report("f", revoked), IsOk());
    EXPECT_EQ(ledger.Assigned("f", partition), std::nullopt);
  }
  EXPECT_EQ(ledger.FailedRows("f", 100), 190);
  EXPECT_EQ(ledger.OpenSessions("f").size(), 0u);
  for (const int64_t partition : {0, 1}) {
    PartitionReport rest = At(partition, State::kDone, 100, 2);
    rest.first_row = partition == 0 ? 0 : 10;
    rest.rows_acked = 100;
    rest.executor_id = 3;
    rest.refed_reason = "its node would have been done later";
    ASSERT_THAT(ledger.Report("f", rest), IsOk());
  }
  const FeedSummary summary = *ledger.Summary("f");
  EXPECT_TRUE(summary.exactly_once);
  EXPECT_EQ(summary.rows_acked, 200u);
  EXPECT_THAT(ledger.OpenFeeds(), ElementsAre("f"));
  ledger.Close("f");
  EXPECT_THAT(ledger.OpenFeeds(), IsEmpty());
}

TEST(FeedLedgerTest, OfAResumedPartitionOnlyWhatIsSentAgainIsCounted) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 1), IsOk());
  ASSERT_THAT(ledger.Report("f", At(0, State::kFeeding, 60, 1)), IsOk());
  PartitionReport resumed = At(0, State::kFeeding, 45, 2);
  resumed.first_row = 45;  // rows before 45 are acknowledged
  resumed.refed_reason = "the connection to worker:1 was lost";
  ASSERT_THAT(ledger.Report("f", resumed), IsOk());
  EXPECT_EQ(ledger.Partition("f", 0)->rows_refed, 15u);
  EXPECT_FALSE(ledger.Summary("f")->exactly_once);
}

TEST(FeedLedgerTest, WhatASessionHadWhoseEndWasNotToldIsCounted) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 2), IsOk());
  for (const int64_t partition : {0, 1}) {
    ASSERT_THAT(ledger.Report("f", At(partition, State::kFeeding, 20, 1)), IsOk());
    PartitionReport again = At(partition, State::kFeeding, 5, 2);
    again.first_row = 5;
    again.rows_before = partition == 0 ? 60 : 10;  // of one the ledger has heard more
    again.refed_reason = "worker:1 ended";
    ASSERT_THAT(ledger.Report("f", again), IsOk());
    ASSERT_THAT(ledger.Report("f", again), IsOk());  // counted once
  }
  EXPECT_EQ(ledger.Partition("f", 0)->rows_refed, 55u);
  EXPECT_EQ(ledger.Partition("f", 1)->rows_refed, 15u);
}

// The first session of partition 0 has ended at row 45, all of it acknowledged.
void EndAtRow45(FeedLedger& ledger) {
  ASSERT_THAT(ledger.Open("f", "input", 1), IsOk());
  PartitionReport ended = At(0, State::kFailed, 45, 1);
  ended.rows_acked = 45;
  ASSERT_THAT(ledger.Report("f", ended), IsOk());
}

TEST(FeedLedgerTest, WhatFollowsASessionThatLeftNothingInDoubtIsNotFedAgain) {
  FeedLedger ledger;
  EndAtRow45(ledger);
  PartitionReport rest = At(0, State::kFeeding, 45, 2);
  rest.first_row = 45;
  rest.refed_reason = "worker:1 reads no more";
  ASSERT_THAT(ledger.Report("f", rest), IsOk());
  EXPECT_EQ(ledger.Partition("f", 0)->rows_refed, 0u);
  EXPECT_TRUE(ledger.Summary("f")->exactly_once);
}

// Its node ended before it was given a row, and took the right to the rest of the partition along.
TEST(FeedLedgerTest, ASessionThatCameToNothingHidesNoRowsOfThoseBefore) {
  FeedLedger ledger;
  EndAtRow45(ledger);
  PartitionReport rest = At(0, State::kFeeding, 45, 2);
  rest.first_row = rest.rows_acked = 45;
  ASSERT_THAT(ledger.Report("f", rest), IsOk());
  rest.state = State::kFailed;
  ASSERT_THAT(ledger.Report("f", rest), IsOk());
  EXPECT_TRUE(ledger.Summary("f")->exactly_once);
  ASSERT_THAT(ledger.Report("f", At(0, State::kFeeding, 0, 3)), IsOk());
  EXPECT_EQ(ledger.Partition("f", 0)->rows_refed, 45u);
  EXPECT_FALSE(ledger.Summary("f")->exactly_once);
}

TEST(FeedLedgerTest, ATakeoverCountsByWhatIsKnownWithoutAReason) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 3), IsOk());
  PartitionReport first = At(0, State::kDone, 1000, 1);
  first.rows_acked = 1000;
  ASSERT_THAT(ledger.Report("f", first), IsOk());
  PartitionReport second = At(0, State::kFeeding, 0, 2);
  ASSERT_THAT(ledger.Report("f", second), IsOk());
  second = At(0, State::kDone, 1000, 2);
  second.rows_acked = 1000;
  ASSERT_THAT(ledger.Report("f", second), IsOk());
  FeedSummary summary = *ledger.Summary("f");
  EXPECT_FALSE(summary.exactly_once);
  EXPECT_EQ(summary.rows_refed, 1000u);
  ASSERT_EQ(summary.refed.size(), 1u);
  EXPECT_EQ(summary.refed[0].reason, "another session took the partition over");

  // One that resumes where the one before had come to sends nothing again.
  ASSERT_THAT(ledger.Report("f", At(1, State::kFailed, 40, 1)), IsOk());
  PartitionReport resumed = At(1, State::kFeeding, 40, 2);
  resumed.first_row = 40;
  ASSERT_THAT(ledger.Report("f", resumed), IsOk());
  EXPECT_EQ(ledger.Partition("f", 1)->refed, 0);

  // A second execution of an inference is no second delivery.
  PartitionReport returned = At(2, State::kDone, 7, 1);
  returned.rows_acked = returned.rows_returned = 7;
  ASSERT_THAT(ledger.Report("f", returned), IsOk());
  ASSERT_THAT(ledger.Report("f", At(2, State::kFeeding, 0, 2)), IsOk());
  EXPECT_EQ(ledger.Partition("f", 2)->refed, 0);
}

TEST(FeedLedgerTest, MoreAcknowledgedThanReceivedIsRefused) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 1), IsOk());
  PartitionReport report = At(0, State::kFeeding, 10);
  report.rows_acked = 11;
  EXPECT_THAT(ledger.Report("f", report),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("partition 0: 11 rows acknowledged of 10 received")));
}

TEST(FeedLedgerTest, APartitionThatAFeedDoesNotHaveIsInvalid) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 2), IsOk());
  EXPECT_THAT(ledger.CheckPartition("f", 1), IsOk());
  EXPECT_THAT(ledger.CheckPartition("f", 2),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("it was opened with 2")));
  EXPECT_THAT(ledger.CheckPartition("f", -1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ledger.CheckPartition("g", 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST(FeedLedgerTest, WhatADeadNodeHeldIsFedAgain) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 3), IsOk());
  ASSERT_THAT(ledger.Report("f", At(0, State::kReceived, 1)), IsOk());
  ASSERT_THAT(ledger.Report("f", At(1, State::kDone, 1)), IsOk());
  PartitionReport other = At(2, State::kReceived, 1);
  other.node_attempt = 1;
  ASSERT_THAT(ledger.Report("f", other), IsOk());
  EXPECT_THAT(ledger.UnfinishedOn("f", 2, 0), ElementsAre(0));
  EXPECT_THAT(ledger.UnfinishedOn("f", 2, 1), ElementsAre(2));
  EXPECT_THAT(ledger.UnfinishedOn("f", 1, 0), IsEmpty());
  EXPECT_THAT(ledger.UnfinishedOn("none", 2, 0), IsEmpty());
}

TEST(FeedLedgerTest, AClosedFeedKeepsItsSummaryAndTakesNoReports) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 2), IsOk());
  ASSERT_THAT(ledger.Report("f", At(1, State::kFailed, 3)), IsOk());
  ledger.Close("f");
  ledger.Close("f");
  ledger.Close("none");
  FeedSummary summary = *ledger.Summary("f");
  EXPECT_TRUE(summary.closed);
  EXPECT_EQ(summary.partitions, 2);
  EXPECT_EQ(summary.pending, 1);
  EXPECT_THAT(summary.failed_partitions, ElementsAre(1));
  EXPECT_THAT(ledger.Report("f", At(0, State::kDone, 1)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(ledger.Open("f", "input", 2), StatusIs(absl::StatusCode::kAlreadyExists));
}

TEST(FeedLedgerTest, OpeningAgainWithTheSameValuesIsOk) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 2), IsOk());
  EXPECT_THAT(ledger.Open("f", "input", 2), IsOk());
  EXPECT_THAT(ledger.Open("f", "other", 2),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("queue input")));
  EXPECT_EQ(ledger.Summaries().size(), 1u);
}

TEST(FeedLedgerTest, NonsenseIsRefused) {
  FeedLedger ledger;
  EXPECT_THAT(ledger.Open("", "q", 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ledger.Open("f", "q", -1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ledger.Open("f", "q", FeedLedger::kMaxPartitions + 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ledger.Report("f", At(0, State::kDone, 1)), StatusIs(absl::StatusCode::kNotFound));
  ASSERT_THAT(ledger.Open("f", "q", 1), IsOk());
  EXPECT_THAT(ledger.Report("f", At(-1, State::kDone, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ledger.Report("f", At(FeedLedger::kMaxPartitions, State::kDone, 1)),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ledger.Partition("f", 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST(FeedLedgerTest, FeedsAndListsAreBounded) {
  FeedLedger ledger;
  for (int i = 0; i < FeedLedger::kMaxFeeds; ++i) {
    ASSERT_THAT(ledger.Open(absl::StrCat("f", i), "q", 1000), IsOk());
  }
  EXPECT_THAT(ledger.Open("more", "q", 1), StatusIs(absl::StatusCode::kResourceExhausted));
  ledger.Close("f7");
  EXPECT_THAT(ledger.Open("more", "q", 1), IsOk());
  EXPECT_THAT(ledger.Summary("f7"), StatusIs(absl::StatusCode::kNotFound));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_THAT(ledger.Report("f1", At(i, State::kFailed, 1)), IsOk());
  }
  EXPECT_EQ(ledger.Summary("f1")->failed_partitions.size(), size_t{FeedLedger::kMaxListed});
  EXPECT_EQ(ledger.Summary("f1")->failed, 1000);
}

TEST(FeedLedgerTest, WhatIsOpenOnANodeCountsAssignmentsSessionsAndWhatWaitsThere) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 4), IsOk());
  EXPECT_EQ(ledger.Assigned("f", 0), std::nullopt);
  ledger.Assign("f", 0, 2);
  ledger.Assign("f", 1, 2);
  EXPECT_EQ(ledger.OpenOn(2), 2);
  ledger.Assign("f", 1, 3);  // its node went away
  EXPECT_EQ(ledger.Assigned("f", 1), 3);
  EXPECT_EQ(ledger.OpenOn(2), 1);
  EXPECT_EQ(ledger.OpenOn(3), 1);
  EXPECT_EQ(ledger.UnderWay("f", 2), 1);
  EXPECT_EQ(ledger.UnderWay("f", 3), 1);
  PartitionReport report;
  report.executor_id = 2;
  ASSERT_THAT(ledger.Report("f", report), IsOk());
  EXPECT_EQ(ledger.OpenOn(2), 1);
  ledger.Assign("f", 0, 2);  // it is there already
  EXPECT_EQ(ledger.OpenOn(2), 1);
  EXPECT_EQ(ledger.UnderWay("f", 2), 1);
  report.state = PartitionState::kDone;
  ASSERT_THAT(ledger.Report("f", report), IsOk());
  EXPECT_EQ(ledger.OpenOn(2), 0);
  report.partition = 2;
  report.state = PartitionState::kReceived;
  ASSERT_THAT(ledger.Report("f", report), IsOk());
  EXPECT_EQ(ledger.OpenOn(2), 1);
  EXPECT_EQ(ledger.UnderWay("f", 2), 0);  // all of it is there
  EXPECT_EQ(ledger.UnderWay("g", 2), 0);
  ledger.Close("f");
  EXPECT_EQ(ledger.UnderWay("f", 3), 0);
  EXPECT_EQ(ledger.OpenOn(2), 0);
  EXPECT_EQ(ledger.OpenOn(3), 0);
  ledger.Assign("f", 3, 2);
  EXPECT_EQ(ledger.OpenOn(2), 0);
}

TEST(FeedLedgerTest, OpeningOneTooManySaysWhichWent) {
  FeedLedger ledger;
  std::string removed;
  for (int i = 0; i < FeedLedger::kMaxFeeds; ++i) {
    ASSERT_THAT(ledger.Open(absl::StrCat(i), "input", 1, &removed), IsOk());
  }
  EXPECT_EQ(removed, "");
  ledger.Close("5");
  ASSERT_THAT(ledger.Open("new", "input", 1, &removed), IsOk());
  EXPECT_EQ(removed, "5");
}

// Nobody knows how many rows the node before had.
TEST(FeedLedgerTest, RowsThatAreAllFedAgainCountOnceTheirSessionHasEnded) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 2), IsOk());
  PartitionReport again = At(0, State::kFeeding, 30);
  again.refed_all = 1;
  again.refed_from = 20;
  again.refed_reason = "worker:1 was gone";
  ASSERT_THAT(ledger.Report("f", again), IsOk());
  EXPECT_FALSE(ledger.Summary("f")->exactly_once);
  EXPECT_EQ(ledger.Summary("f")->rows_refed, 0u);
  again.state = State::kReceived;
  again.rows_received = 100;
  ASSERT_THAT(ledger.Report("f", again), IsOk());
  EXPECT_EQ(ledger.Summary("f")->rows_refed, 0u);
  again.state = State::kDone;
  again.rows_acked = 100;
  ASSERT_THAT(ledger.Report("f", again), IsOk());
  const FeedSummary summary = *ledger.Summary("f");
  EXPECT_EQ(summary.rows_refed, 80u);
  EXPECT_EQ(summary.partitions_refed, 1);
  EXPECT_THAT(summary.refed_partitions, ElementsAre(0));
  ASSERT_EQ(summary.refed.size(), 1);
  EXPECT_EQ(summary.refed[0].reason, "worker:1 was gone");
  EXPECT_EQ(summary.refed[0].rows, 80u);
}

TEST(FeedLedgerTest, WhatALedgerBeforeKnewIsGoneOnWith) {
  FeedLedger ledger;
  ASSERT_THAT(ledger.Open("f", "input", 4), IsOk());
  PartitionReport done = At(0, State::kDone, 100);
  done.rows_acked = 100;
  ledger.Restore("f", {.last = done, .rows_refed = 7});
  PartitionReport begun;
  begun.state = State::kPending;
  begun.partition = 1;
  ledger.Restore("f", {.last = begun, .rows_refed = 5});
  begun.partition = 2;
  ledger.Restore("f", {.last = begun, .refed_all = 2, .refed_from = 10});
  FeedSummary summary = *ledger.Summary("f");
  EXPECT_EQ(summary.done, 1);
  EXPECT_EQ(summary.pending, 3);
  EXPECT_EQ(summary.rows_acked, 100u);
  EXPECT_EQ(summary.rows_refed, 12u);
  EXPECT_EQ(summary.partitions_refed, 3);
  EXPECT_THAT(summary.refed_partitions, ElementsAre(0, 1, 2));
  // A session that goes on begins nothing anew, and what is owed is counted.
  for (const int64_t partition : {1, 2}) {
    PartitionReport goes_on = At(partition, State::kFeeding, 40);
    goes_on.first_row = 40;
    goes_on.rows_acked = 40;
    ASSERT_THAT(ledger.Report("f", goes_on), IsOk());
    goes_on.state = State::kDone;
    goes_on.rows_received = goes_on.rows_acked = 50;
    ASSERT_THAT(ledger.Report("f", goes_on), IsOk());
  }
  summary = *ledger.Summary("f");
  EXPECT_EQ(summary.done, 3);
  EXPECT_EQ(summary.rows_acked, 200u);
  EXPECT_EQ(summary.rows_refed, 12u + 2 * 40u);
  EXPECT_EQ(ledger.OpenOn(2), 0);
}

}  // namespace
}  // namespace millrace
