#include "core/cluster/adoption_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace millrace {
namespace {

using Kind = AdoptionEffect::Kind;
using Standing = AgentTicket::Standing;

constexpr absl::Duration kFirstRetry = absl::Milliseconds(100);
constexpr absl::Duration kMaxRetry = absl::Seconds(2);
constexpr absl::Duration kBusyRetry = absl::Milliseconds(500);
// A refusal that is an error at once when the cluster starts: of another secret, of another
// version. Where an agent is replaced the two sides may be in the middle of a change.
constexpr absl::Duration kRefusalPatience = absl::Seconds(60);
// A slot that waits longer than this says why in the log.
constexpr absl::Duration kQuiet = absl::Seconds(2);
// Moves longer ago than this are forgotten.
constexpr absl::Duration kMoveMemory = absl::Minutes(10);
constexpr int kMaxDoublings = 6;
// An agent remembers some thousands of adoptions that are over.
constexpr uint32_t kMaxNumber = 10000;

// Whether asking again may help.
bool IsPassing(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
      return true;
    default:
      return false;
  }
}

// A resolver's error that waiting does not mend.
bool IsHopeless(const absl::Status& status) {
  return absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status) ||
         absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
}

}  // namespace

AdoptionTable::AdoptionTable(AdoptionOptions options, const std::vector<AdoptionSlot>& slots,
                             Clock* clock)
    : options_(options), clock_(clock) {
  for (const AdoptionSlot& id : slots) {
    Slot& slot = slots_.emplace_back();
    slot.id = id;
    slot.wanted_since = slot.retry_at = Now();
    slot.retry_delay = kFirstRetry;
    slot.sought = id.standing == Standing::kTaken;
    slot.replacement = id.standing == Standing::kReplaced;
    slot.left_alone = id.standing == Standing::kEnded;
    if (slot.sought) {
      slot.state = State::kAway;
      slot.address = id.place;
    }
    if (slot.left_alone) slot.state = State::kIdle;
  }
  assembling_ = std::any_of(slots.begin(), slots.end(), [](const AdoptionSlot& slot) {
    return slot.standing == Standing::kNew;
  });
}

AdoptionTable::Slot* AdoptionTable::SlotOf(uint64_t call) {
  for (Slot& slot : slots_) {
    if (slot.call == call && call != 0) return &slot;
  }
  return nullptr;
}

AdoptionTable::Slot* AdoptionTable::Find(int executor_id) {
  for (Slot& slot : slots_) {
    if (slot.id.executor_id == executor_id) return &slot;
  }
  return nullptr;
}

std::string AdoptionTable::NameOf(const Slot& slot) {
  return absl::StrCat(slot.id.job_name, ":", slot.id.task_index);
}

// ---- what the resolver says ---------------------------------------------------------------------

void AdoptionTable::Members(const MembershipUpdate& update, Effects* effects) {
  if (stopping_) return;
  resolver_status_ = update.status;
  if (!update.status.ok()) {
    for (Slot& slot : slots_) {
      if (slot.state != State::kWaiting || !slot.named.empty()) continue;
      if (!slot.replacement && !known_ && IsHopeless(update.status)) {
        Fail(slot, Annotate(update.status, "the resolver"), effects);
      } else {
        Note(slot, absl::StrCat("the resolver: ", update.status.message()), effects);
      }
    }
    // What it said before is old: nothing is moved by it.
    if (update.epoch == 0 || known_) return;
  }
  known_ = true;
  spec_ = update.spec;
  CheckNamed(effects);
  Tick(effects);
}

void AdoptionTable::CheckNamed(Effects* effects) {
  std::map<std::string, int> count;
  std::map<int, std::string> named;
  for (const Slot& slot : slots_) {
    const auto address = spec_.TaskAddress(slot.id.job_name, slot.id.task_index);
    if (!address.ok() || address->empty()) continue;
    ++count[*address];
    named[slot.id.executor_id] = *address;
  }
  for (Slot& slot : slots_) {
    const std::string address = named[slot.id.executor_id];
    if (!address.empty() && count[address] > 1) {
      const std::string problem =
          absl::StrCat("the resolver names ", EscapeControls(address), " for ", count[address],
                       " tasks, ", NameOf(slot),
                       " among them: an agent serves one; start an agent for each, on "
                       "another port or host");
      if (assembling_) {
        Fail(slot, absl::InvalidArgumentError(problem), effects);
      } else if (slot.state == State::kWaiting) {
        Note(slot, problem, effects);
      }
    } else {
      NameSlot(slot, address, effects);
    }
  }
}

