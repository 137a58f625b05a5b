#include "dashboard/model/history.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
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

// What is recorded of one series: by second.
using Recorded = std::map<int, float>;

// A column that is packed gives back what one that is not would.
template <typename AHistory>
void ExpectAllIsThere(const AHistory& history, const std::vector<Recorded>& all, int now,
                      float share, float least) {
  std::vector<HistoryPoint> points;
  for (size_t series = 0; series < all.size(); ++series) {
    if (all[series].empty() && series % 5 != 0) continue;
    for (int second = now - 290; second <= now; second += 3) {
      const auto found = all[series].find(second);
      const float value = history.ValueAt(series, At(second), absl::ZeroDuration());
      if (found == all[series].end()) {
        ASSERT_THAT(value, IsNan()) << series << " at " << second;
      } else {
        ASSERT_THAT(value, FloatNear(found->second, std::fabs(found->second) * share + least));
      }
    }
    // Tens of seconds, of which the seconds are gone.
    for (int ten = (now - 3500) / 10 * 10; ten < now - 400; ten += 170) {
      float min = kUnknown, max = kUnknown;
      double sum = 0;
      int count = 0;
      for (auto at = all[series].lower_bound(ten); at != all[series].end() && at->first < ten + 10;
           ++at) {
        min = count == 0 ? at->second : std::min(min, at->second);
        max = count == 0 ? at->second : std::max(max, at->second);
        sum += at->second;
        ++count;
      }
      history.Query(series, At(ten), At(ten + 10), 1, &points);
      ASSERT_EQ(points.size(), 1u);
      if (count == 0) {
        ASSERT_THAT(points[0].mean, IsNan()) << series << " at " << ten;
        continue;
      }
      const float slack = std::fabs(max) * share + least;
      ASSERT_THAT(points[0].min, FloatNear(min, slack));
      ASSERT_THAT(points[0].max, FloatNear(max, slack));
      ASSERT_THAT(points[0].mean, FloatNear(static_cast<float>(sum / count), slack));
    }
  }
}

TEST(History, GivesBackWhatIsPackedHoweverOftenSeriesAreSampled) {
  constexpr int kSeries = 700;  // more than there are counted together
  constexpr int kSeconds = 3600;
  for (const int every : {1, 3, 40}) {
    FloatHistory floats;
    ByteHistory bytes(ByteCodec(0.5f));
    std::vector<Recorded> all(kSeries);
    std::mt19937 random(7);
    for (int second = 0; second < kSeconds; ++second) {
      for (int series = 0; series < kSeries; series += 11) {
        // Later ones come later, some never; some keep their value for a while.
        if (series % every != second % every || series > second || series == 605) continue;
        const float value = series % 2 == 0 ? static_cast<float>(random() % 250) / 2
                                            : static_cast<float>(series % 50 + second / 100);
        floats.Record(static_cast<size_t>(series), At(second), value);
        bytes.Record(static_cast<size_t>(series), At(second), value);
        all[static_cast<size_t>(series)][second] = value;
      }
    }
    ExpectAllIsThere(floats, all, kSeconds - 1, 0.004f, 0.0f);
    ExpectAllIsThere(bytes, all, kSeconds - 1, 0.0f, 0.25f);
  }
}

TEST(History, TakesLateValuesOfSecondsThatArePacked) {
  FloatHistory history;
  for (int second = 0; second < 20; ++second) {
    for (size_t series = 0; series < 1000; series += 10) {
      history.Record(series, At(second), static_cast<float>(series + 1));
    }
  }
  history.Record(15, At(4), 77);  // long packed
  history.Record(2000, At(18), 78);
  history.Record(10, At(18), 79);
  EXPECT_EQ(history.ValueAt(15, At(4)), 77);
  EXPECT_EQ(history.ValueAt(2000, At(18)), 78);
  EXPECT_EQ(history.ValueAt(10, At(18)), 79);
  EXPECT_EQ(history.ValueAt(10, At(4)), 11);
  EXPECT_EQ(history.ValueAt(990, At(4)), 992);  // 991, to 8 bits
  EXPECT_THAT(history.ValueAt(16, At(4), absl::ZeroDuration()), IsNan());
  // One that is being packed: its first series are already.
  history.Record(0, At(20), 1);
  history.Record(10, At(19), 80);
  for (size_t series = 1; series < 900; ++series) history.Record(series, At(20), 1);
  EXPECT_EQ(history.ValueAt(10, At(19)), 80);
  EXPECT_EQ(history.ValueAt(20, At(19)), 21);
  for (int second = 21; second < 1000; ++second) history.Record(0, At(second), 1);
  EXPECT_EQ(history.ValueAt(0, At(999)), 1);
  EXPECT_EQ(history.ValueAt(10, At(5)), 11);  // what is kept for an hour
}

// Bytes for an hour of one series.
template <typename AHistory>
double BytesOfAnHour(AHistory history, int every, bool changes) {
  constexpr size_t kSeries = 200;
  for (int second = 0; second < 3700; ++second) {
    for (size_t series = 0; series < kSeries; ++series) {
      if (static_cast<int>(series) % every != second % every) continue;
      history.Record(series, At(second), changes ? static_cast<float>(second % 7) : 50);
    }
  }
  return static_cast<double>(history.memory_bytes()) / kSeries;
}

TEST(History, TakesAsMuchMemoryAsItSays) {
  const ByteHistory bytes(ByteCodec(0.5f));
  const FloatHistory floats;
  EXPECT_LE(BytesOfAnHour(bytes, 1, true), 1'550);
  EXPECT_LE(BytesOfAnHour(floats, 1, true), 2'930);
  EXPECT_LE(BytesOfAnHour(bytes, 1, false), 830);
  EXPECT_LE(BytesOfAnHour(floats, 1, false), 1'490);
  EXPECT_LE(BytesOfAnHour(bytes, 40, true), 280);
  EXPECT_LE(BytesOfAnHour(floats, 40, true), 380);
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
