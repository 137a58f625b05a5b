#include "core/agent/node/line_cutter.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

using Return = LineCutter::Return;

std::vector<std::string> Cut(const std::vector<std::string>& pieces, size_t max_bytes,
                             Return on_return = Return::kOverwrites) {
  LineCutter cutter(max_bytes, on_return);
  std::vector<std::string> lines;
  const auto collect = [&](std::string line) { lines.push_back(std::move(line)); };
  for (const std::string& piece : pieces) cutter.Append(piece, collect);
  cutter.Finish(collect);
  return lines;
}

TEST(LineCutterTest, LinesMayComeInPieces) {
  EXPECT_THAT(Cut({"a", "b\nc\r", "\n", "\nlast"}, 10), ElementsAre("ab", "c", "", "last"));
}

TEST(LineCutterTest, LongLinesComeInPartsAndTheNextIsWhole) {
  EXPECT_THAT(Cut({"0123456789abc", "def\nnext\n"}, 8),
              ElementsAre("01234567", "89abcdef", "next"));
  EXPECT_THAT(Cut({"01234567\n\n"}, 8), ElementsAre("01234567", ""));
  EXPECT_THAT(Cut({"01234567\r\n\r\n"}, 8), ElementsAre("01234567", ""));
  EXPECT_THAT(Cut({"012345678"}, 8), ElementsAre("01234567", "8"));
}

TEST(LineCutterTest, NoPartEndsWithinACharacter) {
  EXPECT_THAT(Cut({"01234\xE2\x82",
                   "\xAC"
                   "789\n"},
                  7),
              ElementsAre("01234",
                          "\xE2\x82\xAC"
                          "789"));
  EXPECT_THAT(Cut({std::string(8, '\xff')}, 8),
              ElementsAre("\xEF\xBF\xBD\xEF\xBF\xBD", "\xEF\xBF\xBD\xEF\xBF\xBD",
                          "\xEF\xBF\xBD\xEF\xBF\xBD", "\xEF\xBF\xBD\xEF\xBF\xBD"));
}

TEST(LineCutterTest, OfAProgressBarTheLastStateIsTheLine) {
  EXPECT_THAT(Cut({"\r 10%", "\r 20%\r", "100%\nnext\n"}, 20), ElementsAre("100%", "next"));
  EXPECT_THAT(Cut({"10%\r", "20%\r", "\n"}, 20), ElementsAre("20%"));
  EXPECT_THAT(Cut({"10%\r20%"}, 20), ElementsAre("20%"));
  EXPECT_THAT(Cut({"text\r\r\n"}, 20), ElementsAre("text"));
  EXPECT_THAT(Cut({"0123456789\rabc\n"}, 8), ElementsAre("01234567", "abc"));
}

TEST(LineCutterTest, OrEachOfItsStatesIsALine) {
  const auto cut = [](const std::vector<std::string>& pieces) {
    return Cut(pieces, 20, Return::kEndsLine);
  };
  EXPECT_THAT(cut({"\r 10%", "\r 20%\r", "100%\nnext\n"}),
              ElementsAre(" 10%", " 20%", "100%", "next"));
  EXPECT_THAT(cut({"10%\r", "20%\r", "\n"}), ElementsAre("10%", "20%"));
  EXPECT_THAT(cut({"10%\r    \r", "text\n"}), ElementsAre("10%", "text"));
  EXPECT_THAT(cut({"a\r\n", "\r\n", "  \r\n", "b\r", "\n\nlast\r"}),
              ElementsAre("a", "", "  ", "b", "", "last"));
}

TEST(LineCutterTest, TheUnfinishedLineCanBeSeen) {
  LineCutter cutter(20, Return::kOverwrites);
  const auto none = [](const std::string& line) { FAIL() << line; };
  cutter.Append("10%\r", none);
  EXPECT_EQ(cutter.Unfinished(), "10%");
  cutter.Append("20\xE2\x96", none);
  EXPECT_EQ(cutter.Unfinished(), "20");
  cutter.Append("\x88\xff.", none);
  EXPECT_EQ(cutter.Unfinished(), "20\xE2\x96\x88\xEF\xBF\xBD.");
}

TEST(LineCutterTest, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_THAT(Cut({"a\xff"
                   "b\n"},
                  20),
              ElementsAre("a\xEF\xBF\xBD"
                          "b"));
  EXPECT_EQ(ReplaceInvalidUtf8("\xC3\xA4"), "\xC3\xA4");
}

}  // namespace
}  // namespace millrace
