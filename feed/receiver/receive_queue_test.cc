#include "feed/receiver/receive_queue.h"

#include <limits>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/receive_queue_testing.h"
#include "feed/receiver/receive_session.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---------------------------------------------------------------------------------------- Train

TEST_F(ReceiveQueueTest, NobodyIsServedBeforeTheProgramReads) {
  SessionPtr session = Train(3);
  EXPECT_EQ(session->stage, Stage::kWaiting);
  EXPECT_EQ(queue_.Wait(*session).position, 1);
  queue_.SetMode(FeedMode::kTrain);
  EXPECT_EQ(session->stage, Stage::kServed);
}

TEST_F(ReceiveQueueTest, RowsThatLieInOneBatchAreNotCopied) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr session = Train(0);
  ASSERT_THAT(Feed(session, 6), IsOk());
  const RecordBatch* received = &session->buffered.front().rows;
  const int64_t* memory = received->column(0).values<int64_t>();
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_EQ(current_->rows.column(0).values<int64_t>(), memory);
  EXPECT_THAT(Next(2), ElementsAre(2, 3));
  EXPECT_THAT(Next(2), ElementsAre(4, 5));
  EXPECT_EQ(session->released_bytes, 0) << "its last rows are still in use";
  EXPECT_THAT(Next(2), IsEmpty());
  EXPECT_EQ(session->released_bytes, 60);
}

TEST_F(ReceiveQueueTest, TrainSessionsTakeTurnsBatchByBatch) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1), c = Train(2);
  for (const SessionPtr& s : {a, b, c}) {
    ASSERT_THAT(Feed(s, 2), IsOk());
    ASSERT_THAT(Feed(s, 2), IsOk());
  }
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(Next(2), ElementsAre(1000, 1001));
  EXPECT_THAT(Next(2), ElementsAre(2000, 2001));
  EXPECT_THAT(Next(2), ElementsAre(2, 3));
}

TEST_F(ReceiveQueueTest, TurnsSkipNobodyWhenASessionRunsDry) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1), c = Train(2);
  FeedAll(a, 1);
  for (const SessionPtr& s : {b, c}) {
    ASSERT_THAT(Feed(s, 1), IsOk());
    ASSERT_THAT(Feed(s, 1), IsOk());
  }
  EXPECT_THAT(Next(5), ElementsAre(0, 1000, 2000, 1001, 2001));
}

TEST_F(ReceiveQueueTest, ABatchSpansPartitions) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  FeedAll(a, 3);
  ASSERT_THAT(Feed(b, 4), IsOk());
  EXPECT_THAT(Next(5), ElementsAre(0, 1, 2, 1000, 1001));
  EXPECT_EQ(a->released_bytes, 30) << "its rows were copied";
  EXPECT_EQ(b->released_bytes, 0) << "the rest of its batch is still to be read";
  EXPECT_THAT(Next(2), ElementsAre(1002, 1003));
}

TEST_F(ReceiveQueueTest, ABatchLargerThanAllCreditIsAssembledAndItsCreditReleasedMeanwhile) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 4), IsOk());
  EXPECT_EQ(AskFor(10), State::kWait);
  EXPECT_EQ(a->released_bytes, 40);
  ASSERT_THAT(Feed(a, 4), IsOk());
  EXPECT_EQ(queue_.Fill(), State::kWait);
  EXPECT_EQ(a->released_bytes, 80);
  ASSERT_THAT(Feed(a, 4), IsOk());
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Next(2), ElementsAre(10, 11));
}

TEST_F(ReceiveQueueTest, FeedEndBringsTheShortTail) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 5);
  EXPECT_THAT(Next(3), ElementsAre(0, 1, 2));
  EXPECT_EQ(AskFor(3), State::kWait) << "another partition of the feed may come";
  queue_.FeedEnd("f1", false);
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(3, 4));
  EXPECT_THAT(Next(3), IsEmpty());
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_EQ(Final(a), FrameType::kDone);
  EXPECT_EQ(*DecodeDone(a->final->second), (DoneFrame{.rows_in = 5, .rows_out = 0}));
}

TEST_F(ReceiveQueueTest, ABatchNeverSpansTwoFeeds) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0, "f1");
  FeedAll(a, 3);
  SessionPtr b = Train(1, "f2");
  EXPECT_EQ(b->stage, Stage::kWaiting) << "the first feed has not ended";
  queue_.FeedEnd("f1", false);
  EXPECT_EQ(b->stage, Stage::kServed);
  Accept(b);
  FeedAll(b, 3);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(Next(2), ElementsAre(2));
  EXPECT_THAT(Next(2), ElementsAre(1000, 1001));
}

