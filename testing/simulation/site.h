// File: testing/simulation/site.h
//
// What the parts of a simulated cluster share.
//
// Defines: Host, Site.

#ifndef TESTING_SIMULATION_SITE_H_
#define TESTING_SIMULATION_SITE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "core/coordinator/server/control_plane.h"
#include "testing/simulation/checks.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/plan.h"
#include "testing/simulation/trace.h"

namespace millrace::simulation {

class AdoptCall;
class Connection;
class Listener;

struct Host {
  std::string name;
  int cuts = 0;       // nothing passes
  int cut_count = 0;  // ever
  absl::Duration healed_at = -absl::InfiniteDuration();
  bool lost = false;
  int full_disks = 0;  // nothing can be written
  int next_port = 1;
  std::set<int> free_ports;  // below that one, of agents that have ended

  [[nodiscard]] bool reachable() const { return cuts == 0 && !lost; }
};

struct Site {
  Site(const Plan& plan, bool keep_trace)
      : plan(plan), trace(keep_trace), checks(plan, &queue, &trace) {
    NextDriver();
  }

  template <typename... Parts>
  void Tell(const Parts&... parts) {
    trace.Add(queue.now(), parts...);
  }
  void NextDriver() {
    driver = &drivers.emplace_back();
    driver_since = queue.now();
  }
  // After each call of the plane: what it has to tell, and when its timer is due.
  void AfterPlane() { after_plane(); }

  const Plan& plan;
  std::map<uint64_t, Connection*>
      connections;                       // that live, by number; outlive what the queue holds
  std::map<uint64_t, AdoptCall*> calls;  // the same
  uint64_t next_connection = 1;
  EventQueue queue;
  Trace trace;
  Checks checks;
  std::deque<Process> drivers;  // one after the other
  Process* driver = nullptr;    // the last one
  absl::Duration driver_since;  // when that one came
  int driver_stops = 0;         // ever
  // The last time that a driver was stopped: since when, until when.
  absl::Duration driver_stopped_at = -absl::InfiniteDuration();
  absl::Duration driver_stopped_until = -absl::InfiniteDuration();
  ControlPlane* plane = nullptr;  // null: the driver has ended
  std::map<std::string, Host*> hosts;
  std::map<std::string, Listener*> listeners;  // by address, those that listen now
  uint64_t next_call = 1;
  // When slots left agents that could not be heard just then for other places.
  std::map<int, absl::Duration> left_at;
  std::set<int> moved;  // slots that left an agent, heard or not, ever
  EventQueue::Body after_plane;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_SITE_H_
