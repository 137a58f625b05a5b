// File: testing/schedules/plane_world.h
//
// The coordinator's threads under a ThreadScheduler: ControlPlane with its timer and observer, and
// WatchHub, with agents, viewers, an operator and a driver that call it from threads of their own.
// Test only.
//
// Defines: PlanePlan, PlaneOutcome, MakePlanePlan(), RunPlane().
//
//   const PlaneOutcome outcome = RunPlane(MakePlanePlan(17));
//   if (!outcome.broken.empty()) ...              // the rules that do not hold

#ifndef TESTING_SCHEDULES_PLANE_WORLD_H_
#define TESTING_SCHEDULES_PLANE_WORLD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/thread_scheduler.h"

namespace millrace {

struct PlanePlan {
  struct Fault {
    enum class Kind { kKillNode, kKillAgent, kBreak, kRestartNode } kind = Kind::kBreak;
    int executor = 0;
    absl::Duration after;  // since the fault before
  };

  uint64_t seed = 1;
  int nodes = 1;
  bool fed = false;
  int max_restarts = 0;
  // How long programs run; InfiniteDuration(): until the driver stops them after `length`.
  absl::Duration program;
  absl::Duration length;
  bool kills_at_end = false;
  bool leaves_at_once = false;  // the driver, while agents may be about to end
  absl::Duration signing;       // of a node's key, at most
  int64_t output_bytes = 0;     // of each attempt, which the driver takes byte for byte
  int viewers = 0;
  absl::Duration reading;  // of an update by a viewer, at most
  // The driver gives up, or an operator stops the cluster.
  std::optional<absl::Duration> cancel_after, stop_after;
  std::vector<Fault> faults;

  [[nodiscard]] std::string ToString() const;
};

[[nodiscard]] PlanePlan MakePlanePlan(uint64_t seed);

struct PlaneOutcome {
  ScheduleResult schedule;
  absl::Status running;             // as WaitRunning() ended
  absl::Status cause;               // the cluster's
  std::vector<std::string> broken;  // the rules that do not hold; empty is good
};

// Blocks for some ten milliseconds. A run that is stuck ends the process: see ThreadScheduler.
[[nodiscard]] PlaneOutcome RunPlane(const PlanePlan& plan);

}  // namespace millrace

#endif  // TESTING_SCHEDULES_PLANE_WORLD_H_
