// Seeds that are the same every time; //testing/chaos tries new ones. Of a round in which something
// does not hold, the seed, what was done and how to run it again are printed.

#include <algorithm>
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
  if (!outcome.unavailable.empty()) GTEST_SKIP() << outcome.unavailable;
  EXPECT_TRUE(outcome.violations.empty()) << Report(plan, outcome);
}

TEST(ChaosTest, TheSameSeedsHold) {
  for (const uint64_t seed : {300, 302}) RunSeed(seed, Place::kLocal, absl::Seconds(10));
}

TEST(ChaosTest, TheSameSeedsHoldOnAgentsThatListen) {
  for (const uint64_t seed : {100, 305}) RunSeed(seed, Place::kListening, absl::Seconds(10));
}

TEST(ChaosTest, TheSameSeedHoldsOnSpark) { RunSeed(1104, Place::kSpark, absl::Seconds(15)); }

TEST(ChaosTest, WhatIsSparedIsNotInThePlan) {
  Plan plan = MakePlan(7, Place::kSpark, absl::Seconds(600));
  const auto ends_executor = [](const Fault& fault) {
    return fault.kind == Fault::Kind::kKillExecutor || fault.kind == Fault::Kind::kSuspend;
  };
  const size_t before = plan.faults.size();
  const auto ending = std::count_if(plan.faults.begin(), plan.faults.end(), ends_executor);
  ASSERT_GT(ending, 0);
  SpareLongLived(plan);
  EXPECT_EQ(plan.faults.size(), before - static_cast<size_t>(ending));
  EXPECT_EQ(std::count_if(plan.faults.begin(), plan.faults.end(), ends_executor), 0);
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
