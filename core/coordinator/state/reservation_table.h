// File: core/coordinator/state/reservation_table.h
//
// The slots of a cluster and the ladder that each climbs. A pure state machine: every event is a
// method, time comes from the injected clock, and what has to be done about it comes back as a
// value. No threads, no gRPC, no I/O.
//
// Defines: TableOptions, AgentInfo, Admission, NodeReport, TableEffects, ReservationTable.
//
//   ReservationTable table(options);
//   auto admission = table.Connect(/*executor_id=*/3, agent, /*stream_id=*/17, &effects);
//   table.Registered(admission->executor_id, 17, &effects);   // the certificate is signed
//   table.Update(17, report, &effects);                       // ready, running, exited, ...
//   table.Tick(&effects);                                     // silence, leases, stopped nodes
//
// The ladder, and what moves a slot (docs: core/coordinator/README.md):
//
//   requested → started → connected → registered → ready → running → draining → finished
//                                                                             → failed | lost
//
// Rules that hold always:
//   - A slot with a live stream is never taken over: ALREADY_EXISTS for another agent.
//   - Takeover only after proven death (AgentExited), or when the lease that began with the loss of
//     the stream is over. It raises the attempt and makes a new nonce.
//   - The same agent_id coming back takes up its slot where it was; its older stream is closed.
//   - A message over a stream that is not the slot's, or about a lower attempt, is fenced: ignored
//     and counted. A message that makes no sense in the slot's state is illegal: ignored and
//     counted.
//   - A failure of a node that was asked to stop is none if it ended as asked.
//   - A failure within the slot's restart budget is not the cluster's: another attempt follows
//     after a backoff (RestartPolicy), in the agent that stays for it, or in one that the launcher
//     starts.

#ifndef CORE_COORDINATOR_STATE_RESERVATION_TABLE_H_
#define CORE_COORDINATOR_STATE_RESERVATION_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/random.h"
#include "core/coordinator/state/host_quarantine.h"
#include "core/coordinator/state/restart_policy.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/process/exit_status.h"
#include "millrace/agent_exit.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {

// The durations are those of CoordinatorOptions, which has their defaults: positive.
struct TableOptions {
  std::vector<NodeRole> roles;  // by executor id; distinct
  absl::Duration lost_after;
  absl::Duration lease;
  absl::Duration stop_timeout;
  RestartPolicy restart;  // of every role that has none in `restart_by_job`
  std::map<std::string, RestartPolicy> restart_by_job;
  QuarantinePolicy quarantine;
  Clock* clock = RealClock();                    // not owned
  std::function<uint64_t()> random = RandomU64;  // for nonces and backoffs
};

// What an agent says of itself when it registers.
struct AgentInfo {
  std::string agent_id;
  std::string host;
  int64_t pid = 0;
  std::string address;
  std::optional<uint32_t> attempt = {};  // of its node, if it has had one
  uint64_t spec_epoch = 0;               // of the spec that it holds; 0: none
};

// A slot was given to an agent.
struct Admission {
  int executor_id = 0;
  NodeRole role;
  uint32_t attempt = 0;
  std::string nonce;
  bool again = false;  // the same agent came back
};

// A node's state as its agent reports it.
struct NodeReport {
  enum class Kind { kReady, kRunning, kStopped, kDraining, kExited, kLaunchFailed };
  Kind kind = Kind::kReady;
  uint32_t attempt = 0;
  int64_t pid = 0;                       // of the node; 0: unchanged
  ExitStatus exit;                       // with kExited
  absl::Status error;                    // with kLaunchFailed; with kExited if the program said so
  std::vector<std::string> stderr_tail;  // with kExited and kLaunchFailed
  bool as_asked = false;
  // With kExited and kLaunchFailed: the agent stays, and holds this address for another attempt.
  // Empty: it leaves.
  std::string next_address;
};

