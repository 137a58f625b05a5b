#include "dashboard/views/widgets.h"

#include <algorithm>

#include "dashboard/model/history.h"
#include "gtest/gtest.h"

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

TEST(WithUnitsKeptTest, HoldsNumbersAndUnitsTogetherAndNothingElse) {
  EXPECT_EQ(WithUnitsKept("not connected for 14 s; host h7"),
            "not connected for 14\u00a0s; host h7");
  EXPECT_EQ(WithUnitsKept("at 92 °C, 58.6 MB/s and 1 h."),
            "at 92\u00a0°C, 58.6\u00a0MB/s and 1\u00a0h.");
  EXPECT_EQ(WithUnitsKept("8 of 8, 4 later, 7 "), "8 of 8, 4 later, 7 ");
  EXPECT_EQ(WithUnitsKept(""), "");
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

TEST(ThemeTest, StaleValuesAreGreyAndTroubleStaysRed) {
  for (const ThemeKind kind : {ThemeKind::kDark, ThemeKind::kLight, ThemeKind::kColorBlind}) {
    const Theme theme = MakeTheme(kind, Fonts());
    const Theme stale = StaleTheme(theme);
    EXPECT_EQ(stale.bad, theme.bad);
    EXPECT_EQ(stale.caution, theme.caution);
    EXPECT_EQ(stale.text, theme.text);
    for (const ImU32 color : {stale.good, stale.joined, stale.series[0]}) {
      const ImVec4 parts = ImGui::ColorConvertU32ToFloat4(color);
      EXPECT_LT(std::max({parts.x, parts.y, parts.z}) - std::min({parts.x, parts.y, parts.z}),
                0.2F);
    }
  }
}

TEST(ViridisTest, IsDarkAtTheBottomAndBrightAtTheTopAndEndsThere) {
  EXPECT_EQ(Viridis(0), IM_COL32(0x44, 0x01, 0x54, 0xFF));
  EXPECT_EQ(Viridis(1), IM_COL32(0xFD, 0xE7, 0x25, 0xFF));
  EXPECT_EQ(Viridis(-3), Viridis(0));
  EXPECT_EQ(Viridis(7), Viridis(1));
}

}  // namespace
}  // namespace millrace::dashboard