TEST_F(ReceiveQueueTest, AFeedThatBroughtNothingDoesNotHoldUpTheNext) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0, "f1");
  SessionPtr b = Train(0, "f2");
  EXPECT_EQ(queue_.Wait(*b).position, 1);
  queue_.Abort(a.get());
  EXPECT_EQ(b->stage, Stage::kServed);
}

TEST_F(ReceiveQueueTest, AFeedThatBroughtRowsHoldsUpTheNextUntilFeedEnd) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0, "f1");
  SessionPtr b = Train(0, "f2");
  ASSERT_THAT(Feed(a, 1), IsOk());
  queue_.Abort(a.get());
  EXPECT_EQ(b->stage, Stage::kWaiting);
  queue_.FeedEnd("f1", false);
  EXPECT_EQ(b->stage, Stage::kServed);
}

TEST_F(ReceiveQueueTest, AnAbortedFeedDropsWhatWasNotReturned) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 5);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_EQ(AskFor(4), State::kWait);
  queue_.FeedEnd("f1", true);
  EXPECT_EQ(queue_.Fill(), State::kWait);
  EXPECT_EQ(Error(a).code, absl::StatusCode::kAborted);
  SessionPtr b = Train(1, "f2");
  ASSERT_THAT(Feed(b, 4), IsOk());
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(1000, 1001, 1002, 1003));
}

TEST_F(ReceiveQueueTest, FeedEndEndsSessionsThatAreNotComplete) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr whole = Train(0), duplicate = Train(0);
  FeedAll(whole, 2);
  ASSERT_THAT(Feed(duplicate, 1), IsOk());
  queue_.FeedEnd("f1", false);
  EXPECT_EQ(Error(duplicate).code, absl::StatusCode::kAborted);
  EXPECT_THAT(Next(8), ElementsAre(0, 1));
}

TEST_F(ReceiveQueueTest, ALateSessionOfAnEndedFeedIsRefused) {
  queue_.SetMode(FeedMode::kTrain);
  queue_.FeedEnd("f1", false);
  EXPECT_EQ(Error(Train(0)).code, absl::StatusCode::kFailedPrecondition);
}

TEST_F(ReceiveQueueTest, RowsOfALostConnectionLeaveTheBatchThatWaits) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 2), IsOk());
  ASSERT_THAT(Feed(b, 1), IsOk());
  EXPECT_EQ(AskFor(4), State::kWait);
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  EXPECT_EQ(queue_.Fill(), State::kWait);
  ASSERT_THAT(Feed(b, 3), IsOk());
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(1000, 1001, 1002, 1003));
}

TEST_F(ReceiveQueueTest, RowsInTheReadersHandAreVoidWithTheirSession) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 4), IsOk());
  ASSERT_THAT(Feed(b, 4), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  EXPECT_THAT(Next(2), ElementsAre(1000, 1001));
}

TEST_F(ReceiveQueueTest, ACompletePartitionSurvivesItsConnection) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 4);
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Next(4), IsEmpty());
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
}

TEST_F(ReceiveQueueTest, APartitionFedAgainReplacesTheOneWhoseConnectionWasLost) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 4);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  SessionPtr again = Train(0, "f1", 2);
  EXPECT_EQ(a->stage, Stage::kEnded);
  ASSERT_THAT(Feed(again, 2), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(2, 3));
}

// The feeder goes on in a round of its own, as it does after feed_end.
TEST_F(ReceiveQueueTest, APartitionFedAgainAfterFeedEndReplacesTheOneWhoseConnectionWasLost) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 4);
  queue_.FeedEnd("f1", /*aborted=*/false);
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  FeedAll(Train(0, "f1.1"), 4);
  EXPECT_EQ(a->stage, Stage::kEnded);
  EXPECT_THAT(Next(4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Next(4), IsEmpty());
}

TEST_F(ReceiveQueueTest, TerminateAcknowledgesWhatWasReturnedAndDropsTheRest) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 4), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(queue_.Terminate(FeedMode::kTrain, "done"), IsOk());
  EXPECT_EQ(Final(a), FrameType::kTerminated);
  EXPECT_EQ(a->used_row, 2);
  EXPECT_EQ(Final(b), FrameType::kTerminated);
  EXPECT_EQ(Final(Train(2)), FrameType::kTerminated);
  EXPECT_EQ(AskFor(2), State::kStop);
  EXPECT_TRUE(queue_.Stopped(FeedMode::kTrain));
}