// What another table has to know of a slot that an agent has or had, to go on with it.
struct SavedSlot {
  SlotState state = SlotState::kRequested;
  uint32_t attempt = 0;
  std::string nonce;  // empty: the slot never had an agent, and the rest means nothing
  std::string agent_id;
  std::string host;
  std::string address;
  int64_t agent_pid = 0;
  bool ever_ran = false;
  int restarts = 0;  // used of its budget
  bool stop_asked = false;
  bool stop_now = false;
  std::string stop_reason;
  bool agent_gone = false;     // its agent is known to be dead
  bool restart_asked = false;  // by Restart(), and its node has not ended yet
  // The cluster's, if it failed for good; its first_sign means nothing to others, whose date this
  // is.
  std::optional<NodeFailure> failure;
  absl::Time first_sign;
};

// What follows from an event, in the order in which it should be done.
struct TableEffects {
  struct CloseStream {
    uint64_t stream_id = 0;
    absl::Status status;
  };
  struct StopNode {
    uint64_t stream_id = 0;
    std::string reason;
    bool now = false;
    bool restart = false;  // the agent stays: another attempt follows
  };
  struct StartNode {  // another attempt in the agent that stayed
    uint64_t stream_id = 0;
    int executor_id = 0;
    uint32_t attempt = 0;
    std::string nonce;
  };
  struct Change {  // of the ClusterSpec, each raising the epoch by one
    uint64_t epoch = 0;
    NodeRole role;
    std::string address;
    uint32_t attempt = 0;
  };

  std::vector<CloseStream> close;
  std::vector<Change> changes;       // tell every live stream but those of whole_spec
  std::vector<uint64_t> whole_spec;  // streams that need the whole spec of the current epoch
  std::vector<StopNode> stop;
  std::vector<StartNode> start;
  std::vector<int> relaunch;  // slots whose launcher is to start another agent
  std::vector<NodeRestart> restarts;
  std::vector<int> changed;   // executor ids whose SlotStatus changed; may repeat
  std::vector<int> asked;     // those of which only that is new that they were asked to stop
  std::vector<int> ended;     // nodes that ended, in whatever way
  std::vector<int> replaced;  // slots with a new attempt, and those that came back from kLost
  std::vector<NodeFailure> failures;  // fatal for the cluster

  [[nodiscard]] bool empty() const {
    return close.empty() && changes.empty() && whole_spec.empty() && stop.empty() &&
           start.empty() && relaunch.empty() && restarts.empty() && changed.empty() &&
           asked.empty() && ended.empty() && replaced.empty() && failures.empty();
  }
};

// Ownership: values only. Thread safety: not thread-safe. Blocking: never.
// Methods that take an executor id accept any number; unknown ones do nothing or return NOT_FOUND.
class ReservationTable {
 public:
  explicit ReservationTable(TableOptions options);

  // ---- the launcher ----
  void AgentStarted(int executor_id, int64_t pid, TableEffects* effects);
  // Proven death of the agent process, and with it of its node.
  void AgentExited(const AgentExit& exit, TableEffects* effects);
  // The launcher looks for an agent for the slot; `why` is kept as NoteLog() keeps lines. No proof
  // that one which has the slot is dead: it may have come back after another one was asked for.
  void AgentAwaited(int executor_id, absl::string_view why, TableEffects* effects);

  // ---- streams ----

  // An agent asks for a slot: `executor_id`, or any free one. On success the slot is kConnected (or
  // where it was, if the agent came back) and `stream_id`, never used before, is its live stream.
  // An agent may come before the slot's next attempt is due, and waits for that: IsEarly().
  //
  // Returns NOT_FOUND if there is no such slot; ALREADY_EXISTS if another agent has it, or has had
  // it for a later attempt than that of this one's node, or it has finished; UNAVAILABLE, saying
  // for how long, if its lease still runs, or the agent would replace another and its host is
  // quarantined; FAILED_PRECONDITION if it failed for good or was asked to stop; RESOURCE_EXHAUSTED
  // if any slot will do and none is free; INVALID_ARGUMENT for an empty agent_id.
  absl::StatusOr<Admission> Connect(std::optional<int> executor_id, const AgentInfo& agent,
                                    uint64_t stream_id, TableEffects* effects);
  // The agent of this stream has its certificate. False if the stream is not the slot's any more.
  bool Registered(int executor_id, uint64_t stream_id, TableEffects* effects);
  // Anything arrived on the stream: the agent lives. Returns the slot; nullopt if the stream is not
  // a slot's (any more), counted as fenced.
  std::optional<int> Heard(uint64_t stream_id);
  // The node's state. Implies Heard().
  void Update(uint64_t stream_id, const NodeReport& report, TableEffects* effects);
  // The stream ended. Unknown streams are ignored: they were replaced.
  void StreamLost(uint64_t stream_id, TableEffects* effects);

