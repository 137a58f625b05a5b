// File: dashboard/source/demo_source.h
//
// A simulated cluster, to try the dashboard without one and to judge it by: --demo N --scenario
// NAME.
//
// Defines: DemoOptions, DemoScenarios(), MakeDemoSource().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto source, MakeDemoSource({.nodes = 200, .scenario =
//   "slow-node"}));

#ifndef DASHBOARD_SOURCE_DEMO_SOURCE_H_
#define DASHBOARD_SOURCE_DEMO_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

struct DemoOptions {
  int nodes = 8;          // 0 to 100,000
  int gpus_per_node = 8;  // 0 to 16; each node is alone on its host
  std::string scenario;   // one of DemoScenarios(); empty: all is well
  uint64_t seed = 1;      // same options, same updates
  // How often a node is sampled, in whole seconds. Zero: as a coordinator does, each second, and in
  // clusters of more than 2,500 nodes as much less often as makes 2,500 a second.
  absl::Duration sample_every;
  // How much of the scenario has happened when the source is first polled. Zero or more;
  // InfiniteDuration(): as much as shows what the scenario is about.
  absl::Duration begin_at = absl::InfiniteDuration();
  // When the simulated cluster began. InfiniteFuture(): `begin_at` before the first Poll().
  absl::Time started = absl::InfiniteFuture();
};

// "starting", "missing-slot", ..., "replay", in the order of the documentation.
[[nodiscard]] const std::vector<std::string>& DemoScenarios();

// Returns INVALID_ARGUMENT, naming the scenarios, if there is no such one or a number is out of
// bounds.
[[nodiscard]] absl::StatusOr<std::unique_ptr<UpdateSource>> MakeDemoSource(DemoOptions options);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_DEMO_SOURCE_H_
