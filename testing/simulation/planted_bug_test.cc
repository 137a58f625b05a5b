// A bug was planted in the coordinator that is linked here (plant.py): some seed finds it.

#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"
#include "testing/simulation/simulation.h"

namespace millrace::simulation {
namespace {

constexpr uint64_t kMostSeeds = 1000;

TEST(PlantedBugTest, IsFound) {
  const Size size = {.nodes = 6, .length = absl::Minutes(4)};
  uint64_t first = 1;
  const char* const given = std::getenv("FIRST_SEED");
  if (given != nullptr) first = std::strtoull(given, nullptr, 10);
  for (uint64_t seed = first; seed < first + kMostSeeds; ++seed) {
    const Plan plan = MakePlan(seed, size.nodes, size.length);
    const Outcome outcome = Simulate(plan);
    if (!outcome.violation.has_value()) continue;
    std::cout << "after " << seed - first + 1
              << " seeds: " << Report(plan, size, *outcome.violation);
    return;
  }
  FAIL() << "none of " << kMostSeeds << " seeds from " << first << " on finds it";
}

}  // namespace
}  // namespace millrace::simulation
