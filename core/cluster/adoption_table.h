// File: core/cluster/adoption_table.h
//
// Which agent each slot of a cluster has, or waits for: the decisions of AdoptingLauncher, as a
// pure state machine. Every event is a method, time comes from the injected clock, and what has to
// be done about it comes back as a list. No threads, no gRPC, no I/O.
//
// Defines: AdoptionSlot, AdoptionEffect, AdoptionTable, ExitOf().
//
//   AdoptionTable table(options, slots);
//   table.Members(update, &effects);                  // the resolver's watch
//   table.Held(call, {.peer_host = "10.0.0.9"}, &effects);
//   table.Started(call, pid, &effects);
//   table.Tick(&effects);
//
// A slot: idle, waiting -> dialling -> held -> starting -> running <-> away -> idle. Rules:
//   - Nothing is started before every slot has its agent. While one is busy with another cluster,
//     only agents of lower addresses are held: two clusters that want the same agents never wait
//     for each other.
//   - An agent that lives stays, whatever the resolver says, until that has said the same for
//     `settle`; one that cannot be heard is left as soon as the resolver names another place. Each
//     move of a slot doubles the time to the next. A slot whose node may not be started again never
//     moves.
//   - What a driver before has left is looked for where that one had it: the resolver's word about
//     another place counts after `settle`.
//   - An agent that cannot be heard, at the same place, is asked again; only its own host, or the
//     resolver, can tell that it is gone.
//   - The adoptions of a slot have numbers, and an agent that has had one refuses it. So a driver
//     that takes the cluster over counts from 1 on until it meets the adoption that lives, or one
//     that never was.

#ifndef CORE_CLUSTER_ADOPTION_TABLE_H_
#define CORE_CLUSTER_ADOPTION_TABLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/proto/adopt.pb.h"
#include "millrace/adoption_options.h"
#include "millrace/agent_exit.h"
#include "millrace/agent_ticket.h"
#include "millrace/cluster_spec.h"
#include "millrace/membership.h"

namespace millrace {

struct AdoptionSlot {
  int executor_id = 0;
  std::string job_name;
  int task_index = 0;
  bool restarts = false;  // its node may be started again
  AgentTicket::Standing standing = AgentTicket::Standing::kNew;
  std::string place;     // with kTaken: where a driver before has found its agent; empty: not known
  std::string agent_id;  // the same: its id; empty: not known
};

// Something to be done, or to be told.
struct AdoptionEffect {
  enum class Kind {
    kDial,      // hold the agent at `address` by a new call `call`
    kStart,     // send StartAgent over `call`; `address` is the driver's host as that agent sees it
    kRedirect,  // send Redirect over `call`; `address` as with kStart
    kRelease,   // send Release over `call`, `now`
    kHangUp,    // end `call`, whose later events mean nothing
    kStarted,   // tell: the slot's agent is the process `pid`, at `address`
    kEnded,     // tell `exit`
    kAwaited,   // tell: the slot has no agent yet, `note` says why
    kNote,      // tell a person `note`
    kTakenOver,  // tell `exit.status`: the agents are another driver's
  };
  Kind kind = Kind::kDial;
  int executor_id = 0;
  uint64_t call = 0;
  std::string address;
  uint32_t number = 0;  // with kDial: of the adoption among those of the slot
  bool alone = false;   // with kDial: no other slot has an agent there, or may have
  bool now = false;
  int64_t pid = 0;
  AgentExit exit;
  std::string note;
};

// Ownership: values only. Thread safety: not thread-safe. Blocking: never. Unknown calls and slots
// are ignored: their time is over.
class AdoptionTable {
 public:
  using Effects = std::vector<AdoptionEffect>;

  // Slots stand as they say. `clock`, not owned, outlives this.
  AdoptionTable(AdoptionOptions options, const std::vector<AdoptionSlot>& slots,
                Clock* clock = RealClock());

  // The slot is to have an agent again; one that it has still is killed.
  void Relaunch(int executor_id, Effects* effects);
  // What the resolver says.
  void Members(const MembershipUpdate& update, Effects* effects);

  struct HeldInfo {
    std::string peer_host;  // the driver's, as the agent sees it
    bool running = false;
  };
  void Held(uint64_t call, const HeldInfo& info, Effects* effects);
  void Started(uint64_t call, int64_t pid, Effects* effects);
  // The agent's process has ended; `exit.executor_id` and `exit.pid` are filled in here.
  void Ended(uint64_t call, AgentExit exit, Effects* effects);
  // The call is over; OK after Ended, otherwise why.
  void CallOver(uint64_t call, const absl::Status& status, Effects* effects);
  // Does what is due.
  void Tick(Effects* effects);
  // When Tick() has something to do, steady; InfiniteDuration(): never.
  [[nodiscard]] absl::Duration NextDeadline() const;