TEST_F(ReceiveQueueTest, EndFeedLetsCompletePartitionsBeRead) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  FeedAll(a, 3);
  ASSERT_THAT(Feed(b, 1), IsOk());
  queue_.EndFeed(FeedMode::kTrain, "end");
  EXPECT_EQ(Final(b), FrameType::kTerminated);
  EXPECT_FALSE(queue_.Stopped(FeedMode::kTrain));
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(Next(2), ElementsAre(2));
  EXPECT_TRUE(queue_.Stopped(FeedMode::kTrain));
  EXPECT_EQ(AskFor(2), State::kStop);
}

// It may use it, and its feeder will not hear of that: those rows are fed again, and have to count.
TEST_F(ReceiveQueueTest, EndFeedSaysWhatTheProgramHasInHand) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 6), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(Next(2), ElementsAre(2, 3));  // uses what was before
  queue_.EndFeed(FeedMode::kTrain, "end");
  EXPECT_EQ(a->used_row, 2);
  const auto row = [](const SessionPtr& session) {
    return DecodeTerminated(session->final->second)->row;
  };
  EXPECT_EQ(row(a), 4);
  EXPECT_EQ(row(b), 0);
}

TEST_F(ReceiveQueueTest, EndFeedReleasesAWaitingBatchAsATail) {
  queue_.SetMode(FeedMode::kTrain);
  FeedAll(Train(0), 3);
  EXPECT_EQ(AskFor(4), State::kWait);
  queue_.EndFeed(FeedMode::kTrain, "end");
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(0, 1, 2));
}

TEST_F(ReceiveQueueTest, EndOfTrainingLeavesInferenceAlone) {
  queue_.SetMode(FeedMode::kTrain);
  queue_.EndFeed(FeedMode::kTrain, "end");
  SessionPtr session = Infer(0);
  EXPECT_EQ(session->stage, Stage::kWaiting);
  queue_.SetMode(FeedMode::kInference);
  EXPECT_EQ(session->stage, Stage::kServed);
}

TEST_F(ReceiveQueueTest, APartitionWithoutRowsIsDoneAtOnce) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(queue_.EndPartition(a.get(), 0), IsOk());
  EXPECT_EQ(Final(a), FrameType::kDone);
  queue_.FeedEnd("f1", false);
  EXPECT_EQ(AskFor(1), State::kWait) << "an empty feed is no batch";
}

TEST_F(ReceiveQueueTest, AResumedSessionCountsFromItsFirstRow) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0, "f1", 100);
  FeedAll(a, 4);
  EXPECT_THAT(Next(4), ElementsAre(100, 101, 102, 103));
  EXPECT_THAT(Next(4), IsEmpty());
  ASSERT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_EQ(DecodeDone(a->final->second)->rows_in, 4);
}

// ----------------------------------------------------------------------------------------- REVOKE

constexpr int64_t kAnyRow = std::numeric_limits<int64_t>::max();

TEST_F(ReceiveQueueTest, RevokeGivesBackWhatWasNotReturned) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 4), IsOk());
  FeedAll(b, 3);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  ASSERT_THAT(queue_.Revoke(a.get(), kAnyRow), IsOk());
  EXPECT_TRUE(a->revoked);
  EXPECT_EQ(a->end_row, 2);
  EXPECT_FALSE(queue_.FinishIfDone(a.get())) << "the program has the rows in hand";
  EXPECT_THAT(Next(3), ElementsAre(1000, 1001, 1002));
  ASSERT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_EQ(Final(a), FrameType::kDone);
  EXPECT_EQ(DecodeDone(a->final->second)->rows_in, 2);
  EXPECT_EQ(a->used_row, 2);
}

TEST_F(ReceiveQueueTest, APartitionThatIsNotBegunIsRevokedAsAWhole) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0, "f1", 100);
  FeedAll(a, 3);
  ASSERT_THAT(queue_.Revoke(a.get(), 100), IsOk());
  EXPECT_EQ(Final(a), FrameType::kDone);
  EXPECT_EQ(DecodeDone(a->final->second)->rows_in, 0);
  EXPECT_EQ(AskFor(1), State::kWait);
  queue_.FeedEnd("f1", false);
  EXPECT_EQ(queue_.Fill(), State::kWait) << "the feed is over without a row";
}

