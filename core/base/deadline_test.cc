#include "core/base/deadline.h"

#include <algorithm>

#include "absl/time/time.h"
#include "core/base/fake_clock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(DeadlineTest, ItPassesBySteadyTimeWhateverTheDateDoes) {
  FakeClock clock;
  const Deadline deadline(absl::Seconds(10), &clock);
  clock.AdvanceWall(absl::Hours(48));
  EXPECT_EQ(deadline.Left(), absl::Seconds(10));
  clock.AdvanceWall(-absl::Hours(96));
  clock.Advance(absl::Seconds(9));
  EXPECT_EQ(deadline.Left(), absl::Seconds(1));
  EXPECT_FALSE(deadline.Passed());
  clock.Advance(absl::Seconds(1));
  EXPECT_TRUE(deadline.Passed());
  clock.Advance(absl::Hours(1));
  EXPECT_EQ(deadline.Left(), absl::ZeroDuration());
  EXPECT_FALSE((deadline + absl::Hours(2)).Passed());
}

TEST(DeadlineTest, NeverIsLaterThanEverything) {
  FakeClock clock;
  EXPECT_EQ(Deadline::Never().Left(), absl::InfiniteDuration());
  EXPECT_EQ((Deadline::Never() + absl::Seconds(1)).Left(), absl::InfiniteDuration());
  EXPECT_TRUE(Deadline(absl::Hours(100'000), &clock) < Deadline(absl::InfiniteDuration(), &clock));
  EXPECT_TRUE(Deadline(-absl::Seconds(1), &clock).Passed());
  EXPECT_EQ(std::min(Deadline(absl::Seconds(3), &clock), Deadline(absl::Seconds(2), &clock)).Left(),
            absl::Seconds(2));
}

}  // namespace
}  // namespace millrace
