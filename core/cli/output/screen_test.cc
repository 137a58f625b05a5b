#include "core/cli/output/screen.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Lines(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, "line ", i, "\n");
  return text;
}

TEST(ScreenTest, AFrameIsDrawnOverTheOneBefore) {
  EXPECT_EQ(NextFrame("one\ntwo\n", {.columns = 80, .rows = 24}, "elsewhere"),
            "\x1b[H\x1b[Jone\ntwo\n");
}

TEST(ScreenTest, TheFirstFrameScrollsTheScreenAway) {
  EXPECT_EQ(FirstFrame("one\n", {.columns = 80, .rows = 3}, "elsewhere"),
            "\n\n\n\x1b[H\x1b[Jone\n");
}

TEST(ScreenTest, ATextThatFitsIsWhole) {
  const std::string frame = NextFrame(Lines(9), {.columns = 80, .rows = 10}, "elsewhere");
  EXPECT_THAT(frame, HasSubstr("line 8"));
  EXPECT_THAT(frame, Not(HasSubstr("more lines")));
}

TEST(ScreenTest, ALongTextIsCutAtTheLastRowAndSaysSo) {
  const std::string frame = NextFrame(Lines(10), {.columns = 80, .rows = 10}, "elsewhere");
  EXPECT_THAT(frame, HasSubstr("line 7\n... 2 more lines: elsewhere\n"));
  EXPECT_THAT(frame, Not(HasSubstr("line 8")));
}

TEST(ScreenTest, ALineThatIsWiderThanTheTerminalTakesSeveralRows) {
  // Colours take no columns.
  EXPECT_THAT(NextFrame("\x1b[31maaaaa\x1b[0m\n", {.columns = 5, .rows = 2}, "x"),
              HasSubstr("aaaaa"));
  EXPECT_THAT(NextFrame("aaaaab\n", {.columns = 5, .rows = 2}, "x"), Not(HasSubstr("aaaaab")));
  EXPECT_THAT(NextFrame("aaaaab\nc\n", {.columns = 5, .rows = 4}, "x"), HasSubstr("aaaaab\nc\n"));
}

TEST(ScreenTest, AnEmptyLineIsARow) {
  EXPECT_EQ(NextFrame("a\n\nb\n", {.columns = 20, .rows = 4}, "x"), "\x1b[H\x1b[Ja\n\nb\n");
  EXPECT_EQ(NextFrame("a\n\nb\n", {.columns = 20, .rows = 3}, "x"),
            "\x1b[H\x1b[Ja\n... 2 more lines: x\n");
}

}  // namespace
}  // namespace millrace::cli
