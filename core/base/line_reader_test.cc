#include "core/base/line_reader.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// All lines that are complete now.
std::vector<std::string> Drain(LineReader* reader) {
  std::vector<std::string> lines;
  for (;;) {
    const auto line = reader->Next();
    EXPECT_THAT(line, IsOk());
    if (!line.ok() || !line->has_value()) return lines;
    lines.emplace_back(**line);
  }
}

TEST(LineReaderTest, SplitsAndStripsLineEnds) {
  LineReader reader;
  reader.Append("one\ntwo\r\n\nfo");
  EXPECT_THAT(Drain(&reader), ElementsAre("one", "two", ""));
  EXPECT_EQ(reader.partial_bytes(), 2u);
  reader.Append("ur\n");
  EXPECT_THAT(Drain(&reader), ElementsAre("four"));
  EXPECT_EQ(reader.partial_bytes(), 0u);
}

TEST(LineReaderTest, ByteByByteGivesTheSameLines) {
  const std::string text = "{\"a\":1}\r\n\n" + std::string(500, 'x') + "\r\rend\n" + "rest";
  LineReader whole(1000);
  whole.Append(text);
  const std::vector<std::string> expected = Drain(&whole);
  LineReader reader(1000);
  std::vector<std::string> lines;
  for (const char c : text) {
    reader.Append(absl::string_view(&c, 1));
    for (std::string& line : Drain(&reader)) lines.push_back(std::move(line));
  }
  EXPECT_EQ(lines, expected);
  EXPECT_EQ(lines.size(), 3u);
  EXPECT_EQ(reader.TakePartial(), "rest");
  EXPECT_EQ(reader.partial_bytes(), 0u);
}

TEST(LineReaderTest, NulBytesAreOrdinary) {
  LineReader reader;
  reader.Append(absl::string_view("a\0b\n", 4));
  EXPECT_THAT(Drain(&reader), ElementsAre(std::string("a\0b", 3)));
}

TEST(LineReaderTest, ALineOfExactlyTheLimitPasses) {
  LineReader reader(4);
  reader.Append("abcd\nabcd\r\nabcd\r");
  EXPECT_THAT(Drain(&reader), ElementsAre("abcd", "abcd"));
  reader.Append("\n");
  EXPECT_THAT(Drain(&reader), ElementsAre("abcd"));
}

TEST(LineReaderTest, ALongerLineIsAnErrorThatStays) {
  LineReader complete(4);
  complete.Append("ok\nabcde\nok\n");
  EXPECT_THAT(complete.Next(), IsOk());
  EXPECT_THAT(complete.Next(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_THAT(complete.Next(), StatusIs(absl::StatusCode::kResourceExhausted));
  complete.Append("ok\n");
  EXPECT_THAT(complete.Next(), StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(complete.partial_bytes(), 0u);  // the memory is given back
}

TEST(LineReaderTest, AnEndlessLineIsAnErrorBeforeItsEnd) {
  LineReader reader(4);
  reader.Append("abcde");
  EXPECT_THAT(reader.Next(), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(LineReaderTest, AnEmptyStreamHasNoLines) {
  LineReader reader;
  EXPECT_THAT(Drain(&reader), IsEmpty());
  reader.Append("");
  EXPECT_THAT(Drain(&reader), IsEmpty());
  EXPECT_EQ(reader.TakePartial(), "");
}

}  // namespace
}  // namespace millrace