  // ---- the driver, the clock ----

  // Asks the node to end.
  void Stop(int executor_id, absl::string_view reason, bool now, TableEffects* effects);
  // Ends the running node and starts it again as its next attempt, outside of its restart budget;
  // one that waits for its restart is started now. Returns NOT_FOUND if there is no such slot,
  // FAILED_PRECONDITION if it is not running or was asked to stop.
  absl::Status Restart(int executor_id, absl::string_view reason, TableEffects* effects);
  // Does what is due: silent agents, leases that are over, nodes stopped for too long, restarts.
  void Tick(TableEffects* effects);
  // When Tick() has something to do next, steady; InfiniteDuration() if never.
  [[nodiscard]] absl::Duration NextDeadline() const;

  // ---- another table (reservation_table_saved.cc) ----
  [[nodiscard]] SavedSlot Save(int executor_id) const;
  // Before anything else happens, once for each slot: as Save() of an earlier table had it. Its
  // agent, if it may live, has its lease from now on to come back, and says where its node is. A
  // node that was to be started again is, in time for an agent that stayed for it.
  void Restore(int executor_id, const SavedSlot& saved, TableEffects* effects);
  // Once the slots are restored, with the last epoch(). The spec has another one from now on, so
  // that every agent takes it as it comes back: it may have missed a change.
  void RestoreSpec(uint64_t epoch);

