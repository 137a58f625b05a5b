#include "feed/wire/local_name.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::MatchesRegex;

TEST(LocalNameTest, ANameTellsThatItIsHere) {
  const std::string name = MakeLocalName();
  EXPECT_THAT(name, MatchesRegex("ipc://@millrace-[0-9a-f]{16}-[0-9a-f]{32}"));
  EXPECT_EQ(WhereLocalName(name), LocalNamePlace::kHere);
  EXPECT_NE(name, MakeLocalName());
}

TEST(LocalNameTest, ANameOfAnotherNamespaceIsElsewhere) {
  std::string name = MakeLocalName();
  char& digit = name[std::string("ipc://@millrace-").size()];
  digit = digit == '0' ? '1' : '0';
  EXPECT_EQ(WhereLocalName(name), LocalNamePlace::kElsewhere);
}

TEST(LocalNameTest, OtherNamesTellNothing) {
  for (const char* name :
       {"", "ipc://@millrace-0c2d", "ipc://@millrace-of-another-namespace", "tcp://127.0.0.1:1",
        "ipc:///tmp/millrace-0123456789abcdef-1", "ipc://@millrace-0123456789abcdef"}) {
    EXPECT_EQ(WhereLocalName(name), LocalNamePlace::kUnknown) << name;
  }
}

}  // namespace
}  // namespace millrace
