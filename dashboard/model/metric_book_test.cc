#include "dashboard/model/metric_book.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::ElementsAre;

MetricSample Sample(int64_t step, float value) {
  MetricSample sample;
  sample.step = step;
  sample.value = value;
  return sample;
}

TEST(MetricSeries, ThinsALongRunOutAndKeepsBeginningAndEnd) {
  MetricSeries series("loss", 1);
  for (int64_t step = 0; step < 100'000; ++step) {
    series.Add(Sample(step, 1));
    ASSERT_EQ(series.samples().back().step, step);
    ASSERT_LE(series.samples().size(), MetricSeries::kMaxSamples);
  }
  EXPECT_EQ(series.count(), 100'000u);
  EXPECT_GT(series.samples().size(), MetricSeries::kMaxSamples / 2 - 2);
  EXPECT_EQ(series.samples().front().step, 0);
  for (size_t i = 1; i < series.samples().size(); ++i) {
    ASSERT_LT(series.samples()[i - 1].step, series.samples()[i].step);
  }
}

TEST(MetricBook, FindsSeriesByNameAndNode) {
  MetricBook book;
  book.Add("loss", 2, Sample(1, 0.5f));
  book.Add("loss", 0, Sample(1, 0.6f));
  book.Add("accuracy", 0, Sample(1, 0.9f));
  EXPECT_THAT(book.names(), ElementsAre("accuracy", "loss"));
  ASSERT_EQ(book.SeriesOf("loss").size(), 2u);
  EXPECT_EQ(book.SeriesOf("loss")[0]->executor_id(), 0);
  EXPECT_EQ(book.Find("loss", 2)->samples()[0].value, 0.5f);
  EXPECT_EQ(book.Find("loss", 1), nullptr);
  EXPECT_TRUE(book.SeriesOf("los").empty());
}

TEST(MetricBook, KeepsABoundedNumberOfSeries) {
  MetricBook book;
  for (size_t i = 0; i < MetricBook::kMaxSeries; ++i) {
    ASSERT_TRUE(book.Add("m", static_cast<int>(i), Sample(0, 0)));
  }
  EXPECT_FALSE(book.Add("n", 0, Sample(0, 0)));
  EXPECT_TRUE(book.Add("m", 5, Sample(1, 0)));
}

TEST(Smooth, BeginsAtTheFirstValueAndPassesOverWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto smooth = Smooth({Sample(0, 4), Sample(1, 4), Sample(2, nan), Sample(3, 0)}, 0.5f);
  EXPECT_EQ(smooth[0], 4);
  EXPECT_EQ(smooth[1], 4);
  EXPECT_TRUE(std::isnan(smooth[2]));
  EXPECT_GT(smooth[3], 1);
  EXPECT_LT(smooth[3], 3);
  EXPECT_EQ(Smooth({Sample(0, 1), Sample(1, 3)}, 0)[1], 3);
  MetricSample again = Sample(0, 9);
  again.attempt = 1;
  EXPECT_EQ(Smooth({Sample(0, 1), again}, 0.9f)[1], 9);
}

}  // namespace
}  // namespace millrace::dashboard
