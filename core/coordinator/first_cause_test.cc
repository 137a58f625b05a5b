#include "core/coordinator/first_cause.h"

#include <string>

#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kNow = absl::Hours(1);

NodeFailure Of(int id, const absl::Status& status, bool consequence = false) {
  NodeFailure failure;
  failure.executor_id = id;
  failure.role = {"worker", id};
  failure.status = status;
  failure.consequence = consequence;
  return failure;
}

TEST(FirstCauseTest, TheFirstFailureIsTheCauseAtOnceAndLaterOnesAreFolded) {
  FirstCause causes(absl::Seconds(6));
  EXPECT_EQ(causes.cause(), nullptr);
  EXPECT_THAT(causes.status(), IsOk());
  EXPECT_FALSE(causes.Settle(kNow, false));
  causes.Record(Of(1, absl::AbortedError("exited with code 1")), kNow);
  EXPECT_TRUE(causes.Settle(kNow, false));
  EXPECT_FALSE(causes.Settle(kNow, false));
  causes.Record(Of(2, absl::AbortedError("exited with code 2")), kNow);
  causes.Record(Of(3, absl::AbortedError("exited with code 3")), kNow);
  EXPECT_THAT(causes.status(),
              StatusIs(absl::StatusCode::kAborted,
                       "worker:1 (executor 1, attempt 0) exited with code 1; 2 later failures "
                       "folded"));
}

TEST(FirstCauseTest, AnEchoGivesWayToTheDeathItEchoes) {
  FirstCause causes(absl::Seconds(6));
  causes.Record(Of(2, absl::UnavailableError("peer is gone"), true), kNow);
  EXPECT_FALSE(causes.Settle(kNow, false));
  EXPECT_EQ(causes.NextDeadline(), kNow + absl::Seconds(6));
  EXPECT_EQ(causes.cause(), nullptr);
  causes.Record(Of(1, absl::AbortedError("was killed by SIGKILL")), kNow + absl::Seconds(1));
  EXPECT_TRUE(causes.Settle(kNow + absl::Seconds(1), false));
  EXPECT_EQ(causes.cause()->executor_id, 1);
  EXPECT_EQ(causes.folded(), 1);
}

TEST(FirstCauseTest, AnEchoOfNothingBecomesTheCauseInTheEnd) {
  FirstCause causes(absl::Seconds(6));
  causes.Record(Of(2, absl::UnavailableError("the database is gone"), true), kNow);
  EXPECT_FALSE(causes.Settle(kNow + absl::Seconds(6), /*anyone_missing=*/true));
  EXPECT_TRUE(causes.Settle(kNow + absl::Seconds(7), false));
  causes.Record(Of(1, absl::AbortedError("late")), kNow + absl::Seconds(8));
  EXPECT_THAT(causes.status(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("worker:2")));
  EXPECT_EQ(causes.NextDeadline(), absl::InfiniteDuration());
}

}  // namespace
}  // namespace millrace
