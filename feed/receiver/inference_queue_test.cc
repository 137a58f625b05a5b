// ReceiveQueue where its program answers the rows that it reads.

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/receiver/receive_queue.h"
#include "feed/receiver/receive_queue_testing.h"
#include "feed/receiver/receive_session.h"
#include "feed/wire/frame.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InferenceQueueTest : public ReceiveQueueTest {
 protected:
  InferenceQueueTest() { queue_.SetMode(FeedMode::kInference); }
};

TEST_F(InferenceQueueTest, SessionsAreServedOneByOneInTheOrderOfOpen) {
  SessionPtr a = Infer(0), b = Infer(1), c = Infer(2);
  EXPECT_EQ(a->stage, Stage::kServed);
  EXPECT_EQ(queue_.Wait(*b).position, 1);
  EXPECT_EQ(queue_.Wait(*c).position, 2);
  const int64_t progress = queue_.Wait(*c).progress;
  FeedAll(a, 2);
  EXPECT_GT(queue_.Wait(*c).progress, progress);
  EXPECT_THAT(Next(8), ElementsAre(0, 1)) << "a batch never spans two partitions";
  EXPECT_THAT(Answer(2), IsOk());
  EXPECT_EQ(*DecodeDone(a->final->second), (DoneFrame{.rows_in = 2, .rows_out = 2}));
  EXPECT_EQ(b->stage, Stage::kServed);
  EXPECT_EQ(queue_.Wait(*c).position, 1);
}

TEST_F(InferenceQueueTest, BatchesMayBeReadAheadOfResults) {
  SessionPtr a = Infer(0);
  ASSERT_THAT(Feed(a, 4), IsOk());
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  EXPECT_THAT(Next(2), ElementsAre(2, 3));
  EXPECT_THAT(Answer(3), IsOk());
  EXPECT_THAT(Answer(1), IsOk());
  EXPECT_EQ(a->result_row, 4);
  EXPECT_EQ(a->stage, Stage::kServed) << "the partition may have more rows";
  ASSERT_THAT(queue_.EndPartition(a.get(), 4), IsOk());
  EXPECT_EQ(Final(a), FrameType::kDone);
}

// The program may ask for more as soon as they may be sent.
TEST_F(InferenceQueueTest, AnAnsweredSessionWhoseResultsWaitForCreditIsNotShortOfAny) {
  SessionPtr a = Infer(0), b = Infer(1);
  a->result_limit = 1;
  FeedAll(a, 2);
  EXPECT_THAT(Next(2), ElementsAre(0, 1));
  a->results.push_back({.body_bytes = 10});
  a->results.push_back({.body_bytes = 10});
  a->result_unsent_bytes = 20;
  EXPECT_THAT(Answer(2), IsOk());
  EXPECT_EQ(AskFor(2), State::kWait);
  ASSERT_THAT(queue_.RaiseResultLimit(a.get(), 11), IsOk());
  EXPECT_TRUE(queue_.FinishIfDone(a.get()));
  EXPECT_EQ(Final(a), FrameType::kDone);
  Accept(b);
  FeedAll(b, 2);
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(1000, 1001));
}

TEST_F(InferenceQueueTest, TooFewResultsFailTheSessionNamingTheRows) {
  SessionPtr a = Infer(3), b = Infer(4);
  FeedAll(a, 64);
  EXPECT_EQ(Next(64).size(), 64u);
  EXPECT_THAT(Answer(60), IsOk());
  EXPECT_THAT(Next(64), IsEmpty());
  EXPECT_EQ(Error(a).code, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Error(a).message,
            "worker:0 returned 60 results for the 64 rows of partition 3: rows 60..63 are "
            "unanswered");
  EXPECT_THAT(queue_.TakeWarnings(), ElementsAre(Error(a).message));
  // The next partition is served, and no result of it is lost to the one before.
  EXPECT_EQ(b->stage, Stage::kServed);
  Accept(b);
  FeedAll(b, 2);
  ASSERT_EQ(queue_.Fill(), State::kReady);
  EXPECT_THAT(TakeAll(), ElementsAre(4000, 4001));
  EXPECT_THAT(Answer(2), IsOk());
  EXPECT_EQ(Final(b), FrameType::kDone);
}

