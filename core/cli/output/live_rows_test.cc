#include "core/cli/output/live_rows.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

constexpr ScreenSize kSize = {.columns = 20, .rows = 24};

std::string Drawn(const std::string& rows, const std::string& up) {
  return absl::StrCat("\r\x1b[J\x1b[?7l", rows, "\r", up, "\x1b[?7h");
}

LiveRows::Row Bar(const std::string& node, const std::string& text) {
  return {.prefix = absl::StrCat(node, "| "), .style = Style::kCyan, .text = text};
}

TEST(LiveRowsTest, WithoutRowsNothingIsDrawn) {
  LiveRows rows;
  EXPECT_EQ(rows.Draw(kSize, Styler(true)), "");
  rows.Set("a", Bar("a", "1"));
  rows.Remove("a");
  rows.Remove("b");
  EXPECT_EQ(rows.Draw(kSize, Styler(true)), "");
}

TEST(LiveRowsTest, TheCursorIsLeftInTheFirstRow) {
  LiveRows rows;
  rows.Set("b", Bar("b", "1"));
  EXPECT_EQ(rows.Draw(kSize, Styler(false)), Drawn("b| 1", ""));
  rows.Set("a", Bar("a", "2"));
  rows.Set("b", Bar("b", "3"));
  EXPECT_EQ(rows.Draw(kSize, Styler(false)), Drawn("b| 3\r\na| 2", "\x1b[1A"));
}

TEST(LiveRowsTest, ARowIsCutAtTheEndOfTheScreenAndHarmless) {
  LiveRows rows;
  rows.Set("a", Bar("a", "0123456789abcdef01"));
  EXPECT_EQ(rows.Draw(kSize, Styler(true)), Drawn("\x1b[36ma| \x1b[0m0123456789abcdef…", ""));
  rows.Set("a", Bar("a", "\x1b[A"));
  EXPECT_EQ(rows.Draw(kSize, Styler(false)), Drawn("a| \\x1b[A", ""));
  EXPECT_EQ(rows.Draw({.columns = 2, .rows = 24}, Styler(true)), Drawn("\x1b[36ma…\x1b[0m", ""));
}

TEST(LiveRowsTest, ManyRowsLeaveHalfOfTheScreen) {
  LiveRows rows;
  for (const char* node : {"a", "b", "c", "d"}) rows.Set(node, Bar(node, "1"));
  EXPECT_EQ(rows.Draw({.columns = 20, .rows = 6}, Styler(false)),
            Drawn("a| 1\r\nb| 1\r\n2 more", "\x1b[2A"));
  EXPECT_EQ(rows.Draw({.columns = 20, .rows = 1}, Styler(false)), Drawn("4 more", ""));
}

}  // namespace
}  // namespace millrace::cli
