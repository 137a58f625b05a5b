#include "core/base/random.h"

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(RandomTest, HasTheLengthAskedFor) {
  EXPECT_EQ(RandomBytes(0), "");
  EXPECT_EQ(RandomBytes(100000).size(),
            100000u);  // more than one getrandom call gives without care
  EXPECT_THAT(RandomHex(16), testing::MatchesRegex("[0-9a-f]{32}"));
}

TEST(RandomTest, DoesNotRepeatAndUsesAllBytes) {
  std::set<std::string> seen;
  std::set<char> bytes;
  std::set<uint64_t> numbers;
  for (int i = 0; i < 1000; ++i) {
    const std::string value = RandomBytes(16);
    seen.insert(value);
    bytes.insert(value.begin(), value.end());
    numbers.insert(RandomU64());
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(numbers.size(), 1000u);
  EXPECT_EQ(bytes.size(), 256u);
}

TEST(SecureEqualsTest, ComparesContentsAndLength) {
  EXPECT_TRUE(SecureEquals("", ""));
  EXPECT_TRUE(SecureEquals("token", "token"));
  EXPECT_FALSE(SecureEquals("token", "tokeN"));
  EXPECT_FALSE(SecureEquals("Token", "token"));
  EXPECT_FALSE(SecureEquals("token", "toke"));
  EXPECT_FALSE(SecureEquals("toke", "token"));
  EXPECT_FALSE(SecureEquals("", "x"));
  EXPECT_FALSE(SecureEquals("x", ""));
  EXPECT_FALSE(SecureEquals(absl::string_view("a\0", 2), "a"));
  EXPECT_FALSE(SecureEquals("a", absl::string_view("a\0", 2)));
}

}  // namespace
}  // namespace millrace