TEST_F(InferenceQueueTest, TheEndOfAPartitionThatComesWhileTheProgramWaitsFailsTheUnanswered) {
  SessionPtr a = Infer(3);
  ASSERT_THAT(Feed(a, 2), IsOk());
  EXPECT_EQ(Next(2).size(), 2u);
  EXPECT_THAT(Next(2), IsEmpty());
  EXPECT_EQ(a->stage, Stage::kServed) << "it may still have more rows";
  ASSERT_THAT(queue_.EndPartition(a.get(), 2), IsOk());
  EXPECT_EQ(queue_.Fill(), State::kWait);
  EXPECT_THAT(Error(a).message, HasSubstr("rows 0..1 are unanswered"));
}

TEST_F(InferenceQueueTest, TooManyResultsFailTheSessionAndTheCall) {
  SessionPtr a = Infer(3);
  FeedAll(a, 4);
  EXPECT_EQ(Next(4).size(), 4u);
  EXPECT_THAT(Answer(6), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("6 results for the 4 rows of partition 3")));
  EXPECT_EQ(Error(a).code, absl::StatusCode::kFailedPrecondition);
}

TEST_F(InferenceQueueTest, ResultsWithoutRowsAreAnError) {
  EXPECT_THAT(Answer(1), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(InferenceQueueTest, ResultsOfAPartitionThatHasGoneAreDroppedAndShiftNothing) {
  SessionPtr a = Infer(0), b = Infer(1);
  ASSERT_THAT(Feed(a, 3), IsOk());
  EXPECT_THAT(Next(3), ElementsAre(0, 1, 2));
  queue_.Disconnect(a.get(), absl::UnavailableError("gone"));
  Accept(b);
  FeedAll(b, 2);
  EXPECT_THAT(Answer(2), IsOk());
  EXPECT_THAT(Answer(1), IsOk());
  EXPECT_EQ(b->result_row, 0);
  EXPECT_THAT(Next(2), ElementsAre(1000, 1001));
  EXPECT_THAT(Answer(2), IsOk());
  EXPECT_EQ(Final(b), FrameType::kDone);
}

TEST_F(InferenceQueueTest, OneCallMayAnswerRowsOfALostAndOfALivePartition) {
  SessionPtr a = Infer(0), b = Infer(1);
  ASSERT_THAT(Feed(a, 2), IsOk());
  EXPECT_EQ(Next(2).size(), 2u);
  queue_.Abort(a.get());
  Accept(b);
  FeedAll(b, 2);
  EXPECT_EQ(Next(2).size(), 2u);
  EXPECT_THAT(Answer(4), IsOk());
  EXPECT_EQ(Final(b), FrameType::kDone);
}

TEST_F(InferenceQueueTest, ExitWithUnansweredRowsIsAnError) {
  SessionPtr a = Infer(0), b = Infer(1);
  FeedAll(a, 2);
  EXPECT_EQ(Next(2).size(), 2u);
  EXPECT_THAT(queue_.Finish(absl::OkStatus()), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                        HasSubstr("rows 0..1 are unanswered")));
  EXPECT_EQ(Error(a).code, absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Error(b).code, absl::StatusCode::kFailedPrecondition);
}

TEST_F(InferenceQueueTest, AFailingProgramFailsEverySessionWithItsStatus) {
  SessionPtr a = Infer(0), b = Train(1);
  EXPECT_THAT(queue_.Finish(absl::InternalError("out of luck")), IsOk());
  EXPECT_EQ(Error(a), (ErrorFrame{absl::StatusCode::kInternal, "out of luck", true}));
  EXPECT_EQ(Error(b), (ErrorFrame{absl::StatusCode::kInternal, "out of luck", true}));
}

TEST_F(InferenceQueueTest, TrainSessionsWaitWhileInferenceIsRead) {
  SessionPtr train = Train(0);
  EXPECT_EQ(train->stage, Stage::kWaiting);
  EXPECT_EQ(queue_.Wait(*train).position, 1);
}

}  // namespace
}  // namespace millrace
