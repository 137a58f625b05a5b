#include "core/cli/top/text_grid.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TextGrid Grid(int columns, int rows, const std::vector<std::string>& lines, bool utf8 = true) {
  TextGrid grid({.columns = columns, .rows = rows, .utf8 = utf8});
  for (size_t i = 0; i < lines.size(); ++i) grid.Put(static_cast<int>(i), 0, lines[i]);
  return grid;
}

// Plays bytes of Changes() on a screen of ASCII: what a terminal shows then.
class Screen {
 public:
  Screen(int columns, int rows) : lines_(rows, std::string(columns, ' ')) {}

  void Play(const std::string& bytes) {
    for (size_t i = 0; i < bytes.size();) {
      if (bytes[i] != '\x1b') {
        lines_.at(row_).at(column_++) = bytes[i++];
        continue;
      }
      size_t end = i + 2;
      while (bytes[end] < 0x40) ++end;
      const std::string values = bytes.substr(i + 2, end - i - 2);
      if (bytes[end] == 'H') {
        row_ = std::stoul(values) - 1;
        column_ = std::stoul(values.substr(values.find(';') + 1)) - 1;
      } else if (bytes[end] == 'K') {
        for (size_t at = column_; at < lines_[row_].size(); ++at) lines_[row_][at] = ' ';
      } else if (bytes[end] == 'J') {
        for (std::string& line : lines_) line.assign(line.size(), ' ');
      }
      i = end + 1;
    }
  }
  [[nodiscard]] std::string Text() const {
    std::string text;
    for (const std::string& line : lines_) {
      absl::StrAppend(&text, line.substr(0, line.find_last_not_of(' ') + 1), "\n");
    }
    return text;
  }

 private:
  std::vector<std::string> lines_;
  size_t row_ = 0;
  size_t column_ = 0;
};

TEST(TextGridTest, CutsWhatIsTooLongAndLeavesOutWhatIsOutside) {
  TextGrid grid({.columns = 10, .rows = 2});
  EXPECT_EQ(grid.Put(0, 0, "worker:1234", {}, 8), 8);
  EXPECT_EQ(grid.Put(1, 7, "abcdef"), 3);
  EXPECT_EQ(grid.Put(2, 0, "below"), 0);
  EXPECT_EQ(grid.Put(0, 10, "beside"), 0);
  grid.PutRight(0, 6, "12", {}, 4);
  EXPECT_EQ(grid.Text(), "worker:…12\n       ab…\n");
}

TEST(TextGridTest, TextFromElsewhereCannotReachTheTerminal) {
  TextGrid grid({.columns = 60, .rows = 1});
  grid.Put(0, 0, "a\x1b]0;title\x07 b\nc \xff \u202e d\u0301 \u009b31m");
  const std::string bytes = Changes(nullptr, grid);
  EXPECT_EQ(grid.Line(0), R"(a\x1b]0;title\x07 b\nc \xff  d \xc2\x9b31m)");
  EXPECT_THAT(bytes, Not(HasSubstr("\x1b]")));
  EXPECT_THAT(bytes, Not(HasSubstr("\x07")));
}

TEST(TextGridTest, WideCharactersTakeTwoColumns) {
  TextGrid grid({.columns = 8, .rows = 1});
  EXPECT_EQ(grid.Put(0, 0, "a\u4e16\u754cb"), 6);
  EXPECT_EQ(grid.Line(0), "a\u4e16\u754cb");
  // What is written over half of one takes all of it away.
  grid.Put(0, 2, "x");
  EXPECT_EQ(grid.Line(0), "a x\u754cb");
  EXPECT_EQ(grid.Put(0, 5, "\u4e16\u754c"), 3);
  EXPECT_EQ(grid.Line(0), "a x\u754c\u4e16…");
}

TEST(TextGridTest, WithoutUtf8EverythingIsAscii) {
  const TextGrid grid = Grid(20, 2, {"– 62 °C · …", "\u4e16é"}, /*utf8=*/false);
  EXPECT_EQ(grid.Text(), "- 62  C - ~\n???\n");
  EXPECT_EQ(Grid(4, 1, {"abcdef"}, false).Text(), "abc~\n");
}

TEST(ChangesTest, OfEqualGridsThereAreNone) {
  EXPECT_EQ(Changes(nullptr, Grid(4, 2, {})), "\x1b[?2026h\x1b[0m\x1b[2J\x1b[0m\x1b[?2026l");
  const TextGrid grid = Grid(20, 3, {"one", "two"});
  EXPECT_EQ(Changes(&grid, grid), "");
}

TEST(ChangesTest, OnlyWhatDiffersIsWritten) {
  const TextGrid before = Grid(40, 3, {"worker:1  running  12%", "worker:2  running  47%"});
  const TextGrid after = Grid(40, 3, {"worker:1  running  13%", "worker:2  running  47%"});
  EXPECT_EQ(Changes(&before, after), "\x1b[?2026h\x1b[1;21H\x1b[0m3\x1b[?2026l");
  const TextGrid shorter = Grid(40, 3, {"worker:1", "worker:2  running  47%"});
  EXPECT_EQ(Changes(&after, shorter), "\x1b[?2026h\x1b[1;11H\x1b[0m\x1b[K\x1b[?2026l");
}

TEST(ChangesTest, LeadFromAnyGridToAnyOther) {
  unsigned seed = 7;
  const auto random = [&](unsigned below) {
    return (seed = seed * 1103515245 + 12345) / 65536 % below;
  };
  constexpr int kColumns = 24;
  constexpr int kRows = 4;
  Screen screen(kColumns, kRows);
  TextGrid shown({.columns = kColumns, .rows = kRows});
  for (int i = 0; i < 2000; ++i) {
    TextGrid next({.columns = kColumns, .rows = kRows});
    for (int row = 0; row < kRows; ++row) {
      std::string line = shown.Line(row);
      const unsigned kind = random(4);
      if (kind == 0) line = line.substr(0, random(kColumns));
      line.resize(std::max<size_t>(line.size(), kind == 1 ? random(kColumns) : 0), 'x');
      if (kind >= 2 && !line.empty())
        line[random(static_cast<unsigned>(line.size()))] = kind == 2 ? ' ' : 'y';
      next.Put(row, 0, line);
    }
    screen.Play(Changes(&shown, next));
    ASSERT_EQ(screen.Text(), next.Text()) << i;
    shown = TextGrid(next);
  }
}

TEST(ChangesTest, ColoursGoWithoutColourAndBoldAndReverseStay) {
  for (const bool colour : {true, false}) {
    TextGrid grid({.columns = 10, .rows = 1, .colour = colour});
    grid.Put(0, 0, "ab", {.style = Style::kRed, .bold = true});
    grid.Paint(0, 1, 1, {.reverse = true});
    EXPECT_EQ(Changes(nullptr, grid),
              absl::StrCat("\x1b[?2026h\x1b[0m\x1b[2J\x1b[1;1H\x1b[0;1", colour ? ";31" : "",
                           "ma\x1b[0;7mb\x1b[0m\x1b[?2026l"));
  }
}

TEST(WrapTextTest, BreaksAtBlanks) {
  EXPECT_THAT(WrapText("one two three four", 9, 5), ElementsAre("one two", "three", "four"));
  EXPECT_THAT(WrapText("one two three four", 9, 2), ElementsAre("one two", "three four"));
  EXPECT_THAT(WrapText("", 9, 2), ElementsAre());
}

}  // namespace
}  // namespace millrace::cli
