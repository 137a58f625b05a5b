// Seeds that are the same every time, and some that nobody has tried.

#include "testing/simulation/simulation.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "testing/simulation/new_seeds.h"

namespace millrace::simulation {
namespace {

void RunSeed(uint64_t seed, const Size& size) {
  const Plan plan = MakePlan(seed, size.nodes, size.length);
  const Outcome outcome = Simulate(plan);
  if (outcome.violation.has_value()) FAIL() << Report(plan, size, *outcome.violation);
}

TEST(SimulationTest, TheSameSeedsHold) {
  for (uint64_t seed = 1; seed <= 80; ++seed) {
    RunSeed(seed, {.nodes = 6, .length = absl::Minutes(4)});
    if (HasFatalFailure()) return;
  }
}

TEST(SimulationTest, LargeClustersHold) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    RunSeed(seed, {.nodes = 50, .length = absl::Minutes(10)});
    if (HasFatalFailure()) return;
  }
}

// Each of them has broken a rule once: docs/reliability.md says which.
TEST(SimulationTest, SeedsThatBrokeARuleHold) {
  for (const uint64_t seed : {40002982, 40011313, 50020893, 940066076, 960054067, 980007559}) {
    RunSeed(seed, {.nodes = 6, .length = absl::Minutes(4)});
    if (HasFatalFailure()) return;
  }
  for (const uint64_t seed :
       {uint64_t{1355}, uint64_t{5010941}, uint64_t{910040851}, uint64_t{920020632},
        uint64_t{930038705}, uint64_t{970010417}, uint64_t{7893590923494833598}}) {
    RunSeed(seed, {.nodes = 8, .length = absl::Minutes(4)});
    if (HasFatalFailure()) return;
  }
}

TEST(SimulationTest, NewSeedsHold) {
  TryNewSeeds(40, [](uint64_t seed) {
    const Size size = {.nodes = 8, .length = absl::Minutes(4)};
    RunSeed(seed, size);
    return !HasFatalFailure();
  });
}

TEST(SimulationTest, ASeedRunsTheSameWayTwice) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Plan plan = MakePlan(seed, 12, absl::Minutes(5));
    const Outcome once = Simulate(plan, /*keep_trace=*/true);
    const Outcome again = Simulate(plan, /*keep_trace=*/true);
    EXPECT_EQ(once.trace, again.trace) << "seed " << seed;
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
  }
}

TEST(SimulationTest, SeedsDiffer) {
  const Outcome one = Simulate(MakePlan(1, 6, absl::Minutes(4)));
  const Outcome other = Simulate(MakePlan(2, 6, absl::Minutes(4)));
  EXPECT_NE(one.hash, other.hash);
}

}  // namespace
}  // namespace millrace::simulation
