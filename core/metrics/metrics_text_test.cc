#include "core/metrics/metrics_text.h"

#include <cmath>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace millrace {
namespace {

MetricsText Make(MetricsFormat format) {
  MetricsText text(format);
  text.Begin({"nothing", MetricType::kGauge, "A family without samples."});
  text.Begin({"rows", MetricType::kCounter, "Rows."});
  text.Add({{"queue", "in"}}, 3);
  text.Add({{"queue", "a \"b\"\\\nc"}, {"role", ""}}, 12'345'678'901'234);
  text.Begin({"build", MetricType::kInfo, "What runs."});
  text.Add({{"version", "1"}}, 1);
  text.Begin({"age_seconds", MetricType::kGauge, "Age.", "seconds"});
  text.Add({}, 0.25);
  return text;
}

TEST(MetricsTextTest, OpenMetrics) {
  EXPECT_EQ(Make(MetricsFormat::kOpenMetrics).Finish(),
            "# TYPE rows counter\n"
            "# HELP rows Rows.\n"
            "rows_total{queue=\"in\"} 3\n"
            "rows_total{queue=\"a \\\"b\\\"\\\\\\nc\",role=\"\"} 12345678901234\n"
            "# TYPE build info\n"
            "# HELP build What runs.\n"
            "build_info{version=\"1\"} 1\n"
            "# TYPE age_seconds gauge\n"
            "# UNIT age_seconds seconds\n"
            "# HELP age_seconds Age.\n"
            "age_seconds 0.25\n"
            "# EOF\n");
}

TEST(MetricsTextTest, TheFormatBeforeIt) {
  const std::string text = Make(MetricsFormat::kText).Finish();
  EXPECT_NE(text.find("# TYPE rows_total counter\n# HELP rows_total Rows.\nrows_total{"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# TYPE build_info gauge\n"), std::string::npos);
  EXPECT_EQ(text.find("UNIT"), std::string::npos);
  EXPECT_EQ(text.find("EOF"), std::string::npos);
}

TEST(MetricsTextTest, NumbersThatAreNone) {
  MetricsText text(MetricsFormat::kText);
  text.Begin({"x", MetricType::kGauge, "X."});
  for (const double value : {std::nan(""), HUGE_VAL, -HUGE_VAL, -0.5, 1e300}) text.Add({}, value);
  EXPECT_EQ(std::move(text).Finish(),
            "# TYPE x gauge\n# HELP x X.\nx NaN\nx +Inf\nx -Inf\nx -0.5\nx 1e+300\n");
}

TEST(MetricsTextTest, WhatPrometheusAccepts) {
  EXPECT_EQ(AcceptedFormat("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            MetricsFormat::kOpenMetrics);
  EXPECT_EQ(AcceptedFormat("text/plain"), MetricsFormat::kText);
  EXPECT_EQ(AcceptedFormat(""), MetricsFormat::kText);
}

}  // namespace
}  // namespace millrace
