#include "core/cli/top/key_reader.h"

#include <vector>

#include "gtest/gtest.h"

namespace millrace::cli {
namespace {

std::vector<KeyCode> CodesOf(absl::string_view bytes, bool all = false) {
  KeyReader reader;
  reader.Add(bytes);
  std::vector<KeyCode> codes;
  while (const std::optional<Key> key = reader.Next(all)) codes.push_back(key->code);
  return codes;
}

TEST(KeyReaderTest, KnowsKeysAsTerminalsSendThem) {
  using enum KeyCode;
  EXPECT_EQ(CodesOf("\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1bOF\x1b[4~"),
            (std::vector{kUp, kDown, kPageUp, kPageDown, kHome, kEnd, kEnd}));
  EXPECT_EQ(CodesOf("\x1bOP\x1b[11~\x1b[[A\x1bOR\x1b[14~\x1b[17~\x1b[21~"),
            (std::vector{kF1, kF1, kF1, kF3, kF4, kF6, kF10}));
  EXPECT_EQ(CodesOf("\t\x1b[Z\r\x7f\b\f"),
            (std::vector{kTab, kBackTab, kEnter, kBackspace, kBackspace, kRedraw}));
}

TEST(KeyReaderTest, WaitsForTheRestOfAKey) {
  KeyReader reader;
  for (const char c : {'\x1b', '[', '1', '7'}) {
    reader.Add(absl::string_view(&c, 1));
    EXPECT_FALSE(reader.Next(false).has_value());
    EXPECT_TRUE(reader.waiting());
  }
  reader.Add("~q");
  EXPECT_EQ(reader.Next(false), (Key{KeyCode::kF6, ""}));
  EXPECT_EQ(reader.Next(false), (Key{KeyCode::kText, "q"}));
  EXPECT_FALSE(reader.waiting());
}

TEST(KeyReaderTest, EscapeAloneIsAKeyOnceNothingFollows) {
  KeyReader reader;
  reader.Add("\x1b");
  EXPECT_FALSE(reader.Next(false).has_value());
  EXPECT_EQ(reader.Next(true), (Key{KeyCode::kEscape, ""}));
}

TEST(KeyReaderTest, TakesCharactersOfSeveralBytesInOne) {
  KeyReader reader;
  reader.Add("\xc3");
  EXPECT_FALSE(reader.Next(false).has_value());
  reader.Add("\xa9/");
  EXPECT_EQ(reader.Next(false), (Key{KeyCode::kText, "é"}));
  EXPECT_EQ(reader.Next(false), (Key{KeyCode::kText, "/"}));
}

TEST(KeyReaderTest, PassesOverWhatNoKeySends) {
  using enum KeyCode;
  EXPECT_EQ(CodesOf("\x1b[<0;12;13Mq"), (std::vector{kOther, kText}));
  EXPECT_EQ(CodesOf("\x1b[1;5Aq"), (std::vector{kOther, kText}));
  EXPECT_EQ(CodesOf("\x01\xff\x80q", true), (std::vector{kOther, kOther, kOther, kText}));
  // A sequence that never ends does not hold up the keys after it for good.
  KeyReader reader;
  reader.Add("\x1b[" + std::string(100, '1'));
  EXPECT_EQ(reader.Next(false), Key());
  reader.Add("q");
  EXPECT_EQ(reader.Next(false), (Key{kText, "q"}));
}

}  // namespace
}  // namespace millrace::cli
