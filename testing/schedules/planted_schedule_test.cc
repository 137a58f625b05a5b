// A bug was planted in what is linked here (//testing/simulation:plant): some seed finds
// it, by a rule that does not hold or a run that is stuck.

#include <sys/wait.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "core/base/thread_scheduler.h"
#include "gtest/gtest.h"
#include "testing/schedules/run_seed.h"

namespace millrace {
namespace {

constexpr uint64_t kMostSeeds = 3000;
constexpr int kBroken = 3;

// Ends the process: with 0 if no seed finds anything.
[[noreturn]] void RunSeeds() {
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    std::cerr << "seed " << seed << "\n";
    const SeedResult result = RunSeed(seed);
    for (const std::string& rule : result.broken) std::cerr << "BROKEN: " << rule << "\n";
    if (!result.broken.empty()) std::_Exit(kBroken);
  }
  std::_Exit(0);
}

TEST(PlantedScheduleDeathTest, IsFound) {
  EXPECT_EXIT(
      RunSeeds(),
      [](int status) {
        std::cout << "exit code " << WEXITSTATUS(status) << "\n";
        return WIFEXITED(status) && (WEXITSTATUS(status) == kBroken ||
                                     WEXITSTATUS(status) == ThreadScheduler::kStuckExitCode);
      },
      "BROKEN|stuck");
}

}  // namespace
}  // namespace millrace