  // ---- reading ----
  [[nodiscard]] int size() const { return static_cast<int>(slots_.size()); }
  [[nodiscard]] bool Has(int executor_id) const { return executor_id >= 0 && executor_id < size(); }
  // The slot must exist.
  [[nodiscard]] SlotStatus Status(int executor_id) const;
  [[nodiscard]] const NodeRole& role(int executor_id) const { return slots_[executor_id].role; }
  [[nodiscard]] SlotState state(int executor_id) const { return slots_[executor_id].state; }
  [[nodiscard]] uint32_t attempt(int executor_id) const { return slots_[executor_id].attempt; }
  [[nodiscard]] const std::string& nonce(int executor_id) const {
    return slots_[executor_id].nonce;
  }
  // Of its agent; empty before the first.
  [[nodiscard]] const std::string& host(int executor_id) const { return slots_[executor_id].host; }
  // Of the agent that has or had the slot; empty before the first.
  [[nodiscard]] const std::string& agent_id(int executor_id) const {
    return slots_[executor_id].agent_id;
  }
  // The live stream; 0 if there is none.
  [[nodiscard]] uint64_t stream(int executor_id) const { return slots_[executor_id].stream_id; }
  // The slot ended but a replacement may take it, and the cluster counts on that.
  [[nodiscard]] bool AwaitsReplacement(int executor_id) const;
  // Another agent has the slot before its next attempt is due. It has no spec, with which it would
  // start, until then.
  [[nodiscard]] bool IsEarly(int executor_id) const { return IsEarly(slots_[executor_id]); }
  // No program runs there: it ended, or nobody ever took the slot and it was asked to stop.
  [[nodiscard]] bool HasEnded(int executor_id) const;
  // Hosts that are quarantined now, by name.
  [[nodiscard]] std::vector<QuarantinedHost> Quarantined() const;
  // Every slot of this attempt has been running (it may have ended well since).
  [[nodiscard]] bool AllRan() const { return ran_ == size(); }
  // 0 until all have registered.
  [[nodiscard]] uint64_t epoch() const { return epoch_; }
  [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
  [[nodiscard]] uint64_t fenced_updates() const { return fenced_; }
  [[nodiscard]] uint64_t illegal_updates() const { return illegal_; }

  // Nothing will be heard any more from the agent that had the slot last.
  [[nodiscard]] bool AgentIsGone(int executor_id) const;

  // Some agent has a node that has not ended.
  [[nodiscard]] bool AnyoneLives() const;

  // Some such node gave a sign before then that it may end: if it fails now, that is its
  // NodeFailure::first_sign.
  [[nodiscard]] bool AnyoneShowedSigns(absl::Duration before) const;

  // Some agent that has a node is out of reach, and it is not decided yet whether it is lost.
  [[nodiscard]] bool AnyoneMissing() const;

  // The node wrote to stderr just now: if it ends soon, that was the first sign of it.
  void NoteStderr(int executor_id);
  // Remembers the last lines that the node or its agent wrote, for ReservationTimeoutError().
  void NoteLog(int executor_id, absl::string_view line);

  // DEADLINE_EXCEEDED that names each slot that has not been running: the step at which it stopped,
  // for how long, its last log lines and the likely cause.
  [[nodiscard]] absl::Status ReservationTimeoutError(absl::Duration timeout) const;

 private:
  struct Slot {
    // What each Tick() looks at, side by side: it goes through all slots.
    uint64_t stream_id = 0;      // 0: no live stream
    uint64_t spec_epoch = 0;     // of the spec that the agent held when it attached; 0: none
    absl::Duration heard;        // steady; with a live stream
    absl::Duration lease_until;  // steady; without a live stream
    std::optional<absl::Duration> stopped_since;  // by a signal; steady
    // Another attempt is due then (steady). Only in kFailed and kLost; and where its agent has come
    // already, in kConnected and kRegistered.
    std::optional<absl::Duration> restart_at;
    SlotState state = SlotState::kRequested;
    bool stop_asked = false;

    NodeRole role;
    SlotState before_lost = SlotState::kRequested;  // only with kLost: where it was
    bool lost_early = false;                        // only with kLost: IsEarly() before
    uint32_t attempt = 0;
    std::string nonce;     // empty before the first agent
    std::string agent_id;  // of the agent that has or had the slot; empty before the first
    std::string host;
    std::string address;
    int64_t agent_pid = 0;
    int64_t next_agent_pid = 0;  // of an agent that waits for the end of this one's lease; 0: none
    int64_t node_pid = 0;
    bool agent_dead = true;    // no agent, or its death is proven: the slot may be taken at once
    bool agent_ended = false;  // who started it has seen its process end
    bool sought = false;       // the launcher was asked for another agent, which has not come yet
    bool announce = false;     // a new attempt that the peers have not heard of
    bool has_run = false;      // this attempt; counted in ran_
    bool ever_ran = false;     // an attempt: the reservation, with its limit, is over for this slot
    bool failed_for_good = false;  // its failure is the cluster's: `fatal`
    // Not in the slot itself: a failure takes 300 bytes, and few of 100,000 slots have one.
    std::unique_ptr<NodeFailure> fatal;
    absl::Time fatal_sign;  // its first sign, by the date
    bool stop_now = false;  // only with stop_asked
    std::string stop_reason;
    const RestartPolicy* policy = nullptr;  // of options_
    // Lists of a few. No deques: an empty one takes 600 bytes, of each of 100,000 slots.
    std::vector<absl::Duration> restarts;  // used, within the policy's window; steady
    int short_runs = 0;                    // failures in a row, each soon after its start
    std::string next_address;              // the agent stayed and holds it; empty: no agent stays
    std::unique_ptr<NodeFailure> healing;  // the failure that the next attempt is to mend
    bool restart_asked = false;  // by Restart(): the end of the node is followed by another attempt
    std::vector<std::string> earlier;         // how the attempts before ended, the last few
    std::optional<absl::Duration> healed_at;  // the last of them; steady
    absl::Duration ran_at;                    // steady; with has_run
    // When the node last wrote to stderr, and since when without a pause; steady.
    absl::Duration stderr_at = -absl::InfiniteDuration();
    absl::Duration stderr_began = -absl::InfiniteDuration();
    std::array<absl::Time, kNumSlotStates> reached;
    absl::Status error;
    std::vector<std::string> last_lines;
  };

  Slot* Find(int executor_id) { return Has(executor_id) ? &slots_[executor_id] : nullptr; }
  int IdOf(const Slot& slot) const { return static_cast<int>(&slot - slots_.data()); }
  void Move(Slot& slot, SlotState state, TableEffects* effects);
  void Attach(Slot& slot, const AgentInfo& agent, uint64_t stream_id);
  void Detach(Slot& slot);
  static bool IsEarly(const Slot& slot) {
    return slot.restart_at.has_value() &&
           (slot.state == SlotState::kConnected || slot.state == SlotState::kRegistered);
  }
  // An agent has or had the slot in this attempt.
  static bool HasConnected(const Slot& slot) {
    return !slot.nonce.empty() && slot.state >= SlotState::kConnected;
  }
  // The agent of the slot, if it had one, is dead.
  void DropAgent(Slot& slot, TableEffects* effects);
  // OK if a new agent may have the slot now.
  absl::Status CheckFree(const Slot& slot) const;
  absl::StatusOr<Slot*> Choose(std::optional<int> executor_id, const AgentInfo& agent,
                               TableEffects* effects);
  void TakeOver(Slot& slot, TableEffects* effects);
  void UpdateSpec(Slot& slot, TableEffects* effects);
  // False: the report makes no sense in the slot's state.
  bool Apply(Slot& slot, const NodeReport& report, TableEffects* effects);
  void NodeEnded(Slot& slot, const NodeReport& report, TableEffects* effects);
  // The slot ends in kFailed or kLost. `replaceable`: another agent may take it, and that is no
  // failure of the cluster.
  void Fail(Slot& slot, SlotState state, NodeFailure failure, bool replaceable,
            TableEffects* effects);
  void Lose(Slot& slot, const absl::Status& why, TableEffects* effects);
  // Before it moves to kLost.
  static void KeepBeforeLost(Slot& slot) {
    slot.before_lost = slot.state;
    slot.lost_early = IsEarly(slot);
  }
  // Plans another attempt after `failure`. False, with the reason in failure->no_restart where the
  // slot has a budget: none follows.
  bool PlanRestart(Slot& slot, NodeFailure* failure, TableEffects* effects);
  // The restart is due: in the agent that stayed or has come, or by the launcher.
  void DoRestart(Slot& slot, TableEffects* effects);
  void StartInPlace(Slot& slot, TableEffects* effects);
  // Forgets what belongs to one attempt; the next has a nonce of its own.
  void BeginAttempt(Slot& slot);
  void ForgetOldRestarts(Slot& slot) const;
  absl::Status CheckHost(const Slot& slot, const AgentInfo& agent) const;
  // All nodes whose host is known are on this one: their failures tell nothing about it.
  [[nodiscard]] bool IsOnlyHost(absl::string_view host) const;
  // When the agent of a slot with a live stream counts as lost, if it says nothing more; steady.
  [[nodiscard]] absl::Duration LostAt(const Slot& slot) const;
  // The agent that was to take the slot has ended before it could.
  void NextAgentExited(Slot& slot);
  void TickSlot(Slot& slot, absl::Duration now, TableEffects* effects);
  // Of the end of the node, if it ends now.
  [[nodiscard]] absl::Duration FirstSign(const Slot& slot) const;
  NodeFailure Describe(const Slot& slot, absl::Status status) const;
  std::string DescribeMissing(const Slot& slot) const;

  const TableOptions options_;
  const absl::Duration join_patience_;  // how long silence means nothing while all gather
  Clock* const clock_;
  std::vector<Slot> slots_;                         // by executor id; never resized
  HostQuarantine quarantine_;                       // by host, where the nodes are on several
  HostQuarantine node_quarantine_;                  // by node ("worker:1"), where all are on one
  absl::flat_hash_map<uint64_t, int> by_stream_;    // exactly the live streams
  absl::flat_hash_map<std::string, int> by_agent_;  // agent_id of each slot that has one
  int first_free_ = 0;  // no slot below it is free and has never had an agent
  int ran_ = 0;         // slots with has_run
  // When AllRan() last came about; steady. Where agents had longer until then, silence counts from
  // there on: what they have said may wait behind what all have said at once.
  absl::Duration all_ran_at_ = -absl::InfiniteDuration();
  // When the first node failed for good; steady.
  absl::Duration first_failure_ = absl::InfiniteDuration();
  int registered_ = 0;  // slots in kRegistered .. kFinished
  uint64_t epoch_ = 0;
  ClusterSpec spec_;
  uint64_t fenced_ = 0;
  uint64_t illegal_ = 0;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_RESERVATION_TABLE_H_
