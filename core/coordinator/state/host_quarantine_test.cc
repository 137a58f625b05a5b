#include "core/coordinator/state/host_quarantine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(HostQuarantineTest, ThreeFailuresInAMinuteCloseAHostForFiveMinutes) {
  HostQuarantine quarantine({});
  quarantine.RecordFailure("a", absl::Seconds(0));
  quarantine.RecordFailure("a", absl::Seconds(30));
  quarantine.RecordFailure("b", absl::Seconds(31));
  EXPECT_FALSE(quarantine.IsClosed("a", absl::Seconds(31)));
  quarantine.RecordFailure("a", absl::Seconds(60));
  EXPECT_TRUE(quarantine.IsClosed("a", absl::Seconds(60)));
  EXPECT_FALSE(quarantine.IsClosed("b", absl::Seconds(60)));
  ASSERT_THAT(quarantine.Closed(absl::Seconds(60)), SizeIs(1));
  EXPECT_EQ(quarantine.Closed(absl::Seconds(60))[0].host, "a");
  EXPECT_EQ(quarantine.Until("a"), absl::Seconds(360));
  EXPECT_TRUE(quarantine.IsClosed("a", absl::Seconds(359)));
  EXPECT_FALSE(quarantine.IsClosed("a", absl::Seconds(360)));
  EXPECT_THAT(quarantine.Closed(absl::Seconds(360)), IsEmpty());
}

TEST(HostQuarantineTest, ThreeFailuresOverALongerTimeDoNot) {
  HostQuarantine quarantine({});
  for (int i = 0; i < 20; ++i) {
    quarantine.RecordFailure("a", i * absl::Seconds(31));
    EXPECT_FALSE(quarantine.IsClosed("a", i * absl::Seconds(31)));
  }
}

TEST(HostQuarantineTest, FailuresDuringTheQuarantineProlongIt) {
  HostQuarantine quarantine({.failures = 1, .duration = absl::Seconds(10)});
  quarantine.RecordFailure("a", absl::Seconds(0));
  quarantine.RecordFailure("a", absl::Seconds(5));
  EXPECT_TRUE(quarantine.IsClosed("a", absl::Seconds(14)));
}

}  // namespace
}  // namespace millrace