void AdoptionTable::NameSlot(Slot& slot, const std::string& address, Effects* effects) {
  if (slot.named != address) {
    slot.named = address;
    slot.named_since = Now();
    slot.stay_logged = false;
    if (slot.state == State::kDialling || slot.state == State::kHeld) HangUp(slot, effects);
    if (slot.state == State::kWaiting) slot.retry_at = Now();
    slot.busy = false;
  }
  if (slot.sought && slot.address.empty()) slot.address = address;
  if (!address.empty() || slot.state != State::kWaiting) return;
  std::vector<std::string> jobs;
  for (const std::string& job : spec_.jobs()) {
    jobs.push_back(absl::StrCat(spec_.NumTasks(job).value_or(0), " of job ",
                                EscapeControls(Ellipsize(job, 64))));
  }
  const std::string problem =
      absl::StrCat("the resolver names no ", NameOf(slot), "; it names ",
                   jobs.empty() ? "no task at all" : absl::StrJoin(jobs, ", "));
  if (options_.fixed_members && assembling_) {
    Fail(slot, absl::FailedPreconditionError(problem), effects);
  } else {
    Note(slot, problem, effects);
  }
}

// ---- a slot's way to an agent -------------------------------------------------------------------

void AdoptionTable::Relaunch(int executor_id, Effects* effects) {
  Slot* const slot = Find(executor_id);
  if (slot == nullptr || stopping_) return;
  if (slot->call != 0 && slot->pid != 0) {
    effects->push_back(
        {.kind = Kind::kRelease, .executor_id = executor_id, .call = slot->call, .now = true});
    left_[slot->call] = *slot;
    slot->call = 0;
  }
  slot->replacement = true;
  Want(*slot, effects);
  if (slot->named.empty()) CheckNamed(effects);
  Tick(effects);
}

void AdoptionTable::Want(Slot& slot, Effects* effects) {
  HangUp(slot, effects);
  slot.state = State::kWaiting;
  ++slot.number;  // the one before may have been used
  slot.sought = slot.found = slot.inherited = slot.left_alone = false;
  slot.address.clear();
  slot.pid = 0;
  slot.busy = false;
  slot.wanted_since = slot.retry_at = Now();
  slot.retry_delay = kFirstRetry;
  slot.problem.clear();
}

// Whether the rule about busy agents lets the slot ask now.
bool AdoptionTable::MayDial(const Slot& slot) const {
  if (slot.named.empty()) return false;
  if (slot.replacement) return true;
  for (const Slot& other : slots_) {
    if (&other != &slot && other.busy && other.named < slot.named) return false;
  }
  return true;
}

bool AdoptionTable::IsAlone(const Slot& slot) const {
  return std::none_of(slots_.begin(), slots_.end(), [&](const Slot& other) {
    const bool none = other.state == State::kIdle || other.state == State::kWaiting;
    return &other != &slot && other.address == slot.address && (!none || other.sought);
  });
}

void AdoptionTable::Dial(Slot& slot, Effects* effects) {
  const bool again = slot.state == State::kAway;
  slot.state = again ? State::kAwayDialling : State::kDialling;
  if (!again) slot.address = slot.named;
  slot.call = next_call_++;
  effects->push_back({.kind = Kind::kDial,
                      .executor_id = slot.id.executor_id,
                      .call = slot.call,
                      .address = slot.address,
                      .number = slot.number,
                      .alone = IsAlone(slot)});
}