  // Gives every agent up: holds end, agents are asked to end, `now` kills them. Nothing is dialled
  // any more, but for agents of a driver before that are still looked for, to ask them too.
  void Stop(bool now, Effects* effects);
  // Agents that have been started and have not ended, as far as they can be heard, or may be.
  [[nodiscard]] int num_running() const;

 private:
  enum class State { kIdle, kWaiting, kDialling, kHeld, kStarting, kRunning, kAway, kAwayDialling };

  struct Slot {
    AdoptionSlot id;
    State state = State::kWaiting;
    std::string named;    // where the resolver says its agent is; empty: nowhere
    std::string address;  // of the agent that it has or dials
    uint32_t number = 1;  // of the adoption that it has, or asks for
    std::string peer_host;
    uint64_t call = 0;  // 0: none
    int64_t pid = 0;
    bool replacement = false;     // the slot had an agent before
    bool sought = false;          // it has one, of a driver before, which is not found yet
    bool found = false;           // that one is: it has been told of before
    bool inherited = false;       // a driver before has started the agent, and said where that was
    bool left_alone = false;      // it has none, and wants none
    bool busy = false;            // the last answer: it serves another cluster
    absl::Duration wanted_since;  // steady
    absl::Duration retry_at;      // steady
    absl::Duration retry_delay;
    std::string problem;           // why there is no agent yet, as told
    absl::Duration problem_since;  // InfiniteDuration(): not to be told of by itself
    bool problem_logged = false;
    absl::Duration named_since;  // steady: since when `named` is what it is
    int moves = 0;
    absl::Duration moved_at;
    bool stay_logged = false;
  };

  Slot* SlotOf(uint64_t call);
  Slot* Find(int executor_id);
  absl::Duration Now() const { return clock_->SteadyNow(); }
  static std::string NameOf(const Slot& slot);
  // It has an agent of a driver before, not found yet, and it is known where to ask.
  static bool IsSought(const Slot& slot) { return slot.sought && !slot.address.empty(); }
  // No other slot has an agent at the slot's address, asks there for one, or may have one there.
  bool IsAlone(const Slot& slot) const;
  void CheckNamed(Effects* effects);
  void NameSlot(Slot& slot, const std::string& address, Effects* effects);
  void Want(Slot& slot, Effects* effects);
  void Dial(Slot& slot, Effects* effects);
  void HangUp(Slot& slot, Effects* effects);
  void Start(Slot& slot, Effects* effects);
  static void Redirect(const Slot& slot, Effects* effects);
  void Release(const Slot& slot, Effects* effects);  // while stopping
  void MaybeStartAll(Effects* effects);
  void Retry(Slot& slot, const absl::Status& why, Effects* effects);
  void OnBusy(Slot& slot, const absl::Status& why, Effects* effects);
  void Fail(Slot& slot, const absl::Status& why, Effects* effects);
  // The agent of the slot is gone for certain.
  void Gone(Slot& slot, const absl::Status& why, Effects* effects);
  void Move(Slot& slot, Effects* effects);
  static void TellExit(AgentExit exit, Effects* effects);
  void Note(Slot& slot, const std::string& problem, Effects* effects);
  static void Tell(const Slot& slot, const std::string& note, Effects* effects);
  [[nodiscard]] absl::Duration MoveDue(const Slot& slot) const;
  [[nodiscard]] bool MayDial(const Slot& slot) const;
  void TickSlot(Slot& slot, Effects* effects);
  [[nodiscard]] absl::Duration DeadlineOf(const Slot& slot) const;

  const AdoptionOptions options_;
  Clock* const clock_;
  std::vector<Slot> slots_;
  std::map<uint64_t, Slot> left_;  // agents that were given up, by call, until their end is heard
  ClusterSpec spec_;
  bool known_ = false;  // spec_ has been told
  absl::Status resolver_status_;
  bool assembling_ = true;  // not all slots have had an agent yet
  bool stopping_ = false;
  bool stop_now_ = false;  // only with stopping_
  uint64_t next_call_ = 1;
};

// What the agent's host tells of its end, for Ended().
[[nodiscard]] AgentExit ExitOf(const v1::Ended& ended);

}  // namespace millrace

#endif  // CORE_CLUSTER_ADOPTION_TABLE_H_
