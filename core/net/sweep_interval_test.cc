#include "core/net/sweep_interval.h"

#include <cstddef>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(SweepIntervalTest, TheKernelIsAskedAtMostTwoThousandTimesASecond) {
  EXPECT_EQ(SweepInterval(0), absl::Milliseconds(100));
  EXPECT_EQ(SweepInterval(200), absl::Milliseconds(100));
  EXPECT_EQ(SweepInterval(1024), absl::Milliseconds(512));
  for (const size_t handshakes : {201, 999, 1024, 2000}) {
    EXPECT_LE(static_cast<double>(handshakes) / absl::ToDoubleSeconds(SweepInterval(handshakes)),
              2000.5);
  }
}

// A limit of 5 s is kept to a second, however many there are.
TEST(SweepIntervalTest, EachIsLookedAtOnceASecondWhateverTheirNumber) {
  EXPECT_EQ(SweepInterval(2000), absl::Seconds(1));
  EXPECT_EQ(SweepInterval(1'000'000), absl::Seconds(1));
}

}  // namespace
}  // namespace millrace
