// Schedules that are the same every time, and some that nobody has tried.

#include <cstdint>
#include <iostream>
#include <set>

#include "absl/strings/str_join.h"
#include "core/base/random.h"
#include "gtest/gtest.h"
#include "testing/schedules/feed_world.h"

namespace millrace {
namespace {

void RunSeeds(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const FeedPlan plan = MakeFeedPlan(seed);
    const FeedOutcome outcome = RunFeed(plan);
    ASSERT_TRUE(outcome.broken.empty())
        << "//testing/schedules:schedules -- --runs=1 --seed=" << seed << "\n"
        << plan.ToString() << "\n"
        << absl::StrJoin(outcome.broken, "\n");
  }
}

TEST(SchedulesTest, TheSameSeedsHold) { RunSeeds(1, 400); }

// They had found something.
TEST(SchedulesTest, SomeSeedsHoldAgain) {
  for (const uint64_t seed : {9390, 12089, 14370, 18789, 18966, 28308, 1030494, 1039439})
    RunSeeds(seed, 1);
}

TEST(SchedulesTest, NewSeedsHold) {
  const uint64_t first = RandomU64() >> 1;
  std::cout << "seeds from " << first << "\n";
  RunSeeds(first, 400);
}

TEST(SchedulesTest, ASeedRunsTheSameWayTwice) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const FeedOutcome once = RunFeed(MakeFeedPlan(seed));
    const FeedOutcome again = RunFeed(MakeFeedPlan(seed));
    EXPECT_EQ(once.schedule.hash, again.schedule.hash) << "seed " << seed;
    EXPECT_EQ(once.schedule.steps, again.schedule.steps) << "seed " << seed;
    EXPECT_EQ(once.took, again.took) << "seed " << seed;
    hashes.insert(once.schedule.hash);
  }
  EXPECT_EQ(hashes.size(), 60U);
}

}  // namespace
}  // namespace millrace
