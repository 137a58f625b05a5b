// Schedules that are the same every time, and some that nobody has tried.

#include <cstdint>
#include <set>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "testing/schedules/run_seed.h"
#include "testing/simulation/new_seeds.h"

namespace millrace {
namespace {

void RunSeeds(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const SeedResult result = RunSeed(seed);
    ASSERT_TRUE(result.broken.empty())
        << "//testing/schedules:" << SeedWorld() << "_schedules -- --runs=1 --seed=" << seed << "\n"
        << result.plan << "\n"
        << result.came_of_it << "\n"
        << absl::StrJoin(result.broken, "\n");
  }
}

TEST(SchedulesTest, TheSameSeedsHold) { RunSeeds(1, 400); }

// They had found something.
TEST(SchedulesTest, SomeSeedsHoldAgain) {
  const std::vector<uint64_t> feed = {743,
                                      1650,
                                      1663,
                                      1984,
                                      9390,
                                      12089,
                                      14370,
                                      18789,
                                      18966,
                                      28308,
                                      1030494,
                                      1039439,
                                      1213656595109415636,
                                      7882273569975276756};
  const std::vector<uint64_t> plane = {4476, 4584, 9005488, 20000218, 8000025043};
  for (const uint64_t seed : SeedWorld() == "feed" ? feed : plane) RunSeeds(seed, 1);
}

TEST(SchedulesTest, NewSeedsHold) {
  TryNewSeeds(400, [](uint64_t seed) {
    RunSeeds(seed, 1);
    return !HasFatalFailure();
  });
}

TEST(SchedulesTest, ASeedRunsTheSameWayTwice) {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const SeedResult once = RunSeed(seed);
    const SeedResult again = RunSeed(seed);
    EXPECT_EQ(once.schedule.hash, again.schedule.hash) << "seed " << seed;
    EXPECT_EQ(once.schedule.steps, again.schedule.steps) << "seed " << seed;
    EXPECT_EQ(once.came_of_it, again.came_of_it) << "seed " << seed;
    hashes.insert(once.schedule.hash);
  }
  EXPECT_EQ(hashes.size(), 60U);
}

}  // namespace
}  // namespace millrace
