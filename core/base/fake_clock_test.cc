#include "core/base/fake_clock.h"

#include "core/base/clock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(FakeClockTest, AdvanceMovesBothClocks) {
  FakeClock clock(absl::FromUnixSeconds(100));
  const absl::Duration steady = clock.SteadyNow();
  EXPECT_GT(steady, absl::ZeroDuration());
  clock.Advance(absl::Seconds(5));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(105));
  EXPECT_EQ(clock.SteadyNow() - steady, absl::Seconds(5));
}

TEST(FakeClockTest, AdvanceWallLeavesSteadyTimeAlone) {
  FakeClock clock(absl::FromUnixSeconds(100));
  const absl::Duration steady = clock.SteadyNow();
  clock.AdvanceWall(-absl::Seconds(60));
  EXPECT_EQ(clock.Now(), absl::FromUnixSeconds(40));
  EXPECT_EQ(clock.SteadyNow(), steady);
}

TEST(FakeClockDeathTest, SteadyTimeCannotGoBack) {
  FakeClock clock;
  EXPECT_DEATH(clock.Advance(-absl::Seconds(1)), "never goes back");
}

TEST(RealClockTest, IsOneClockThatNeverGoesBack) {
  Clock* clock = RealClock();
  EXPECT_EQ(clock, RealClock());
  EXPECT_GT(clock->Now(), absl::FromUnixSeconds(1600000000));
  absl::Duration last = clock->SteadyNow();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = clock->SteadyNow();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace millrace
