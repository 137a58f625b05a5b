// File: testing/simulation/adopter.h
//
// A driver's way to agents that listen: what AdoptingLauncher does about its real AdoptionTable and
// the resolver's real MembershipTracker, without threads and sockets.
//
// Defines: Source, Adopter.

#ifndef TESTING_SIMULATION_ADOPTER_H_
#define TESTING_SIMULATION_ADOPTER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/cluster/adoption_table.h"
#include "millrace/agent_exit.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"
#include "testing/simulation/adopt_call.h"
#include "testing/simulation/site.h"

namespace millrace::simulation {

// Who names the agents that listen. Its faults add up.
class Source {
 public:
  explicit Source(const Plan& plan) : plan_(plan), slots_(plan.nodes) {}

  // Where the slot's agent really listens.
  void SetPlace(int executor, const std::string& address) { slots_[executor].place = address; }
  [[nodiscard]] const std::string& place(int executor) const { return slots_[executor].place; }

  // ---- faults: until they are taken back ----
  void Fail(int by) { failing_ += by; }
  void Hide(int executor, int by) { slots_[executor].hidden += by; }
  // Named there instead; empty: no more.
  void Name(int executor, const std::string& address) { slots_[executor].named = address; }

  [[nodiscard]] absl::StatusOr<ClusterSpec> Ask() const;

 private:
  struct Slot {
    std::string place;
    std::string named;
    int hidden = 0;
  };

  const Plan& plan_;
  std::vector<Slot> slots_;
  int failing_ = 0;
};

// One driver's. Thread safety: not thread-safe.
class Adopter {
 public:
  struct Callbacks {
    std::function<void(int executor, int64_t pid, const std::string& place)> on_started;
    std::function<void(const AgentExit&)> on_exit;
    std::function<void(int executor, const std::string& why)> on_awaited;
  };
  // `epoch`: of the driver. `source` is not owned.
  Adopter(Site* site, const Source* source, const std::vector<AdoptionSlot>& slots, uint64_t epoch,
          Callbacks callbacks);
  ~Adopter();

  // Asks the source, now and every poll_interval.
  void Start();
  void Ask();  // it has told of a change
  void Relaunch(int executor);
  void Stop(bool now);
  [[nodiscard]] int num_running() const { return table_.num_running(); }
  // The calls end.
  void EndCalls();
  // The slot's call breaks.
  void Break(int executor);

 private:
  struct Call {
    std::shared_ptr<AdoptCall> call;
    int executor = 0;
  };
  // What the resolver has said last, to judge the table by.
  struct Told {
    std::string address;
    absl::Duration since;
  };
  using Effects = AdoptionTable::Effects;

  void Poll();
  void OnMembers(const MembershipUpdate& update);
  void Remember(const ClusterSpec& spec);
  void OnEvent(uint64_t call, const v1::AdoptEvent& event);
  // Runs `body`, does what follows, and sets the timer.
  void Do(const std::function<void(Effects*)>& body);
  void Perform(const AdoptionEffect& effect, const Effects& all);
  void Dial(const AdoptionEffect& effect);
  void Send(uint64_t call, v1::AdoptRequest request);
  void CheckMove(const AdoptionEffect& end, const Effects& all);

  Site* const site_;
  const Source* const source_;
  const uint64_t epoch_;
  const Callbacks callbacks_;
  AdoptionTable table_;
  MembershipTracker tracker_;
  std::map<uint64_t, Call> calls_;
  std::map<int, Told> told_;              // by executor
  std::map<int, std::string> addresses_;  // of what was dialled last, by executor
  uint64_t timer_ = 0;
  // What the queue holds is of no use to one that is gone.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace millrace::simulation

#endif  // TESTING_SIMULATION_ADOPTER_H_
