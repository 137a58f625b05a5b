#include "dashboard/model/log_ring.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

using ::testing::ElementsAre;

void Add(LogRing* ring, const std::string& text, int second = 0, int executor = 0,
         LogSource source = LogSource::kStdout) {
  LogLine line;
  line.time = absl::FromUnixSeconds(second);
  line.executor_id = executor;
  line.source = source;
  line.level = GuessLogLevel(text);
  line.text = text;
  ring->Add(line);
}

TEST(LogLevel, IsWhatALineSaysOfItself) {
  EXPECT_EQ(GuessLogLevel("E0102 10:41:07.3 x.cc:3] no"), LogLevel::kError);
  EXPECT_EQ(GuessLogLevel("I0102 10:41:07.3 x.cc:3] error is the word"), LogLevel::kInfo);
  EXPECT_EQ(GuessLogLevel("[2026-01-01 10:00:00] [warning] slow"), LogLevel::kWarning);
  EXPECT_EQ(GuessLogLevel("ERROR: no such file"), LogLevel::kError);
  EXPECT_EQ(GuessLogLevel("Traceback (most recent call last):"), LogLevel::kError);
  EXPECT_EQ(GuessLogLevel("step 3 loss 0.1"), LogLevel::kInfo);
  EXPECT_EQ(GuessLogLevel("mirrored errors: none"), LogLevel::kInfo);  // another word
  EXPECT_EQ(GuessLogLevel("[debug] x"), LogLevel::kDebug);
  EXPECT_EQ(GuessLogLevel(""), LogLevel::kInfo);
}

TEST(LogRing, KeepsTheLastLinesByNumber) {
  LogRing ring(10'000);
  for (int i = 0; i < 25'000; ++i) Add(&ring, absl::StrCat("line ", i), i);
  EXPECT_EQ(ring.size(), 10'000u);
  EXPECT_EQ(ring.first(), 15'000u);
  EXPECT_EQ(ring.end(), 25'000u);
  EXPECT_EQ(ring.line(15'000).text, "line 15000");
  EXPECT_EQ(ring.line(24'999).text, "line 24999");
  EXPECT_EQ(ring.LowerBound(absl::FromUnixSeconds(20'000)), 20'000u);
  EXPECT_EQ(ring.LowerBound(absl::FromUnixSeconds(30'000)), ring.end());
  EXPECT_EQ(ring.LowerBound(absl::UnixEpoch()), ring.first());
}

TEST(LogRing, KeepsNoMoreTextThanAllowed) {
  LogRing ring(1'000'000, 1 << 20);
  const std::string text(1000, 'x');
  for (int i = 0; i < 20'000; ++i) Add(&ring, text);
  EXPECT_LT(ring.memory_bytes(), size_t{20} << 20);
  EXPECT_EQ(ring.line(ring.end() - 1).text, text);
}

TEST(LogRing, GoesOnCountingAfterClear) {
  LogRing ring(100);
  Add(&ring, "a");
  ring.Clear();
  EXPECT_EQ(ring.size(), 0u);
  Add(&ring, "b");
  EXPECT_EQ(ring.line(ring.first()).text, "b");
}

TEST(LogFilter, FindsByWordLevelAndNode) {
  LogRing ring(1000);
  Add(&ring, "Loss is 1", 0, 0);
  Add(&ring, "ERROR: loss is NaN", 1, 1);
  Add(&ring, "nothing", 2, 1);
  Add(&ring, "agent: warning, loss of the connection", 3, 2, LogSource::kAgent);
  LogFilter filter;
  LogQuery query;
  query.text = "LOSS";
  filter.SetQuery(query);
  EXPECT_TRUE(filter.Update(ring, 100));
  EXPECT_THAT(filter.matches(), ElementsAre(0, 1, 3));
  EXPECT_EQ(filter.LowerBound(2), 2u);
  query.executor_id = 1;
  filter.SetQuery(query);
  filter.Update(ring, 100);
  EXPECT_THAT(filter.matches(), ElementsAre(1));
  query = LogQuery();
  query.min_level = LogLevel::kWarning;
  query.agents = false;
  filter.SetQuery(query);
  filter.Update(ring, 100);
  EXPECT_THAT(filter.matches(), ElementsAre(1));
}

TEST(LogFilter, LooksAtSoManyLinesAtATimeAndFollowsTheRing) {
  LogRing ring(1000);
  for (int i = 0; i < 1000; ++i) Add(&ring, "x");
  LogFilter filter;
  EXPECT_FALSE(filter.Update(ring, 300));
  EXPECT_EQ(filter.matches().size(), 300u);
  while (!filter.Update(ring, 300)) {
  }
  EXPECT_EQ(filter.matches().size(), 1000u);
  for (int i = 0; i < 500; ++i) Add(&ring, "y");
  EXPECT_TRUE(filter.Update(ring, 1000));
  EXPECT_EQ(filter.matches().front(), ring.first());
  EXPECT_EQ(filter.matches().back(), ring.end() - 1);
  LogRing shorter(10);
  Add(&shorter, "z");
  EXPECT_TRUE(filter.Update(shorter, 10));
  EXPECT_THAT(filter.matches(), ElementsAre(0));
}

}  // namespace
}  // namespace millrace::dashboard
