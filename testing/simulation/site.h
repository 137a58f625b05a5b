// File: testing/simulation/site.h
//
// What the parts of a simulated cluster share.
//
// Defines: Host, Site.

#ifndef TESTING_SIMULATION_SITE_H_
#define TESTING_SIMULATION_SITE_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/coordinator/server/control_plane.h"
#include "testing/simulation/checks.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/plan.h"
#include "testing/simulation/trace.h"

namespace millrace::simulation {

class Connection;

struct Host {
  std::string name;
  int cuts = 0;       // nothing passes
  int cut_count = 0;  // ever
  absl::Duration healed_at = -absl::InfiniteDuration();
  bool lost = false;
  int next_port = 1;

  [[nodiscard]] bool reachable() const { return cuts == 0 && !lost; }
};

struct Site {
  Site(const Plan& plan, bool keep_trace)
      : plan(plan), trace(keep_trace), checks(plan, &queue, &trace) {}

  template <typename... Parts>
  void Tell(const Parts&... parts) {
    trace.Add(queue.now(), parts...);
  }
  // After each call of the plane: what it has to tell, and when its timer is due.
  void AfterPlane() { after_plane(); }

  const Plan& plan;
  std::map<uint64_t, Connection*>
      connections;  // that live, by number; outlive what the queue holds
  uint64_t next_connection = 1;
  EventQueue queue;
  Trace trace;
  Checks checks;
  Process driver;
  int driver_stops = 0;           // ever
  ControlPlane* plane = nullptr;  // null: the driver has ended
  EventQueue::Body after_plane;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_SITE_H_