TEST_F(ReceiveQueueTest, RevokeLeavesWhatBeginsBehindTheRowThatItNames) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 4);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  ASSERT_THAT(queue_.Revoke(a.get(), 1), IsOk());
  EXPECT_FALSE(a->revoked);
  EXPECT_THAT(Next(2), ElementsAre(2, 3));
  ASSERT_THAT(queue_.Revoke(a.get(), kAnyRow), IsOk());
  EXPECT_FALSE(a->revoked) << "everything is with the program";
}

TEST_F(ReceiveQueueTest, RevokeTakesRowsOutOfABatchThatWaitsForMore) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 2), IsOk());
  ASSERT_EQ(AskFor(4), State::kWait);
  ASSERT_THAT(Feed(b, 1), IsOk());
  ASSERT_EQ(queue_.Fill(), State::kWait);
  ASSERT_THAT(queue_.Revoke(a.get(), kAnyRow), IsOk());
  EXPECT_EQ(Final(a), FrameType::kDone);
  ASSERT_EQ(queue_.Fill(), State::kWait);
  ASSERT_THAT(Feed(b, 3), IsOk());
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(1000, 1001, 1002, 1003));
}

TEST_F(ReceiveQueueTest, ABatchThatIsCompleteKeepsItsRows) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 2), IsOk());
  ASSERT_THAT(Feed(b, 4), IsOk());
  ASSERT_EQ(AskFor(4), State::kReady);
  ASSERT_THAT(queue_.Revoke(a.get(), kAnyRow), IsOk());
  ASSERT_THAT(queue_.Revoke(b.get(), kAnyRow), IsOk());
  EXPECT_EQ(a->end_row, 2);
  EXPECT_EQ(b->end_row, 2);
  EXPECT_THAT(TakeAll(), ElementsAre(0, 1, 1000, 1001));
  EXPECT_THAT(Next(1), IsEmpty()) << "what follows was given back";
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_TRUE(queue_.FinishIfDone(b.get()));
}

TEST_F(ReceiveQueueTest, WhatComesAfterRevokeIsDroppedAndItsCreditComesBack) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 4), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  ASSERT_THAT(Feed(a, 4), IsOk());
  ASSERT_THAT(queue_.Revoke(a.get(), kAnyRow), IsOk());
  EXPECT_THAT(queue_.AddRows(a.get(), {.rows = Rows(*a, 8, 2), .first_row = 8, .bytes = 20}),
              IsOk());
  EXPECT_THAT(queue_.Block(a.get(), 2000, 1), IsOk());
  EXPECT_THAT(queue_.EndPartition(a.get(), 10), IsOk());
  EXPECT_EQ(a->CommittedBytes(), 40) << "the batch in hand";
  EXPECT_THAT(Next(2), IsEmpty());
  EXPECT_EQ(a->CommittedBytes(), 0);
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
}

TEST_F(ReceiveQueueTest, ARevokedSessionOutlivesItsConnectionAndTerminate) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  ASSERT_THAT(Feed(a, 4), IsOk());
  ASSERT_THAT(Feed(b, 4), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(Next(4), ElementsAre(2, 3, 1000, 1001));
  ASSERT_THAT(queue_.Revoke(a.get(), kAnyRow), IsOk());
  ASSERT_THAT(queue_.Revoke(b.get(), kAnyRow), IsOk());
  EXPECT_EQ(a->end_row, 4);
  EXPECT_EQ(b->end_row, 2);
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  EXPECT_EQ(a->stage, Stage::kReceived) << "its rows are still in use";
  ASSERT_THAT(queue_.Terminate(FeedMode::kTrain, "enough"), IsOk());
  EXPECT_EQ(Final(b), FrameType::kDone);
}

TEST_F(ReceiveQueueTest, OnlyTrainingSessionsThatAreAcceptedAreRevoked) {
  queue_.SetMode(FeedMode::kInference);
  SessionPtr inference = Infer(0), train = Train(1);
  EXPECT_THAT(queue_.Revoke(inference.get(), 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(queue_.Revoke(train.get(), 0),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("before CREDIT")));
}

// ------------------------------------------------------------------------------- What must not be

TEST_F(ReceiveQueueTest, MissingRowsAreDataLoss) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 2), IsOk());
  EXPECT_THAT(queue_.AddRows(a.get(), {.rows = Rows(*a, 3, 1), .first_row = 3, .bytes = 10}),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Error(a).code, absl::StatusCode::kDataLoss);
  EXPECT_THAT(Error(a).message, HasSubstr("row 3, expected row 2"));
}

