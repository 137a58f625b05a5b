// How a queue gives out batches where all ranks are to get equally many.

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/equal_steps.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_queue_testing.h"
#include "feed/receiver/receive_session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EqualQueueTest : public ReceiveQueueTest {
 protected:
  // Feed f1, of one partition with so many rows, of which the coordinator knows. There are so many
  // steps of two rows, and no more.
  SessionPtr BeginPadded(int64_t rows, int64_t steps) {
    EXPECT_THAT(queue_.SetEqual(2, /*pad=*/true), IsOk());
    queue_.SetMode(FeedMode::kTrain);
    SessionPtr session = Train(0);
    FeedAll(session, rows);
    ReceiverGrant grant = {.queue = "input", .feed_id = "f1", .generation = 1, .question = 1};
    queue_.equal()->Grant(grant);
    EXPECT_EQ(AskFor(2), State::kWait);
    EXPECT_EQ(queue_.ReportEqual(absl::ZeroDuration())->answer, 1);
    grant.steps = steps;
    grant.last = true;
    queue_.equal()->Grant(grant);
    return session;
  }
};

// The cluster is stopped as soon as a rank has failed, perhaps while the program uses a batch.
TEST_F(EqualQueueTest, RanksHearOfALostOneBeforeTheirFeedEnds) {
  ASSERT_THAT(queue_.SetEqual(2, /*pad=*/false), IsOk());
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr session = Train(0);
  ASSERT_THAT(Feed(session, 6), IsOk());
  ReceiverGrant grant = {.queue = "input", .feed_id = "f1", .generation = 1, .steps = 1};
  queue_.equal()->Grant(grant);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  grant.generation = 2;
  grant.steps = 0;
  grant.error = absl::AbortedError("worker:2 was killed by SIGKILL");
  grant.fatal = true;
  queue_.equal()->Grant(grant);
  queue_.EndFeed(FeedMode::kTrain, "end");
  EXPECT_FALSE(queue_.Stopped(FeedMode::kTrain));
  for (const bool stopped : {false, true}) {  // the error is the answer to all that follow
    EXPECT_EQ(queue_.Stopped(FeedMode::kTrain), stopped);
    EXPECT_EQ(AskFor(2), State::kError);
    EXPECT_THAT(queue_.equal()->TakeError(),
                StatusIs(absl::StatusCode::kAborted, HasSubstr("worker:2")));
  }
}

// A program may write to what it was given, and divides by 255 in place.
TEST_F(EqualQueueTest, ABatchIsFilledWithRowsAsTheyWereReceived) {
  ASSERT_THAT(queue_.SetEqual(2, /*pad=*/true), IsOk());
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr session = Train(0);
  FeedAll(session, 3);
  ReceiverGrant grant = {.queue = "input", .feed_id = "f1", .generation = 1, .steps = 1};
  queue_.equal()->Grant(grant);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  auto* const memory = const_cast<int64_t*>(current_->rows.column(0).values<int64_t>());
  memory[0] = memory[1] = -1;
  grant.question = 1;
  queue_.equal()->Grant(grant);
  ASSERT_TRUE(queue_.ReportEqual(absl::ZeroDuration()).has_value());
  grant.steps = 2;
  grant.last = true;
  queue_.equal()->Grant(grant);
  Use();
  ASSERT_EQ(AskFor(2), State::kReady);
  const Delivery delivery = queue_.Take();
  ASSERT_EQ(delivery.repeated.size(), 1);
  EXPECT_THAT(Values(delivery.repeated[0]), ElementsAre(0));
}

// Its steps are granted by the time its connection breaks, and are enough for the rows that come
// again: none of them may be filled while they are under way.
TEST_F(EqualQueueTest, NoBatchIsFilledWhileRowsOfALostConnectionComeAgain) {
  SessionPtr lost = BeginPadded(/*rows=*/4, /*steps=*/3);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.Disconnect(lost.get(), absl::UnavailableError("lost"));
  SessionPtr again = Train(0);
  Use();
  EXPECT_EQ(AskFor(2), State::kWait);
  EXPECT_FALSE(queue_.ReportEqual(absl::Seconds(1)).has_value());
  FeedAll(again, 4);
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(0, 1));
  EXPECT_THAT(Next(2), ElementsAre(2, 3));
  EXPECT_EQ(queue_.ReportEqual(absl::Seconds(2))->rows, 6);
}

