#include "core/cli/output/duration_text.h"

#include "core/base/status_matchers.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

TEST(DurationTextTest, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseDurationText("90"), absl::Seconds(90));
  EXPECT_EQ(*ParseDurationText("0.5"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseDurationText("10m"), absl::Minutes(10));
  EXPECT_EQ(*ParseDurationText("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseDurationText("never"), absl::InfiniteDuration());
  EXPECT_EQ(*ParseDurationText("-1"), absl::InfiniteDuration());
}

TEST(DurationTextTest, RefusesTheRest) {
  for (const char* text : {"", "soon", "10 apples", "0", "0s", "-5s", "nan"}) {
    EXPECT_THAT(ParseDurationText(text), StatusIs(absl::StatusCode::kInvalidArgument)) << text;
  }
}

TEST(DurationTextTest, WritesTwoOrThreeDigits) {
  EXPECT_EQ(DurationText(absl::Microseconds(3)), "1 ms");
  EXPECT_EQ(DurationText(absl::Milliseconds(120)), "120 ms");
  EXPECT_EQ(DurationText(absl::Milliseconds(1234)), "1.2 s");
  EXPECT_EQ(DurationText(absl::Seconds(45)), "45 s");
  EXPECT_EQ(DurationText(absl::Seconds(200)), "3 min 20 s");
  EXPECT_EQ(DurationText(absl::Minutes(125)), "2 h 05 min");
  EXPECT_EQ(DurationText(absl::Hours(76)), "3 d 4 h");
  EXPECT_EQ(DurationText(absl::InfiniteDuration()), "never");
  EXPECT_EQ(DurationText(-absl::Seconds(1)), "0 s");
}

TEST(DurationTextTest, WritesCountsAndBytes) {
  EXPECT_EQ(CountText(789), "789");
  EXPECT_EQ(CountText(45600), "45.6 k");
  EXPECT_EQ(CountText(1.23e6), "1.23 M");
  EXPECT_EQ(BytesText(812), "812 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(uint64_t{3} << 30), "3.0 GiB");
}

}  // namespace
}  // namespace millrace::cli
