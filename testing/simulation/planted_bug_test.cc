// A bug was planted in the coordinator that is linked here (plant.py): some seed finds it.

#include <cstdint>
#include <iostream>

#include "gtest/gtest.h"
#include "testing/simulation/simulation.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostSeeds = 1000;

TEST(PlantedBugTest, IsFound) {
  const Size size = {.nodes = 6, .length = absl::Minutes(4)};
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    const Plan plan = MakePlan(seed, size.nodes, size.length);
    const Outcome outcome = Simulate(plan);
    if (!outcome.violation.has_value()) continue;
    std::cout << "after " << seed << " seeds: " << Report(plan, size, *outcome.violation);
    return;
  }
  FAIL() << "no seed up to " << kMostSeeds << " finds it";
}

}  // namespace
}  // namespace millrace::simulation
