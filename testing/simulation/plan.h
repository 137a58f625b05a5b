// File: testing/simulation/plan.h
//
// What a seed decides before a run begins: the cluster, who starts its agents, and what goes wrong.
//
// Defines: Fault, Plan, MakePlan(), FaultText(), PlanText().

#ifndef TESTING_SIMULATION_PLAN_H_
#define TESTING_SIMULATION_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/coordinator/state/coordinator_options.h"

namespace millrace::simulation {

struct Fault {
  enum class Kind {
    kKillNode,         // SIGKILL
    kExitNode,         // with `code`
    kStopNode,         // SIGSTOP, SIGCONT after `duration`
    kKillAgent,        // SIGKILL; its node dies with it
    kStopAgent,        // as kStopNode
    kStopDriver,       // as kStopNode; `executor` means nothing
    kPauseHost,        // with all that runs there
    kLoseHost,         // for ever: Spark starts its executors elsewhere
    kLoseExecutor,     // its agent is killed with it, and nobody tells
    kCutHost,          // nothing passes for `duration`; neither end is told
    kBreakConnection,  // both ends are told
    kSlowReader,       // the agent reads nothing for `duration`
    kDuplicateAgent,   // another agent for the slot, as Spark's speculation starts it
    kRestartNode,      // by an operator
    kJumpDate,         // of the driver's machine, by `duration`, forwards or back
    // Where agents listen:
    kBreakCall,      // the driver's to the agent that listens; both ends are told
    kKillListener,   // with its agent; the next one listens on the same address after `duration`
    kLoseListener,   // the same, and another cluster has the next one first, for `duration`
    kMoveMember,     // the resolver names another agent, which is there, for `duration`
    kFlapMember,     // by turns that one and the right one, every moment
    kHideMember,     // the resolver does not name the slot
    kDoubleMember,   // the resolver names the agent of another slot for it
    kFailResolver,   // it does not answer
    kFillDisk,       // of the host
    kKillDriver,     // where it can be resumed: the next one comes after `duration`
    kFillStateDisk,  // of the driver's state folder
  };
  Kind kind = Kind::kKillNode;
  absl::Duration at;
  int executor = 0;
  absl::Duration duration;
  int code = 0;

  // When nothing of it is left.
  [[nodiscard]] absl::Duration end() const {
    return at + (kind == Kind::kJumpDate ? absl::ZeroDuration() : duration);
  }
};

struct Plan {
  enum class Launcher { kLocal, kSpark, kListening };

  uint64_t seed = 0;
  int nodes = 0;
  absl::Duration length;  // until the driver shuts down
  Launcher launcher = Launcher::kLocal;
  int hosts = 1;
  CoordinatorOptions options;
  bool echoes = false;                              // nodes end with UNAVAILABLE when a peer dies
  bool kills_at_end = false;                        // the driver stops its nodes at once
  bool driver_dies = false;                         // at the end, instead of stopping them
  bool reuses_ports = false;                        // of agents that have ended, at once
  bool resumable = false;                           // the driver has a state folder
  absl::Duration poll_interval = absl::Seconds(5);  // of the resolver
  bool resolver_pushes = false;
  absl::Duration latency;     // of messages, at most
  std::vector<Fault> faults;  // by time
};

[[nodiscard]] Plan MakePlan(uint64_t seed, int nodes, absl::Duration length);

// "12.5 s: SIGSTOP to node 3, for 4 s".
[[nodiscard]] std::string FaultText(const Fault& fault);
// Lines.
[[nodiscard]] std::string PlanText(const Plan& plan);

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_PLAN_H_
