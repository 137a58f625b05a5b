#include "core/agent/node/line_cutter.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> Cut(const std::vector<std::string>& pieces, size_t max_bytes) {
  LineCutter cutter(max_bytes);
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
