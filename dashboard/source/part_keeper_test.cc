#include "dashboard/source/part_keeper.h"

#include <memory>

#include "gtest/gtest.h"

namespace millrace::dashboard {
namespace {

TEST(PartKeeper, FreesAPartInTheSweepAfterAllOthersHaveLetGoOfIt) {
  PartKeeper keeper;
  auto given = std::make_shared<const v1::WatchUpdate>();
  const std::weak_ptr<const v1::WatchUpdate> part = given;
  keeper.Keep(given);
  keeper.Keep(nullptr);
  keeper.Sweep();
  given.reset();
  EXPECT_FALSE(part.expired());  // not where the last reader is
  keeper.Sweep();
  EXPECT_TRUE(part.expired());
}

}  // namespace
}  // namespace millrace::dashboard
