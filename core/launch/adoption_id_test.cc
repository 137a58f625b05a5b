#include "core/launch/adoption_id.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::MatchesRegex;

// HMAC-SHA256 of "adoption c1 3 1", as any other program says.
TEST(AdoptionIdTest, IsTheSameForEveryDriverOfTheCluster) {
  EXPECT_EQ(AdoptionId("token", "c1", 3, 1), "c8a6f8f266cdc9395e1654809b1fc1a4");
}

TEST(AdoptionIdTest, DiffersWithWhateverItIsMadeOf) {
  std::set<std::string> ids;
  for (const char* token : {"token", "other"}) {
    for (const char* cluster : {"c1", "c2"}) {
      for (const int executor : {0, 1, 11}) {
        for (const uint32_t number : {1u, 2u, 12u}) {
          const std::string id = AdoptionId(token, cluster, executor, number);
          EXPECT_THAT(id, MatchesRegex("[0-9a-f]{32}"));
          EXPECT_TRUE(ids.insert(id).second) << id;
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
