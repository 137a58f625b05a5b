#include "core/coordinator/state/first_cause.h"

#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Hours(1);
constexpr FirstCause::Waits kWaits = {.echo = absl::Seconds(6),
                                      .unexplained = absl::Milliseconds(500)};

NodeFailure Of(int id, const absl::Status& status, bool consequence = false) {
  NodeFailure failure;
  failure.executor_id = id;
  failure.role = {"worker", id};
  failure.status = status;
  failure.consequence = consequence;
  return failure;
}

TEST(FirstCauseTest, TheFirstFailureIsTheCauseAtOnceAndLaterOnesAreFolded) {
  FirstCause causes(kWaits);
  EXPECT_EQ(causes.cause(), nullptr);
  EXPECT_THAT(causes.status(), IsOk());
  EXPECT_FALSE(causes.Settle(kNow, {}));
  causes.Record(Of(1, absl::AbortedError("exited with code 1")), kNow);
  EXPECT_TRUE(causes.Settle(kNow, {}));
  EXPECT_FALSE(causes.Settle(kNow, {}));
  causes.Record(Of(2, absl::AbortedError("exited with code 2")), kNow);
  causes.Record(Of(3, absl::AbortedError("exited with code 3")), kNow);
  EXPECT_THAT(causes.status(),
              StatusIs(absl::StatusCode::kAborted,
                       "worker:1 (executor 1, attempt 0) exited with code 1; also failed: "
                       "worker:2 exited with code 2, worker:3 exited with code 3"));
}

TEST(FirstCauseTest, AnEchoGivesWayToTheDeathItEchoes) {
  FirstCause causes(kWaits);
  causes.Record(Of(2, absl::UnavailableError("peer is gone"), true), kNow);
  EXPECT_FALSE(causes.Settle(kNow, {}));
  EXPECT_EQ(causes.NextDeadline(), kNow + absl::Seconds(6));
  EXPECT_EQ(causes.cause(), nullptr);
  causes.Record(Of(1, absl::AbortedError("was killed by SIGKILL")), kNow + absl::Seconds(1));
  EXPECT_TRUE(causes.Settle(kNow + absl::Seconds(1), {}));
  EXPECT_EQ(causes.cause()->executor_id, 1);
  EXPECT_EQ(causes.folded(), 1);
}

TEST(FirstCauseTest, AnEchoOfNothingBecomesTheCauseInTheEnd) {
  FirstCause causes(kWaits);
  causes.Record(Of(2, absl::UnavailableError("the database is gone"), true), kNow);
  EXPECT_FALSE(causes.Settle(kNow + absl::Seconds(6), {.missing = true}));
  EXPECT_TRUE(causes.Settle(kNow + absl::Seconds(7), {}));
  causes.Record(Of(1, absl::AbortedError("late")), kNow + absl::Seconds(8));
  EXPECT_THAT(causes.status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker:2")));
  EXPECT_EQ(causes.NextDeadline(), absl::InfiniteDuration());
}

// A plain program that exits: all that is known is when the first sign of it came.
NodeFailure Exit(int id, absl::Duration first_sign) {
  NodeFailure failure = Of(id, absl::AbortedError("exited with code 1"));
  failure.unexplained = true;
  failure.first_sign = first_sign;
  return failure;
}

TEST(FirstCauseTest, OfProgramsThatSayNothingTheFirstSignCounts) {
  FirstCause causes(kWaits);
  causes.Record(Exit(1, kNow - absl::Milliseconds(20)), kNow);
  EXPECT_FALSE(causes.Settle(kNow, {.live = true}));
  EXPECT_EQ(causes.NextDeadline(), kNow + absl::Milliseconds(500));
  causes.Record(Exit(2, kNow - absl::Milliseconds(10)), kNow + absl::Milliseconds(10));
  EXPECT_FALSE(causes.Settle(kNow + absl::Milliseconds(10), {.live = true}));
  // The one that broke its peers' connections has complained before they did, and ended after them.
  causes.Record(Exit(0, kNow - absl::Milliseconds(30)), kNow + absl::Milliseconds(200));
  EXPECT_FALSE(causes.Settle(kNow + absl::Milliseconds(200), {.live = true}));
  EXPECT_TRUE(causes.Settle(kNow + absl::Milliseconds(500), {.live = true}));
  EXPECT_THAT(causes.status(),
              StatusIs(absl::StatusCode::kAborted,
                       "worker:0 (executor 0, attempt 0) exited with code 1; also failed: worker:1 "
                       "exited with code 1, worker:2 exited with code 1"));
}

TEST(FirstCauseTest, WhoHasGivenASignBeforeIsWaitedForLongerOnABusyMachine) {
  const FirstCause::Others busy = {.live = true, .signs = true, .processor_share = 0.25};
  FirstCause causes(kWaits);
  causes.Record(Exit(1, kNow), kNow);
  EXPECT_EQ(causes.first_sign(), kNow);
  EXPECT_FALSE(causes.Settle(kNow + absl::Milliseconds(500), busy));
  EXPECT_EQ(causes.NextDeadline(), kNow + absl::Milliseconds(550));
  EXPECT_FALSE(causes.Settle(kNow + absl::Milliseconds(1999), busy));
  causes.Record(Exit(0, kNow - absl::Milliseconds(1)), kNow + absl::Milliseconds(1999));
  EXPECT_EQ(causes.NextDeadline(), kNow + absl::Milliseconds(1999));
  EXPECT_TRUE(causes.Settle(kNow + absl::Milliseconds(1999), {.live = true}));
  EXPECT_EQ(causes.cause()->executor_id, 0);
}

TEST(FirstCauseTest, TheLongerWaitEnds) {
  const auto settles = [](absl::Duration after, const FirstCause::Others& others) {
    FirstCause causes(kWaits);
    causes.Record(Exit(1, kNow), kNow);
    return causes.Settle(kNow + after, others);
  };
  const absl::Duration moment = absl::Milliseconds(500);
  // Where nobody has given a sign before, where the machine is not busy, and in the end.
  EXPECT_TRUE(settles(moment, {.live = true, .processor_share = 0.25}));
  EXPECT_TRUE(settles(moment, {.live = true, .signs = true}));
  EXPECT_TRUE(settles(4 * moment, {.live = true, .signs = true, .processor_share = 0.25}));
  EXPECT_TRUE(settles(kWaits.echo, {.live = true, .signs = true, .processor_share = 0.01}));
  EXPECT_FALSE(settles(4 * moment, {.live = true, .signs = true, .processor_share = 0.2}));
}

TEST(FirstCauseTest, NobodyWaitsWhereNobodyIsLeft) {
  FirstCause causes(kWaits);
  causes.Record(Exit(0, kNow), kNow);
  EXPECT_TRUE(causes.Settle(kNow, {.live = false}));
}

TEST(FirstCauseTest, ManyOthersAreCounted) {
  FirstCause causes(kWaits);
  for (int id = 0; id < 20; ++id) causes.Record(Exit(id, kNow), kNow);
  EXPECT_TRUE(causes.Settle(kNow, {}));
  EXPECT_EQ(causes.folded(), 19);
  EXPECT_THAT(causes.status().message(), HasSubstr("worker:8 exited with code 1 and 11 more"));
}

}  // namespace
}  // namespace millrace