TEST_F(ReceiveQueueTest, AnEndAtTheWrongRowIsDataLoss) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 2), IsOk());
  EXPECT_THAT(queue_.EndPartition(a.get(), 3), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Error(a).code, absl::StatusCode::kDataLoss);
}

TEST_F(ReceiveQueueTest, RowsBeforeCreditAreRefused) {
  SessionPtr a = Train(0);  // the program does not read
  EXPECT_THAT(Feed(a, 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ReceiveQueueTest, RowsAfterTheEndAreRefused) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  FeedAll(a, 1);
  EXPECT_THAT(Feed(a, 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(queue_.EndPartition(a.get(), 1), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ReceiveQueueTest, RowsBeyondTheCreditAreRefused) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 60), IsOk());
  EXPECT_THAT(Feed(a, 41), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(Feed(a, 40), IsOk());
}

TEST_F(ReceiveQueueTest, ABlockedSessionHasGivenItsCreditBack) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0);
  ASSERT_THAT(Feed(a, 60), IsOk());
  EXPECT_EQ(a->CommittedBytes(), 1000);
  ASSERT_THAT(queue_.Block(a.get(), 600 + 500, 1), IsOk());
  EXPECT_EQ(a->CommittedBytes(), 600);
  EXPECT_TRUE(queue_.Full());
  EXPECT_THAT(Feed(a, 1), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("BLOCKED")));
  a->credit_sent.limit = 1100;
  EXPECT_FALSE(queue_.Full());
  EXPECT_THAT(Feed(a, 50), IsOk());
}

TEST_F(ReceiveQueueTest, ABlockedThatNoFeederWouldSendIsRefused) {
  SessionPtr early = Train(0);  // the program does not read
  EXPECT_THAT(queue_.Block(early.get(), 10, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("before CREDIT")));
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(1);
  ASSERT_THAT(Feed(a, 10), IsOk());
  EXPECT_THAT(queue_.Block(a.get(), 100, 1), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(queue_.Block(a.get(), 100 + kMaxBatchBytes + 1, 1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(queue_.Block(a.get(), 100 + kMaxBatchBytes, 1), IsOk());
  ASSERT_THAT(queue_.EndPartition(a.get(), 10), IsOk());
  EXPECT_THAT(queue_.Block(a.get(), 110, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("after END_PARTITION")));
}

TEST_F(ReceiveQueueTest, SchemasOfAFeedMustBeEqual) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  const Schema ints = *SchemaBuilder().Add("id", Type::Int64()).Build();
  const Schema floats = *SchemaBuilder().Add("id", Type::Float32()).Build();
  EXPECT_THAT(queue_.SetSchema(a.get(), ints), IsOk());
  EXPECT_EQ(queue_.SetSchema(b.get(), floats)->c_schema(), floats.c_schema());
  EXPECT_EQ(Error(b).code, absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Error(b).message, HasSubstr("\"id\""));
}

TEST_F(ReceiveQueueTest, ASchemaWaitsForCredit) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), later = Train(1, "f2");
  const Schema ints = *SchemaBuilder().Add("id", Type::Int64()).Build();
  const Schema floats = *SchemaBuilder().Add("id", Type::Float32()).Build();
  EXPECT_THAT(queue_.SetSchema(a.get(), ints), IsOk());
  EXPECT_THAT(queue_.SetSchema(later.get(), floats),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("before CREDIT")));
  queue_.Abort(a.get());
  queue_.FeedEnd("f1", /*aborted=*/true);
  Accept(later);
  EXPECT_THAT(queue_.SetSchema(later.get(), floats), IsOk()) << "another feed";
}

TEST_F(ReceiveQueueTest, EqualSchemasOfAFeedBecomeOne) {
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr a = Train(0), b = Train(1);
  const Schema first = *SchemaBuilder().Add("id", Type::Int64()).Build();
  const Schema second = *SchemaBuilder().Add("id", Type::Int64()).Build();
  ASSERT_NE(first.c_schema(), second.c_schema());
  EXPECT_EQ(queue_.SetSchema(a.get(), first)->c_schema(), first.c_schema());
  EXPECT_EQ(queue_.SetSchema(b.get(), second)->c_schema(), first.c_schema());
}

}  // namespace
}  // namespace millrace
