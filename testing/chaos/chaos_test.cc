// Seeds that are the same every time; //testing/chaos tries new ones. Of a round in which something
// does not hold, the seed, what was done and how to run it again are printed.

#include <cstdint>
#include <iostream>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "core/base/log.h"
#include "gtest/gtest.h"
#include "testing/chaos/machine.h"
#include "testing/chaos/plan.h"
#include "testing/chaos/round.h"

namespace millrace::chaos {
namespace {

void RunSeed(uint64_t seed, Place place, absl::Duration length) {
  SetLogLevel(LogLevel::kError);
  const Plan plan = MakePlan(seed, place, length);
  std::cout << PlanText(plan) << std::flush;
  const Outcome outcome = RunRound(plan);
  EXPECT_TRUE(outcome.violations.empty()) << Report(plan, outcome);
}

TEST(ChaosTest, TheSameSeedsHold) {
  for (const uint64_t seed : {300, 302}) RunSeed(seed, Place::kLocal, absl::Seconds(10));
}

TEST(ChaosTest, TheSameSeedsHoldOnAgentsThatListen) {
  for (const uint64_t seed : {100, 305}) RunSeed(seed, Place::kListening, absl::Seconds(10));
}

TEST(ChaosTest, ASeedChoosesTheSameFaults) {
  std::set<std::string> plans;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const auto text = [seed] { return PlanText(MakePlan(seed, Place::kLocal, absl::Seconds(60))); };
    EXPECT_EQ(text(), text());
    plans.insert(text());
  }
  EXPECT_EQ(plans.size(), 50u);
}

}  // namespace
}  // namespace millrace::chaos

int main(int argc, char** argv) {
  millrace::chaos::PrepareMachine(argv);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
