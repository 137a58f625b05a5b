#include "dashboard/model/history.h"

#include <cmath>
#include <vector>

#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::FloatNear;
using ::testing::IsNan;

const absl::Time kT = absl::FromUnixSeconds(1'000'000);

absl::Time At(double second) { return kT + absl::Seconds(second); }

std::vector<HistoryPoint> Query(const FloatHistory& history, double from, double to, int points) {
  std::vector<HistoryPoint> out;
  history.Query(0, At(from), At(to), points, &out);
  return out;
}

TEST(History, GivesBackWhatWasRecordedEachSecond) {
  FloatHistory history;
  for (int i = 0; i < 10; ++i) history.Record(0, At(i), static_cast<float>(i));
  const auto points = Query(history, 0, 10, 100);
  ASSERT_EQ(points.size(), 10u);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(points[i].mean, i);
    EXPECT_EQ(points[i].time, At(i + 0.5));
  }
}

TEST(History, KeepsZeroApartFromUnknown) {
  FloatHistory floats;
  ByteHistory bytes(ByteCodec(0.5f));
  floats.Record(0, At(0), 0);
  bytes.Record(0, At(0), 0);
  EXPECT_EQ(floats.ValueAt(0, At(0)), 0);
  EXPECT_EQ(bytes.ValueAt(0, At(0)), 0);
  EXPECT_THAT(floats.ValueAt(1, At(0)), IsNan());
  floats.Record(0, At(1), kUnknown);
  EXPECT_THAT(floats.ValueAt(0, At(-1)), IsNan());
}

TEST(History, QuantisesToHalfAPercent) {
  ByteHistory bytes(ByteCodec(0.5f));
  FloatHistory floats;
  int second = 0;
  for (const float value : {0.3f, 12.0f, 99.5f, 127.0f, 300.0f}) {
    bytes.Record(0, At(second), value);
    EXPECT_THAT(bytes.ValueAt(0, At(second)), FloatNear(std::min(value, 127.0f), 0.25f));
    ++second;
  }
  for (const float value : {1e-9f, 0.3f, 12345.0f, 1.5e12f, -7.25f}) {
    floats.Record(0, At(second), value);
    EXPECT_THAT(floats.ValueAt(0, At(second)), FloatNear(value, std::fabs(value) * 0.004f));
    ++second;
  }
}

TEST(History, BridgesSamplesThatAreSecondsApartAndLeavesGapsOpen) {
  FloatHistory history;
  history.Record(0, At(0), 1);
  history.Record(0, At(4), 2);
  history.Record(0, At(40), 3);
  const auto points = Query(history, 0, 41, 41);
  EXPECT_EQ(points[3].mean, 1);
  EXPECT_EQ(points[4].mean, 2);
  EXPECT_EQ(points[10].mean, 2);
  EXPECT_THAT(points[11].mean, IsNan());
  EXPECT_THAT(points[39].mean, IsNan());
  EXPECT_EQ(points[40].mean, 3);
}

TEST(History, GivesMinimumMaximumAndMeanOfWiderSpans) {
  FloatHistory history;
  for (int i = 0; i < 60; ++i) history.Record(0, At(i), static_cast<float>(i % 10));
  const auto points = Query(history, 0, 60, 6);
  ASSERT_EQ(points.size(), 6u);
  for (const HistoryPoint& point : points) {
    EXPECT_EQ(point.min, 0);
    EXPECT_EQ(point.max, 9);
    EXPECT_THAT(point.mean, FloatNear(4.5f, 0.01f));
  }
}

TEST(History, KeepsAnHourAsTensOfSecondsAndNoMore) {
  FloatHistory history;
  for (int i = 0; i < 5000; ++i) history.Record(0, At(i), i == 3003 ? 64.0f : 1.0f);
  // 2,000 seconds ago: the peak is still there, though its second is not.
  const auto points = Query(history, 3000, 3020, 2);
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[0].max, 64);
  EXPECT_EQ(points[0].min, 1);
  EXPECT_THAT(Query(history, 0, 1000, 10)[5].mean, IsNan());
  EXPECT_GE(history.oldest(), At(4999 - 3700));
  EXPECT_LE(history.oldest(), At(4999 - 3580));
  EXPECT_EQ(history.newest(), At(4999));
}

TEST(History, GivesAtMostAsManyPointsAsAskedFor) {
  FloatHistory history;
  for (int i = 0; i < 4000; ++i) history.Record(0, At(i), 1);
  for (const int points : {1, 7, 100, 999}) {
    EXPECT_LE(Query(history, 0, 4000, points).size(), static_cast<size_t>(points));
  }
  EXPECT_TRUE(Query(history, 5, 5, 10).empty());
  EXPECT_TRUE(Query(history, 5, 9, 0).empty());
}

TEST(History, TakesLateValuesOfSecondsThatItKnows) {
  FloatHistory history;
  history.Record(0, At(0), 1);
  history.Record(1, At(1), 1);
  history.Record(1, At(0), 5);
  EXPECT_EQ(history.ValueAt(1, At(0)), 5);
  history.Record(1, At(-100), 7);
  EXPECT_THAT(history.ValueAt(1, At(-100)), IsNan());
}

TEST(History, IsSmallEnoughForTenThousandNodes) {
  // An hour of one metric of 500 GPUs; 480,000 such series are under
  // 700 MB.
  constexpr size_t kSeries = 500;
  ByteHistory history(ByteCodec(0.5f));
  for (int second = 0; second < 3700; second += 4) {
    for (size_t series = 0; series < kSeries; ++series) history.Record(series, At(second), 50);
  }
  EXPECT_LT(history.memory_bytes(), kSeries * 1450);
}

}  // namespace
}  // namespace millrace::dashboard
