#include "resolver/natural_order.h"

#include <iterator>

#include "gtest/gtest.h"

namespace millrace {
namespace {

TEST(NaturalCompareTest, ComparesNumbersByValue) {
  const char* const ascending[] = {"",
                                   "0",
                                   "2",
                                   "10",
                                   "a",
                                   "a-2-x",
                                   "a-10",
                                   "a-10-x",
                                   "a2",
                                   "a10",
                                   "a10b",
                                   "a10c",
                                   "b",
                                   "b1c2",
                                   "b1c10",
                                   "b2c1",
                                   "b99999999999999999999998",
                                   "b99999999999999999999999"};
  for (const auto* a = std::begin(ascending); a != std::end(ascending); ++a) {
    for (const auto* b = std::begin(ascending); b != std::end(ascending); ++b) {
      EXPECT_EQ(NaturalCompare(*a, *b), (a - b) <=> 0) << *a << " and " << *b;
    }
  }
}

TEST(NaturalCompareTest, TellsApartWhatDiffersOnlyInZeros) {
  EXPECT_TRUE(NaturalCompare("a01", "a1") < 0);
  EXPECT_TRUE(NaturalCompare("a1", "a01") > 0);
  EXPECT_TRUE(NaturalCompare("a01", "a2") < 0);
  EXPECT_TRUE(NaturalCompare("a01", "a01") == 0);
}

}  // namespace
}  // namespace millrace
