// File: testing/simulation/checks.h
//
// What must hold at every step of a run, whatever goes wrong.
//
// Defines: Violation, Checks.

#ifndef TESTING_SIMULATION_CHECKS_H_
#define TESTING_SIMULATION_CHECKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/coordinator/server/control_plane.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_status.h"
#include "testing/simulation/event_queue.h"
#include "testing/simulation/plan.h"
#include "testing/simulation/trace.h"

namespace millrace::simulation {

struct Violation {
  std::string rule;  // the same for each run that breaks it
  std::string text;
};

// Knows what really happens, next to what the coordinator says. The first violation is kept, and
// ends the run.
class Checks {
 public:
  Checks(const Plan& plan, EventQueue* queue, Trace* trace);

  void Fail(absl::string_view rule, const std::string& text);
  [[nodiscard]] const std::optional<Violation>& violation() const { return violation_; }

  // ---- messages of fenced attempts change nothing ----
  struct Fence {
    int executor = -1;  // -1: the message is nobody's past
    SlotStatus before;
  };
  // This connection is the slot's, from now on.
  void OnStream(int executor, uint64_t connection, int64_t agent_pid, const ControlPlane& plane);
  [[nodiscard]] Fence BeforeMessage(int executor, uint64_t connection,
                                    const v1::AgentMessage& message, const ControlPlane& plane);
  void AfterMessage(const Fence& fence, const ControlPlane& plane);

  // Another driver has taken the cluster over: it knows what the one before had told.
  void OnDriver();

  // ---- one live attempt per slot ----
  // `excused`: its agent cannot hear, now, that the slot is another's.
  void OnNodeStarted(int executor, uint32_t attempt, int64_t pid, std::function<bool()> excused);
  void OnNodeEnded(int executor, int64_t pid);
  [[nodiscard]] int LiveNodes() const;

  // ---- slots, spec ----
  void OnSlot(const SlotStatus& slot);
  void OnOperatorRestart(int executor) { ++slots_[executor].asked_restarts; }
  [[nodiscard]] const SlotStatus& slot(int executor) const { return slots_[executor].status; }
  void OnSpec(int executor, uint64_t before, uint64_t after, const absl::Status& applied);

  // ---- the first cause is a fault ----
  void OnFault(int executor) { slots_[executor].faulted = true; }
  void OnFaultOfAll();
  // The node of `executor` ends since that of `root` has died.
  void OnEcho(int executor, int root) { slots_[executor].echo_of = root; }
  void OnFirstCause(const NodeFailure& cause, bool anyone_lives, bool driver_stopped);

 private:
  struct LiveNode {
    uint32_t attempt = 0;
    int64_t pid = 0;
    std::function<bool()> excused;
  };
  struct Slot {
    SlotStatus status;
    uint64_t connection = 0;
    std::vector<LiveNode> live;
    std::set<uint32_t> started;
    bool resumed = false;    // by another driver, which has not told of it yet
    bool ran = false;        // this attempt
    int restarts = 0;        // of attempts that ran
    int asked_restarts = 0;  // by an operator
    bool faulted = false;
    int echo_of = -1;
  };

  std::string Name(int executor) const;

  const Plan& plan_;
  EventQueue* const queue_;
  Trace* const trace_;
  std::optional<Violation> violation_;
  std::vector<Slot> slots_;
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_CHECKS_H_
