// File: testing/schedules/run_seed.h
//
// What schedules have in common for tests that try seeds: //testing/schedules:feed_seed runs a call
// of the feed, :plane_seed a cluster of the coordinator. Test only.
//
// Defines: SeedResult, RunSeed().

#ifndef TESTING_SCHEDULES_RUN_SEED_H_
#define TESTING_SCHEDULES_RUN_SEED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/thread_scheduler.h"

namespace millrace {

struct SeedResult {
  std::string plan;
  std::string came_of_it;
  ScheduleResult schedule;
  std::vector<std::string> broken;  // the rules that do not hold; empty is good
};

// "feed" or "plane".
[[nodiscard]] absl::string_view SeedWorld();

// Blocks for some ten milliseconds. A run that is stuck ends the process: see ThreadScheduler.
[[nodiscard]] SeedResult RunSeed(uint64_t seed);

}  // namespace millrace

#endif  // TESTING_SCHEDULES_RUN_SEED_H_