// It was given all of them. What it takes instead of those that come again would be in no count.
TEST_F(EqualQueueTest, NoBatchIsFilledBetweenALostConnectionAndItsRows) {
  SessionPtr lost = BeginPadded(/*rows=*/2, /*steps=*/2);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.Disconnect(lost.get(), absl::UnavailableError("lost"));
  SessionPtr again = Train(0);
  Use();
  EXPECT_EQ(AskFor(2), State::kWait);
  FeedAll(again, 2);
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(0, 1));
}

// All rows of a call are used, and its feeder goes on, before this rank has taken its last steps.
TEST_F(EqualQueueTest, TheStepsThatAreLeftOfACallAreTakenBeforeTheNextBegins) {
  BeginPadded(/*rows=*/2, /*steps=*/3);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  Use();
  queue_.FeedEnd("f1", /*aborted=*/false);
  ASSERT_EQ(AskFor(2), State::kReady);
  EXPECT_EQ(queue_.Take().repeated.size(), 1);

  SessionPtr next = Train(1, "f2");
  EXPECT_EQ(next->stage, Stage::kServed) << "its rows may come meanwhile";
  FeedAll(next, 2);
  ReceiverGrant grant = {.queue = "input", .feed_id = "f2", .generation = 2};
  queue_.equal()->Grant(grant);
  EXPECT_EQ(queue_.equal()->call(), "f1");
  EXPECT_EQ(queue_.ReportEqual(absl::ZeroDuration())->feed_id, "f2") << "it has begun";
  ASSERT_EQ(AskFor(2), State::kReady);
  EXPECT_EQ(queue_.Take().repeated.size(), 1) << "the third step";

  EXPECT_EQ(queue_.ReportEqual(absl::Seconds(1))->rows, 2);
  EXPECT_EQ(queue_.equal()->call(), "f2");
  grant.steps = 1;
  queue_.equal()->Grant(grant);
  EXPECT_THAT(Next(2), ElementsAre(1000, 1001));
}

// Its last step only repeats rows: nothing asks for more when it is taken.
TEST_F(EqualQueueTest, TheNextCallIsServedThoughTheProgramHasNotAskedSince) {
  BeginPadded(/*rows=*/2, /*steps=*/2);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  Use();
  ASSERT_EQ(AskFor(2), State::kReady);
  EXPECT_EQ(queue_.Take().repeated.size(), 1);
  queue_.FeedEnd("f1", /*aborted=*/false);
  SessionPtr next = Train(1, "f2");
  EXPECT_EQ(next->stage, Stage::kServed);
  queue_.equal()->Grant({.queue = "input", .feed_id = "f2", .generation = 2});
  EXPECT_EQ(queue_.equal()->call(), "f2");
}

TEST_F(EqualQueueTest, ADeathInTheNextCallEndsTheStepsThatAreLeft) {
  BeginPadded(/*rows=*/2, /*steps=*/3);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  Use();
  queue_.equal()->Grant({.queue = "input", .feed_id = "f2", .generation = 2});
  queue_.equal()->Grant({.queue = "input",
                         .feed_id = "f2",
                         .generation = 3,
                         .error = absl::AbortedError("worker:2 was killed by SIGKILL")});
  EXPECT_EQ(AskFor(2), State::kError);
  EXPECT_THAT(queue_.equal()->TakeError(), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(AskFor(2), State::kWait);
  EXPECT_EQ(queue_.equal()->call(), "f2");
}

// All steps are granted as soon as the rows are there; others may be in one that this rank misses.
TEST_F(EqualQueueTest, ACallThatIsAbortedBeforeItsLastStepIsAnError) {
  BeginPadded(/*rows=*/2, /*steps=*/2);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.FeedEnd("f1", /*aborted=*/true);
  EXPECT_EQ(AskFor(2), State::kError);
  EXPECT_THAT(queue_.equal()->TakeError(), StatusIs(absl::StatusCode::kAborted));
}

TEST_F(EqualQueueTest, ACallThatIsAbortedAfterItsLastStepIsNone) {
  BeginPadded(/*rows=*/2, /*steps=*/1);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.FeedEnd("f1", /*aborted=*/true);
  EXPECT_EQ(AskFor(2), State::kWait);
}

// Its feeder has lost only what it hears from the node, and says so before the node sees that. The
// coordinator hears of it after the node has answered once more.
TEST_F(EqualQueueTest, WhatWasFilledBeforeRowsCameAgainIsCounted) {
  SessionPtr session = BeginPadded(/*rows=*/4, /*steps=*/2);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.Abort(session.get());
  Use();
  EXPECT_EQ(AskFor(2), State::kWait) << "the answer does not hold";
  EXPECT_EQ(queue_.ReportEqual(absl::Seconds(1))->rows, 2);
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_EQ(queue_.Take().repeated.size(), 1U);

  queue_.equal()->Grant({.queue = "input",
                         .feed_id = "f1",
                         .generation = 1,
                         .steps = 2,
                         .last = true,
                         .question = 2});
  FeedAll(Train(0, "f1", /*first_row=*/2), 2);
  const std::optional<ReceiverRows> told = queue_.ReportEqual(absl::Seconds(2));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->answer, 2U);
  EXPECT_EQ(told->rows, 4);
  EXPECT_EQ(told->dropped, 2) << "which does not follow from the rows";
  EXPECT_EQ(told->repeated, 2);
}