void AdoptionTable::HangUp(Slot& slot, Effects* effects) {
  if (slot.call != 0) {
    effects->push_back(
        {.kind = Kind::kHangUp, .executor_id = slot.id.executor_id, .call = slot.call});
  }
  slot.call = 0;
  if (slot.state == State::kDialling || slot.state == State::kHeld) slot.state = State::kWaiting;
}

void AdoptionTable::Held(uint64_t call, const HeldInfo& info, Effects* effects) {
  Slot* const slot = SlotOf(call);
  if (slot == nullptr) return;
  slot->peer_host = info.peer_host;
  if (slot->state == State::kAwayDialling) {
    if (info.running) {
      slot->state = State::kStarting;  // Started follows
      if (std::exchange(slot->sought, false)) slot->found = slot->inherited = true;
      if (stopping_) {
        Release(*slot, effects);
      } else {
        Redirect(*slot, effects);
      }
    } else if (slot->sought) {
      Gone(*slot,
           absl::UnavailableError(absl::StrCat("its agent is gone: the one that listens at ",
                                               slot->address, " does not run it")),
           effects);
    } else if (slot->pid != 0) {
      Gone(*slot,
           absl::UnavailableError(absl::StrCat("its agent at ", slot->address,
                                               " is gone: another one listens there now")),
           effects);
    } else {
      Start(*slot, effects);  // StartAgent was lost with the stream
    }
    return;
  }
  if (slot->state != State::kDialling) return;
  slot->state = State::kHeld;
  slot->busy = false;
  if (slot->problem_logged) {
    Tell(*slot, absl::StrCat(NameOf(*slot), " has its agent now, at ", slot->address), effects);
  }
  slot->problem.clear();
  if (info.running) {  // by a driver before; Started follows
    slot->state = State::kStarting;
    slot->inherited = true;
    Redirect(*slot, effects);
  }
  if (slot->replacement) {
    if (!info.running) Start(*slot, effects);
  } else {
    MaybeStartAll(effects);
    Tick(effects);  // others may have waited for this one
  }
}

void AdoptionTable::MaybeStartAll(Effects* effects) {
  for (const Slot& slot : slots_) {
    const bool others = slot.left_alone || slot.id.standing == Standing::kReplaced;
    if (slot.state < State::kHeld && !others) return;
  }
  assembling_ = false;
  for (Slot& slot : slots_) {
    if (slot.state == State::kHeld) Start(slot, effects);
  }
}

void AdoptionTable::Start(Slot& slot, Effects* effects) {
  slot.state = State::kStarting;
  effects->push_back({.kind = Kind::kStart,
                      .executor_id = slot.id.executor_id,
                      .call = slot.call,
                      .address = slot.peer_host});
}

void AdoptionTable::Redirect(const Slot& slot, Effects* effects) {
  if (!slot.inherited) return;
  effects->push_back({.kind = Kind::kRedirect,
                      .executor_id = slot.id.executor_id,
                      .call = slot.call,
                      .address = slot.peer_host});
}

void AdoptionTable::Started(uint64_t call, int64_t pid, Effects* effects) {
  Slot* const slot = SlotOf(call);
  if (slot == nullptr || slot->state != State::kStarting) return;
  slot->state = State::kRunning;
  slot->retry_delay = kFirstRetry;
  const bool found = std::exchange(slot->found, false);
  if (std::exchange(slot->pid, pid) == pid || found) return;  // heard again, or by a driver before
  effects->push_back({.kind = Kind::kStarted,
                      .executor_id = slot->id.executor_id,
                      .address = slot->address,
                      .pid = pid});
}

// ---- how it ends --------------------------------------------------------------------------------

void AdoptionTable::Ended(uint64_t call, AgentExit exit, Effects* effects) {
  Slot* slot = SlotOf(call);
  const auto left = left_.find(call);
  if (slot == nullptr && left != left_.end()) {
    exit.executor_id = left->second.id.executor_id;
    exit.pid = left->second.pid;
    left_.erase(left);
    TellExit(std::move(exit), effects);
    return;
  }
  if (slot == nullptr) return;
  slot->call = 0;
  if (slot->state == State::kDialling || slot->state == State::kHeld) {
    slot->state = State::kWaiting;
    Retry(*slot, absl::UnavailableError(absl::StrCat("the agent at ", slot->address, " let go")),
          effects);
    return;
  }
  exit.executor_id = slot->id.executor_id;
  exit.pid = std::exchange(slot->pid, 0);
  slot->state = State::kIdle;
  TellExit(std::move(exit), effects);
}

