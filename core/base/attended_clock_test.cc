#include "core/base/attended_clock.h"

#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(AttendedClockTest, TimePassesWhileItIsRead) {
  FakeClock real;
  const AttendedClock clock(&real, absl::Seconds(2));
  const absl::Duration start = clock.SteadyNow();
  for (int i = 0; i < 10; ++i) {
    real.Advance(absl::Seconds(2));
    EXPECT_EQ(clock.SteadyNow() - start, absl::Seconds(2 * (i + 1)));
  }
  EXPECT_EQ(clock.Now(), real.Now());
}

TEST(AttendedClockTest, WhatNobodyReadIsNoTime) {
  FakeClock real;
  const AttendedClock clock(&real, absl::Seconds(2));
  const absl::Duration start = clock.SteadyNow();
  real.Advance(absl::Hours(3));
  EXPECT_EQ(clock.SteadyNow(), start);
  real.Advance(absl::Seconds(1));
  EXPECT_EQ(clock.SteadyNow(), start + absl::Seconds(1));
  real.Advance(absl::Seconds(2.5));
  EXPECT_EQ(clock.SteadyNow(), start + absl::Seconds(1));
}

}  // namespace
}  // namespace millrace