// Another attempt of its task has fed it meanwhile, of which the coordinator knows: it asks no
// more.
TEST_F(EqualQueueTest, TheRowsOfASessionThatIsLateMayGoAfterTheQuestion) {
  ASSERT_THAT(queue_.SetEqual(2, /*pad=*/true), IsOk());
  queue_.SetMode(FeedMode::kTrain);
  SessionPtr late = Train(0);
  ASSERT_THAT(Feed(late, 2), IsOk());
  FeedAll(Train(0), 4);
  queue_.equal()->Grant({.queue = "input", .feed_id = "f1", .generation = 1, .question = 1});
  EXPECT_EQ(AskFor(2), State::kWait);
  EXPECT_EQ(queue_.ReportEqual(absl::ZeroDuration())->answer, 0U);
  queue_.Abort(late.get());
  const std::optional<ReceiverRows> told = queue_.ReportEqual(absl::Seconds(1));
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->answer, 1U);
  EXPECT_EQ(told->rows, 4);
}

// All rows are acknowledged long before a slow rank has taken the steps that only repeat some.
TEST_F(EqualQueueTest, RepeatedBatchesAreGivenOutThoughTheFeedHasEnded) {
  ASSERT_THAT(queue_.SetEqual(2, /*pad=*/true), IsOk());
  queue_.SetMode(FeedMode::kTrain);
  FeedAll(Train(0), 2);
  ReceiverGrant grant = {.queue = "input", .feed_id = "f1", .generation = 1, .question = 1};
  queue_.equal()->Grant(grant);
  EXPECT_EQ(AskFor(2), State::kWait);
  ASSERT_TRUE(queue_.ReportEqual(absl::ZeroDuration()).has_value());
  grant.steps = 3;
  grant.last = true;
  queue_.equal()->Grant(grant);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  queue_.EndFeed(FeedMode::kTrain, "end");
  for (int repeated = 0; repeated < 2; ++repeated) {
    EXPECT_FALSE(queue_.Stopped(FeedMode::kTrain));
    Use();
    ASSERT_EQ(AskFor(2), State::kReady);
    EXPECT_EQ(queue_.Take().repeated.size(), 1);
  }
  EXPECT_TRUE(queue_.Stopped(FeedMode::kTrain));
  EXPECT_EQ(AskFor(2), State::kStop);
}

TEST_F(EqualQueueTest, AFeedThatEndsBeforeTheRowsOfAStepAreHereIsStopped) {
  ASSERT_THAT(queue_.SetEqual(2, /*pad=*/false), IsOk());
  queue_.SetMode(FeedMode::kTrain);
  ASSERT_THAT(Feed(Train(0), 1), IsOk());
  queue_.equal()->Grant({.queue = "input", .feed_id = "f1", .generation = 1, .steps = 3});
  EXPECT_EQ(AskFor(2), State::kWait);
  queue_.EndFeed(FeedMode::kTrain, "end");
  EXPECT_EQ(queue_.Fill(), State::kStop);
  EXPECT_TRUE(queue_.Stopped(FeedMode::kTrain));
}

TEST_F(EqualQueueTest, ARankThatReadsNoMoreHearsOfNoError) {
  ASSERT_THAT(queue_.SetEqual(2, /*pad=*/false), IsOk());
  queue_.SetMode(FeedMode::kTrain);
  ReceiverGrant grant = {.queue = "input", .feed_id = "f1", .generation = 1};
  queue_.equal()->Grant(grant);
  EXPECT_THAT(queue_.Terminate(FeedMode::kTrain, "done"), IsOk());
  grant.error = absl::AbortedError("worker:2 was killed by SIGKILL");
  grant.fatal = true;
  queue_.equal()->Grant(grant);
  EXPECT_TRUE(queue_.Stopped(FeedMode::kTrain));
  EXPECT_EQ(AskFor(2), State::kStop);
}

}  // namespace
}  // namespace millrace