void AdoptionTable::CallOver(uint64_t call, const absl::Status& status, Effects* effects) {
  left_.erase(call);
  Slot* const slot = SlotOf(call);
  if (slot == nullptr) return;
  slot->call = 0;
  if (absl::IsAborted(status)) {  // nothing is to be done about them any more
    AdoptionEffect effect = {.kind = Kind::kTakenOver, .executor_id = slot->id.executor_id};
    effect.exit.status = status;
    effects->push_back(std::move(effect));
  }
  switch (slot->state) {
    case State::kDialling:
    case State::kHeld:
      slot->state = State::kWaiting;
      if (absl::IsResourceExhausted(status)) {
        OnBusy(*slot, status, effects);
      } else if (absl::IsAlreadyExists(status) && slot->number < kMaxNumber) {
        ++slot->number;
        slot->retry_at = Now();
      } else {
        Retry(*slot, status, effects);
      }
      break;
    case State::kStarting:
    case State::kRunning:
      slot->state = State::kAway;
      slot->retry_at = Now() + kFirstRetry;
      slot->retry_delay = kFirstRetry;
      break;
    case State::kAwayDialling: {
      // The hold ended with its call, if StartAgent was lost with that.
      const bool unstarted = slot->pid == 0 && !slot->inherited && !stopping_;
      if (stopping_ && slot->sought && !absl::IsAlreadyExists(status)) {
        slot->state = State::kIdle;  // whoever cannot be asked now ends by itself
        slot->sought = false;
      } else if ((slot->sought || unstarted) && absl::IsAlreadyExists(status) &&
                 slot->number < kMaxNumber) {
        ++slot->number;
        slot->state = State::kAway;
        slot->retry_at = Now();
      } else if (absl::IsResourceExhausted(status) || absl::IsAlreadyExists(status)) {
        Gone(*slot, absl::UnavailableError(absl::StrCat("its agent is gone: ", status.message())),
             effects);
      } else {
        slot->state = State::kAway;
        slot->retry_at = Now() + slot->retry_delay;
        slot->retry_delay = std::min(2 * slot->retry_delay, kMaxRetry);
      }
      break;
    }
    case State::kIdle:
    case State::kWaiting:
    case State::kAway:
      break;
  }
  Tick(effects);
}

void AdoptionTable::Retry(Slot& slot, const absl::Status& why, Effects* effects) {
  slot.busy = false;
  const bool patient = slot.replacement && Now() - slot.wanted_since < kRefusalPatience;
  if (!IsPassing(why) && !patient) {
    Fail(slot, why, effects);
    return;
  }
  slot.retry_at = Now() + slot.retry_delay;
  slot.retry_delay = std::min(2 * slot.retry_delay, kMaxRetry);
  Note(slot,
       why.ok() ? absl::StrCat("the agent at ", slot.address, " ended the call")
                : std::string(why.message()),
       effects);
}

void AdoptionTable::OnBusy(Slot& slot, const absl::Status& why, Effects* effects) {
  if (!options_.wait_when_busy && !slot.replacement) {
    Fail(slot, why, effects);
    return;
  }
  slot.busy = true;
  slot.retry_at = Now() + kBusyRetry;
  Note(slot, std::string(why.message()), effects);
  if (slot.replacement) return;
  for (Slot& other : slots_) {
    if (other.named <= slot.named) continue;
    const bool asks = other.state == State::kDialling || other.state == State::kHeld;
    if (asks) HangUp(other, effects);
    if (other.state != State::kWaiting || other.busy) continue;
    Note(other, absl::StrCat("its agent is not asked before ", NameOf(slot), " has one"), effects);
    other.problem_since = absl::InfiniteDuration();  // one slot is told of, not each
  }
}

