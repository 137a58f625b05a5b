#include "testing/bench/bench_report.h"

#include <cmath>
#include <cstdio>
#include <string>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::bench {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Samples Of(std::initializer_list<double> values) {
  Samples samples;
  for (const double value : values) samples.Add(value);
  return samples;
}

TEST(SamplesTest, MedianIsTheMiddleOrTheMeanOfBothMiddles) {
  EXPECT_EQ(Of({5, 1, 3}).Median(), 3);
  EXPECT_EQ(Of({5, 1, 3, 100}).Median(), 4);
  EXPECT_EQ(Of({5, 1, 3}).Min(), 1);
  EXPECT_EQ(Of({5, 1, 3}).Max(), 5);
}

TEST(SamplesTest, WhatWasNotMeasuredIsNoNumber) {
  EXPECT_TRUE(std::isnan(Samples().Median()));
  EXPECT_TRUE(std::isnan(Samples().Min()));
  EXPECT_TRUE(std::isnan(Samples().Max()));
}

TEST(SamplesTest, DurationsBecomeMilliseconds) {
  Samples samples;
  samples.Add(absl::Seconds(2));
  EXPECT_EQ(samples.Median(), 2000);
}

TEST(FormatNumberTest, ShowsThreeDigitsThatMean) {
  EXPECT_EQ(FormatNumber(0), "0");
  EXPECT_EQ(FormatNumber(0.012345), "0.0123");
  EXPECT_EQ(FormatNumber(9.5849), "9.58");
  EXPECT_EQ(FormatNumber(9.996), "10.0");
  EXPECT_EQ(FormatNumber(41.24), "41.2");
  EXPECT_EQ(FormatNumber(300), "300");
  EXPECT_EQ(FormatNumber(999.9), "1000");
  EXPECT_EQ(FormatNumber(98304.4), "98304");
  EXPECT_EQ(FormatNumber(-1.5), "-1.50");
  EXPECT_EQ(FormatNumber(std::nan("")), "-");
}

TEST(BenchTableTest, AlignsItsColumns) {
  BenchTable table({"agents", "s"});
  table.AddRow({"100", "0.41"});
  table.AddRow({"10000", "41"});
  EXPECT_EQ(table.ToString(),
            "  agents      s\n"
            "  ------   ----\n"
            "  100      0.41\n"
            "  10000      41\n");
}

TEST(BenchTableTest, ARowOfSamplesIsMedianMinAndMax) {
  BenchTable table({"", "median", "min", "max"});
  table.AddSamples("ours", Of({3, 1, 2}));
  EXPECT_EQ(table.ToJson()["rows"][0], Json({"ours", "2.00", "1.00", "3.00"}));
}

Figure Start(double ours) {
  return {.name = "start",
          .unit = "ms",
          .ours = ours,
          .ref = 10,
          .ref_is = "fork of 4",
          .goal = AtMost(300)};
}

TEST(BenchLineTest, SaysEverythingInOneLine) {
  EXPECT_EQ(BenchLine(Start(87.2)),
            "BENCH start ours=87.2ms ref=10.0ms (fork of 4) ratio=8.72 goal=<=300ms ok");
  EXPECT_EQ(BenchLine(Start(412)),
            "BENCH start ours=412ms ref=10.0ms (fork of 4) ratio=41.2 goal=<=300ms short");
}

TEST(BenchLineTest, GoalsMayBeOfTheRatioAndLowerBounds) {
  Figure figure = Start(12);
  figure.goal = RatioAtMost(1.3);
  EXPECT_THAT(BenchLine(figure), HasSubstr("ratio=1.20 goal=<=1.30x ok"));
  figure.goal = RatioAtLeast(2);
  EXPECT_THAT(BenchLine(figure), HasSubstr("goal=>=2.00x short"));
  figure.goal = AtLeast(12);
  EXPECT_THAT(BenchLine(figure), HasSubstr("goal=>=12.0ms ok"));
}

TEST(BenchLineTest, AFigureThatWasNotMeasuredIsShort) {
  EXPECT_THAT(BenchLine(Start(std::nan(""))), AllOf(HasSubstr("ours=-ms"), HasSubstr(" short")));
}

TEST(BenchReportTest, PrintsMachineTablesAndFiguresAndWritesThemAsJson) {
  const absl::StatusOr<TempDir> directory = TempDir::Create();
  ASSERT_THAT(directory, IsOk());
  const std::string text_path = JoinPath(directory->path(), "out.txt");
  const std::string json_path = JoinPath(directory->path(), "out.json");
  std::FILE* const out = std::fopen(text_path.c_str(), "w");
  BenchReport report("start: how long", {.repetitions = 3, .json = json_path}, out);
  report.AddVersion("gRPC", "1.51.1");
  report.AddNote("cold caches");
  BenchTable table({"what", "ms"});
  table.AddRow({"ours", "87"});
  report.Add(table, "wall clock");
  report.Add(Start(87));
  report.Add(Start(412));
  EXPECT_EQ(report.Finish(), 0);
  std::fclose(out);

  const absl::StatusOr<std::string> text = ReadFile(text_path);
  ASSERT_THAT(text, IsOk());
  EXPECT_THAT(*text, AllOf(HasSubstr("start: how long\n"), HasSubstr(" cores "),
                           HasSubstr("load average"), HasSubstr("gRPC       1.51.1\n"),
                           HasSubstr("cold caches\n"), HasSubstr("wall clock\n  what   ms\n")));
  EXPECT_THAT(*text, HasSubstr("goal=<=300ms ok\nBENCH start ours=412ms"));
  const absl::StatusOr<std::string> json_text = ReadFile(json_path);
  ASSERT_THAT(json_text, IsOk());
  const absl::StatusOr<Json> json = ParseJson(*json_text);
  ASSERT_THAT(json, IsOk());
  EXPECT_EQ((*json)["repetitions"], 3);
  EXPECT_EQ((*json)["versions"]["gRPC"], "1.51.1");
  EXPECT_EQ((*json)["tables"][0]["caption"], "wall clock");
  EXPECT_EQ((*json)["figures"][0]["ok"], true);
  EXPECT_EQ((*json)["figures"][1]["ok"], false);
  EXPECT_GE((*json)["machine"]["cores"], 1);
}

TEST(BenchReportTest, AJsonFileThatCannotBeWrittenIsAnError) {
  BenchReport report("x", {.json = "/nowhere/out.json"}, stderr);
  EXPECT_EQ(report.Finish(), 1);
}

TEST(BenchReportTest, WhatWasNotMeasuredIsAnErrorAndPrintsNoFigures) {
  std::FILE* const out = std::tmpfile();
  BenchReport report("start: from here to there", {}, out);
  report.Add(Figure{
      .name = "start", .unit = "ms", .ours = 1, .ref = 1, .ref_is = "it", .goal = AtMost(2)});
  testing::internal::CaptureStderr();
  EXPECT_EQ(report.Finish(absl::NotFoundError("no agent")), 1);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "start: NOT_FOUND: no agent\n");
  std::rewind(out);
  char text[4096] = "";
  text[std::fread(text, 1, sizeof(text) - 1, out)] = '\0';
  EXPECT_THAT(std::string(text), Not(HasSubstr("BENCH")));
  std::fclose(out);
}

TEST(UsageTest, CpuAndMemoryAreSeen) {
  EXPECT_GT(SelfCpuTime(), absl::ZeroDuration());
  EXPECT_GT(SelfResidentBytes(), 1 << 20);
}

}  // namespace
}  // namespace millrace::bench
