#include "dashboard/model/format.h"

#include <limits>

#include "dashboard/model/history.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

TEST(Format, NumbersHaveFourDigitsAtMost) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(0.0123456), "0.01235");
  EXPECT_EQ(FormatNumber(12.3456), "12.35");
  EXPECT_EQ(FormatNumber(9999), "9999");
  EXPECT_EQ(FormatNumber(-7), "-7");
  EXPECT_EQ(FormatNumber(12345678), "1.235e+07");
  EXPECT_EQ(FormatNumber(kUnknown), "–");
}

TEST(Format, RatesHavePrefixesOfTen) {
  EXPECT_EQ(FormatSi(0, "rows/s"), "0 rows/s");
  EXPECT_EQ(FormatSi(950, "rows/s"), "950 rows/s");
  EXPECT_EQ(FormatSi(999.7, "rows/s"), "1 k rows/s");
  EXPECT_EQ(FormatSi(1'600'000, "rows/s"), "1.6 M rows/s");
  EXPECT_EQ(FormatSi(1'600'000, ""), "1.6 M");
  EXPECT_EQ(FormatBytesRate(412e6), "412 MB/s");
  EXPECT_EQ(FormatBytesRate(kUnknown), "–");
}

TEST(Format, MemoryHasPrefixesOfTwo) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(80.0 * (1u << 30)), "80 GiB");
  EXPECT_EQ(FormatBytes(74.5 * (1u << 30)), "74.5 GiB");
}

TEST(Format, PercentAndCounts) {
  EXPECT_EQ(FormatPercent(62.3), "62%");
  EXPECT_EQ(FormatPercent(0.4), "0.4%");
  EXPECT_EQ(FormatPercent(0), "0%");
  EXPECT_EQ(FormatFraction(0.623), "62%");
  EXPECT_EQ(FormatFraction(kUnknown), "–");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(10'000), "10,000");
  EXPECT_EQ(FormatCount(-1'234'567), "-1,234,567");
}

TEST(Format, DurationsHaveTwoUnitsAtMost) {
  EXPECT_EQ(FormatSpan(absl::ZeroDuration()), "0 s");
  EXPECT_EQ(FormatSpan(absl::Microseconds(12)), "12 µs");
  EXPECT_EQ(FormatSpan(absl::Milliseconds(3.25)), "3.25 ms");
  EXPECT_EQ(FormatSpan(absl::Milliseconds(340)), "340 ms");
  EXPECT_EQ(FormatSpan(absl::Seconds(1.23)), "1.2 s");
  EXPECT_EQ(FormatSpan(absl::Seconds(14.4)), "14 s");
  EXPECT_EQ(FormatSpan(absl::Seconds(125)), "2 min 5 s");
  EXPECT_EQ(FormatSpan(absl::Minutes(134)), "2 h 14 min");
  EXPECT_EQ(FormatSpan(absl::Hours(76)), "3 d 4 h");
  EXPECT_EQ(FormatSpan(-absl::Seconds(2)), "-2 s");
  EXPECT_EQ(FormatSpan(absl::InfiniteDuration()), "–");
}

TEST(Format, TimesAreClockTimesAndAges) {
  const absl::Time time =
      absl::FromCivil(absl::CivilSecond(2026, 1, 2, 10, 41, 7), absl::UTCTimeZone()) +
      absl::Milliseconds(312);
  EXPECT_EQ(FormatClock(time, absl::UTCTimeZone()), "10:41:07.3");
  EXPECT_EQ(FormatDateTime(time, absl::UTCTimeZone()), "2026-01-02 10:41:07.312");
  EXPECT_EQ(FormatAge(time, time + absl::Seconds(3)), "3 s ago");
  EXPECT_EQ(FormatAge(time, time - absl::Seconds(3)), "now");
  EXPECT_EQ(FormatAge(absl::InfinitePast(), time), "–");
  EXPECT_EQ(FormatClock(absl::InfinitePast(), absl::UTCTimeZone()), "–");
}

TEST(Format, AxesEndAtRoundNumbersAndHaveRoundSteps) {
  EXPECT_EQ(AxisTop(0), 1);
  EXPECT_EQ(AxisTop(-3), 1);
  EXPECT_EQ(AxisTop(4), 5);
  EXPECT_EQ(AxisTop(100), 100);
  EXPECT_EQ(AxisTop(2100), 2500);
  EXPECT_DOUBLE_EQ(AxisTop(0.07), 0.1);
  EXPECT_EQ(TickStep(absl::Seconds(10), 10), absl::Seconds(1));
  EXPECT_EQ(TickStep(absl::Minutes(5), 10), absl::Seconds(30));
  EXPECT_EQ(TickStep(absl::Hours(1), 0), absl::Hours(24));
}

}  // namespace
}  // namespace millrace::dashboard