void AdoptionTable::Fail(Slot& slot, const absl::Status& why, Effects* effects) {
  HangUp(slot, effects);
  slot.state = State::kIdle;
  slot.busy = false;
  TellExit({.executor_id = slot.id.executor_id, .status = why}, effects);
}

void AdoptionTable::Gone(Slot& slot, const absl::Status& why, Effects* effects) {
  HangUp(slot, effects);
  slot.state = State::kIdle;
  const bool former = std::exchange(slot.sought, false);  // whose pid is not known
  TellExit({.executor_id = slot.id.executor_id,
            .pid = std::exchange(slot.pid, 0),
            .agent_id = former ? slot.id.agent_id : "",
            .status = why},
           effects);
}

void AdoptionTable::TellExit(AgentExit exit, Effects* effects) {
  const int executor_id = exit.executor_id;
  effects->push_back({.kind = Kind::kEnded, .executor_id = executor_id, .exit = std::move(exit)});
}

void AdoptionTable::Note(Slot& slot, const std::string& problem, Effects* effects) {
  if (slot.problem == problem) return;
  if (slot.problem.empty() || slot.problem_since == absl::InfiniteDuration()) {
    slot.problem_since = Now();
    slot.problem_logged = false;
  }
  slot.problem = problem;
  effects->push_back({.kind = Kind::kAwaited, .executor_id = slot.id.executor_id, .note = problem});
}

void AdoptionTable::Tell(const Slot& slot, const std::string& note, Effects* effects) {
  AdoptionEffect effect = {.kind = Kind::kNote, .executor_id = slot.id.executor_id};
  effect.note = EscapeControls(note);
  effects->push_back(effect);
}

// ---- moves --------------------------------------------------------------------------------------

// When a slot whose agent is elsewhere than the resolver says is moved, steady.
absl::Duration AdoptionTable::MoveDue(const Slot& slot) const {
  const bool heard = slot.state == State::kRunning || slot.state == State::kStarting;
  const bool recent = slot.moves > 0 && Now() - slot.moved_at < kMoveMemory;
  const int doublings = recent ? std::min(slot.moves, kMaxDoublings) : 0;
  // One of a driver before may only not have been asked yet.
  if (heard || slot.sought) return slot.named_since + options_.settle * (1 << doublings);
  // The first time at once: this is how a pod is replaced.
  return recent ? slot.moved_at + absl::Seconds(1 << doublings) : slot.named_since;
}

void AdoptionTable::Move(Slot& slot, Effects* effects) {
  const std::string from = slot.address;
  if (Now() - slot.moved_at >= kMoveMemory) slot.moves = 0;
  ++slot.moves;
  slot.moved_at = Now();
  if (slot.state == State::kRunning || slot.state == State::kStarting) {
    effects->push_back({.kind = Kind::kRelease,
                        .executor_id = slot.id.executor_id,
                        .call = slot.call,
                        .now = true});
  }
  Gone(slot,
       absl::UnavailableError(absl::StrCat(NameOf(slot), " was replaced: the resolver names ",
                                           slot.named, " and no longer ", from)),
       effects);
}

// ---- time ---------------------------------------------------------------------------------------

void AdoptionTable::Tick(Effects* effects) {
  for (Slot& slot : slots_) {
    if (!stopping_) {
      TickSlot(slot, effects);
    } else if (IsSought(slot) && slot.state == State::kAway && Now() >= slot.retry_at) {
      Dial(slot, effects);
    }
  }
}

