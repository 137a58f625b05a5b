#include "core/base/text.h"

#include <string>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(FirstLineTest, SkipsBlankLinesAndTrims) {
  EXPECT_EQ(FirstLine(""), "");
  EXPECT_EQ(FirstLine("\n \r\n\t"), "");
  EXPECT_EQ(FirstLine("one"), "one");
  EXPECT_EQ(FirstLine("\n\n  one \r\ntwo\n"), "one");
}

TEST(EllipsizeTest, CutsOnlyWhatIsTooLong) {
  EXPECT_EQ(Ellipsize("abcdef", 6), "abcdef");
  EXPECT_EQ(Ellipsize("abcdefg", 6), "abc...");
  EXPECT_EQ(Ellipsize("abcdefg", 3), "...");
  EXPECT_EQ(Ellipsize("abcdefg", 1), ".");
  EXPECT_EQ(Ellipsize("abcdefg", 0), "");
}

TEST(EllipsizeTest, NeverCutsACharacter) {
  EXPECT_EQ(Ellipsize("ab\u20acdefgh", 8), "ab\u20ac...");
  EXPECT_EQ(Ellipsize("ab\u20acdefgh", 7), "ab...");
  EXPECT_EQ(Ellipsize("ab\u20acdefgh", 6), "ab...");
  EXPECT_EQ(Ellipsize("\U0001F600\U0001F600\U0001F600", 10), "\U0001F600...");
  EXPECT_EQ(Ellipsize(std::string(100, '\x80'), 10).size(), 7u);  // garbage is still bounded
}

TEST(EscapeControlsTest, EscapesWhatATerminalObeys) {
  EXPECT_EQ(EscapeControls("plain \\ {} %"), "plain \\ {} %");
  EXPECT_EQ(EscapeControls("a\nb\rc\td"), "a\\nb\\rc\\td");
  EXPECT_EQ(EscapeControls(absl::string_view("\0\x1b\x7f", 3)), "\\x00\\x1b\\x7f");
  EXPECT_EQ(EscapeControls("\u0085\u009b\u00a0"), "\\xc2\\x85\\xc2\\x9b\u00a0");
  EXPECT_EQ(EscapeControls("gr\u00fc\u00df \u20ac \U0001F600"), "gr\u00fc\u00df \u20ac \U0001F600");
}

TEST(EscapeControlsTest, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(EscapeControls("\xff"
                           "a"),
            "\\xffa");
  EXPECT_EQ(EscapeControls("\x9b"
                           "2J"),
            "\\x9b2J");                                 // a lone C1
  EXPECT_EQ(EscapeControls("\xe2\x82"), "\\xe2\\x82");  // truncated
  EXPECT_EQ(EscapeControls("\xc0\x8a"), "\\xc0\\x8a");  // overlong line end
}

TEST(CommandTextTest, IsWhatAPersonWouldType) {
  EXPECT_EQ(CommandText("/usr/bin/python3", {"train.py", "--lr=0.1", "-x", "data/\u00fc"}, 100),
            "python3 train.py --lr=0.1 -x data/\u00fc");
  EXPECT_EQ(CommandText("train", {}, 100), "train");
  EXPECT_EQ(CommandText("sh", {"-c", "echo it's $1", "", "a\nb"}, 100),
            R"(sh -c 'echo it'\''s $1' '' 'a\nb')");
  EXPECT_EQ(CommandText("a", {std::string(50, 'b'), std::string(50, 'c')}, 10), "a bbbbb...");
}

TEST(Utf8SequenceLengthTest, AcceptsExactlyWellFormedSequences) {
  EXPECT_EQ(Utf8SequenceLength(""), 0u);
  EXPECT_EQ(Utf8SequenceLength("a"), 1u);
  EXPECT_EQ(Utf8SequenceLength("\u00fc"), 2u);
  EXPECT_EQ(Utf8SequenceLength("\u20ac"), 3u);
  EXPECT_EQ(Utf8SequenceLength("\U0010FFFF"), 4u);
  for (const char* bad : {"\x80", "\xc1\x81", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xc3("}) {
    EXPECT_EQ(Utf8SequenceLength(bad), 0u) << EscapeControls(bad);
  }
}

}  // namespace
}  // namespace millrace
