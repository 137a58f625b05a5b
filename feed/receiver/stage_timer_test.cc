#include "feed/receiver/stage_timer.h"

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(StageTimerTest, CountsWhatHasEndedAndWhatGoesOn) {
  StageTimer timer;
  EXPECT_EQ(timer.Total(absl::Seconds(100)), absl::ZeroDuration());
  timer.Set(true, absl::Seconds(100));
  EXPECT_EQ(timer.Total(absl::Seconds(103)), absl::Seconds(3));
  timer.Set(false, absl::Seconds(105));
  EXPECT_EQ(timer.Total(absl::Seconds(200)), absl::Seconds(5));
  timer.Set(true, absl::Seconds(300));
  EXPECT_EQ(timer.Total(absl::Seconds(301)), absl::Seconds(6));
}

TEST(StageTimerTest, RepeatingWhatHoldsChangesNothing) {
  StageTimer timer;
  timer.Set(false, absl::Seconds(1));
  timer.Set(true, absl::Seconds(10));
  timer.Set(true, absl::Seconds(20));
  timer.Set(false, absl::Seconds(30));
  timer.Set(false, absl::Seconds(40));
  EXPECT_EQ(timer.Total(absl::Seconds(50)), absl::Seconds(20));
}

}  // namespace
}  // namespace millrace