void AdoptionTable::TickSlot(Slot& slot, Effects* effects) {
  const absl::Duration now = Now();
  const bool started = slot.state >= State::kStarting;
  if (slot.state == State::kHeld && slot.problem.empty() && now - slot.wanted_since >= kQuiet) {
    Note(slot, absl::StrCat("its agent at ", slot.address, " is held, and waits for the others'"),
         effects);
  }
  if (slot.state == State::kWaiting) {
    if (slot.replacement && now - slot.wanted_since >= options_.replacement_timeout) {
      Fail(slot,
           absl::DeadlineExceededError(absl::StrCat(
               "no agent for ", NameOf(slot), " in ",
               absl::FormatDuration(options_.replacement_timeout), ": ", slot.problem)),
           effects);
      return;
    }
    if (!slot.problem.empty() && !slot.problem_logged && now - slot.problem_since >= kQuiet) {
      slot.problem_logged = true;
      Tell(slot, absl::StrCat(NameOf(slot), " has no agent yet: ", slot.problem), effects);
    }
    if (now >= slot.retry_at && MayDial(slot)) Dial(slot, effects);
    return;
  }
  if (started && !slot.named.empty() && slot.named != slot.address) {
    if (!slot.id.restarts) {
      if (!std::exchange(slot.stay_logged, true)) {
        Tell(slot,
             absl::StrCat("the resolver names ", slot.named, " for ", NameOf(slot),
                          ", which runs at ", slot.address, " and stays there: max_restarts is 0"),
             effects);
      }
    } else if (now >= MoveDue(slot)) {
      Move(slot, effects);
      return;
    }
  }
  if (slot.state == State::kAway && now >= slot.retry_at && !slot.address.empty()) {
    Dial(slot, effects);
  }
}

absl::Duration AdoptionTable::DeadlineOf(const Slot& slot) const {
  absl::Duration due = absl::InfiniteDuration();
  if (slot.state == State::kWaiting) {
    if (MayDial(slot)) due = slot.retry_at;
    if (slot.replacement) due = std::min(due, slot.wanted_since + options_.replacement_timeout);
    if (!slot.problem.empty() && !slot.problem_logged) {
      due = std::min(due, slot.problem_since + kQuiet);
    }
  } else if (slot.state == State::kHeld) {
    if (slot.problem.empty()) due = slot.wanted_since + kQuiet;
  } else if (slot.state >= State::kStarting) {
    if (slot.state == State::kAway && !slot.address.empty()) due = slot.retry_at;
    if (slot.id.restarts && !slot.named.empty() && slot.named != slot.address) {
      due = std::min(due, MoveDue(slot));
    }
  }
  return due;
}

absl::Duration AdoptionTable::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const Slot& slot : slots_) {
    if (!stopping_) {
      next = std::min(next, DeadlineOf(slot));
    } else if (IsSought(slot) && slot.state == State::kAway) {
      next = std::min(next, slot.retry_at);
    }
  }
  return next;
}

void AdoptionTable::Release(const Slot& slot, Effects* effects) {
  effects->push_back({.kind = Kind::kRelease,
                      .executor_id = slot.id.executor_id,
                      .call = slot.call,
                      .now = stop_now_});
}

void AdoptionTable::Stop(bool now, Effects* effects) {
  stopping_ = true;
  stop_now_ = now;
  for (Slot& slot : slots_) {
    const bool heard = slot.state == State::kRunning || slot.state == State::kStarting;
    if (heard) {
      Release(slot, effects);
    } else if (slot.state != State::kAway && slot.state != State::kAwayDialling) {
      HangUp(slot, effects);
      slot.state = State::kIdle;
    }
  }
}

int AdoptionTable::num_running() const {
  return static_cast<int>(left_.size()) +
         static_cast<int>(std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
           return slot.state == State::kRunning || slot.state == State::kStarting || IsSought(slot);
         }));
}

AgentExit ExitOf(const v1::Ended& ended) {
  AgentExit exit;
  if (ended.exit_case() == v1::Ended::kExitCode) {
    exit.exit = {.kind = ExitStatus::Kind::kExited, .code = ended.exit_code()};
  } else if (ended.exit_case() == v1::Ended::kExitSignal) {
    exit.exit = {.kind = ExitStatus::Kind::kSignaled, .signal = ended.exit_signal()};
  }
  if (ended.error_code() != 0) {
    exit.status =
        absl::Status(static_cast<absl::StatusCode>(ended.error_code()), ended.error_message());
  }
  exit.stderr_tail = {ended.stderr_tail().begin(), ended.stderr_tail().end()};
  return exit;
}

}  // namespace millrace
