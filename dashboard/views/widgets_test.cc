#include "dashboard/views/widgets.h"

#include <gtest/gtest.h>

#include "dashboard/model/history.h"

namespace millrace::dashboard {
namespace {

TEST(CsvTableTest, QuotesWhatNeedsItAndLeavesTheUnknownEmpty) {
  CsvTable csv({"node", "cpu", "pid"});
  csv.Cell("a, \"b\"");
  csv.Cell(static_cast<double>(kUnknown));
  csv.Cell(int64_t{42});
  csv.EndRow();
  csv.Cell("line\nbreak");
  csv.Cell(1.5);
  csv.Cell(int64_t{-1});
  csv.EndRow();
  EXPECT_EQ(csv.Take(), "node,cpu,pid\n\"a, \"\"b\"\"\",,42\n\"line\nbreak\",1.5,-1\n");
}

TEST(MatchesTest, IgnoresCaseAndMatchesAllWithoutText) {
  EXPECT_TRUE(Matches("Worker:1", "WORK"));
  EXPECT_TRUE(Matches("Worker:1", ""));
  EXPECT_FALSE(Matches("worker:1", "ps"));
}

TEST(ThemeTest, NamesAreReadBackAndTextCanBeReadOnEachStateColor) {
  for (const ThemeKind kind : {ThemeKind::kDark, ThemeKind::kLight, ThemeKind::kColorBlind}) {
    EXPECT_EQ(ThemeFromName(ThemeName(kind)), kind);
    const Theme theme = MakeTheme(kind, Fonts());
    for (int state = 0; state <= v1::SLOT_STATE_LOST; ++state) {
      const ImU32 color = StateColor(theme, static_cast<v1::SlotState>(state));
      EXPECT_EQ(color >> IM_COL32_A_SHIFT, 0xFFu) << state;
      EXPECT_NE(ReadableOn(color), color);
    }
  }
  EXPECT_FALSE(ThemeFromName("pink").has_value());
}

TEST(ViridisTest, IsDarkAtTheBottomAndBrightAtTheTopAndEndsThere) {
  EXPECT_EQ(Viridis(0), IM_COL32(0x44, 0x01, 0x54, 0xFF));
  EXPECT_EQ(Viridis(1), IM_COL32(0xFD, 0xE7, 0x25, 0xFF));
  EXPECT_EQ(Viridis(-3), Viridis(0));
  EXPECT_EQ(Viridis(7), Viridis(1));
}

}  // namespace
}  // namespace millrace::dashboard
