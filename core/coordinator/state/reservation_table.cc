#include "core/coordinator/state/reservation_table.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/text.h"

namespace millrace {
namespace {

// While a large cluster gathers, its coordinator is busy with TLS handshakes, of 3 to 4 ms each,
// before it reads heartbeats: a silence of up to this long per slot means nothing yet.
constexpr char kNotStartedAgain[] = "its node is not started again";
constexpr absl::Duration kJoinPatience = absl::Milliseconds(10);

// Lines of stderr after a longer pause are about something else (agents send them every 100 ms);
// those longer before the cluster's first failure, or the end, say nothing of it; and a program
// that writes without a pause is not dying all the time.
constexpr absl::Duration kPauseBetweenWords = absl::Milliseconds(250);
constexpr absl::Duration kLastWordsAge = absl::Seconds(2);
constexpr absl::Duration kLastWordsLength = absl::Seconds(5);

// A round through all slots would wait for memory at each of them: what it looks at is fetched so
// many slots before.
constexpr size_t kSlotsAhead = 8;

template <typename Slots>
void FetchAhead(const Slots& slots, size_t index) {
  const auto& slot = slots[std::min(index + kSlotsAhead, slots.size() - 1)];
  __builtin_prefetch(&slot);
  __builtin_prefetch(&slot.state);
}

constexpr size_t kMaxLastLines = 5;
constexpr size_t kMaxLastLineBytes = 300;
constexpr size_t kMaxStderrLines = 50;

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(absl::Trunc(duration, absl::Milliseconds(100))), " s");
}

// An agent has the slot and its node has not ended.
bool IsOccupied(SlotState state) {
  return state >= SlotState::kConnected && state <= SlotState::kDraining;
}

bool CountsAsRegistered(SlotState state) {
  return state >= SlotState::kRegistered && state <= SlotState::kFinished;
}

// "exited with code 3", "was killed by SIGKILL".
std::string ExitText(const ExitStatus& exit) {
  switch (exit.kind) {
    case ExitStatus::Kind::kExited:
      return absl::StrCat("exited with code ", exit.code);
    case ExitStatus::Kind::kSignaled:
      return absl::StrCat("was killed by ", SignalName(exit.signal),
                          exit.core_dumped ? " (core dumped)" : "");
    default:
      return "ended in an unknown way";
  }
}

absl::Status NodeEndStatus(const NodeReport& report) {
  const absl::Status& error = report.error;
  if (report.kind == NodeReport::Kind::kLaunchFailed) {
    if (error.ok()) return absl::UnknownError("could not start its program");
    return absl::Status(error.code(),
                        absl::StrCat("could not start its program: ", error.message()));
  }
  if (error.ok()) return absl::AbortedError(ExitText(report.exit));
  return absl::Status(error.code(),
                      absl::StrCat("failed with ", absl::StatusCodeToString(error.code()), ": ",
                                   error.message(), " (it ", ExitText(report.exit), ")"));
}

}  // namespace

ReservationTable::ReservationTable(TableOptions options)
    : options_(std::move(options)),
      join_patience_(kJoinPatience * options_.roles.size()),
      clock_(options_.clock),
      slots_(options_.roles.size()),
      quarantine_(options_.quarantine),
      node_quarantine_(options_.quarantine) {
  const absl::Time now = clock_->Now();
  for (size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].role = options_.roles[i];
    auto policy = options_.restart_by_job.find(options_.roles[i].job_name);
    slots_[i].policy =
        policy == options_.restart_by_job.end() ? &options_.restart : &policy->second;
    slots_[i].reached.fill(absl::InfinitePast());
    slots_[i].reached[static_cast<int>(SlotState::kRequested)] = now;
  }
}

void ReservationTable::Move(Slot& slot, SlotState state, TableEffects* effects) {
  registered_ += int{CountsAsRegistered(state)} - int{CountsAsRegistered(slot.state)};
  slot.state = state;
  slot.reached[static_cast<int>(state)] = clock_->Now();
  if (!slot.has_run && (state == SlotState::kRunning || state == SlotState::kFinished)) {
    slot.has_run = slot.ever_ran = true;
    slot.ran_at = clock_->SteadyNow();
    if (++ran_ == size()) all_ran_at_ = slot.ran_at;
  }
  if (IsEnded(state)) {
    slot.node_pid = 0;
    slot.stopped_since.reset();
    effects->ended.push_back(IdOf(slot));
  }
  effects->changed.push_back(IdOf(slot));
}

// ---- the launcher -------------------------------------------------------------------------------

void ReservationTable::AgentStarted(int executor_id, int64_t pid, TableEffects* effects) {
  Slot* slot = Find(executor_id);
  if (slot == nullptr) return;
  switch (slot->state) {
    case SlotState::kRequested:
      break;
    case SlotState::kFailed:
    case SlotState::kLost:
      if (!CheckFree(*slot).ok()) {
        slot->next_agent_pid = pid;
        return;
      }
      slot->error = absl::OkStatus();
      slot->restart_at.reset();
      break;
    default:
      // The agent was faster than its launcher's report.
      if (slot->agent_pid == 0) slot->agent_pid = pid;
      return;
  }
  slot->agent_pid = pid;
  slot->next_agent_pid = 0;
  slot->sought = false;
  slot->agent_dead = true;  // the one before; the new one has not connected
  Move(*slot, SlotState::kStarted, effects);
}

void ReservationTable::DropAgent(Slot& slot, TableEffects* effects) {
  slot.agent_dead = true;
  if (slot.stream_id != 0) {
    effects->close.push_back({slot.stream_id, absl::UnavailableError("the agent has ended")});
    Detach(slot);
  }
  slot.next_address.clear();
  effects->changed.push_back(IdOf(slot));
  if (slot.restart_at.has_value()) {  // its lease need not be waited for
    slot.restart_at =
        std::min(*slot.restart_at, clock_->SteadyNow() + slot.policy->initial_backoff);
  }
}

void ReservationTable::AgentExited(const AgentExit& exit, TableEffects* effects) {
  Slot* found = Find(exit.executor_id);
  if (found == nullptr) return;
  Slot& slot = *found;
  const bool other_pid = exit.pid != 0 && slot.agent_pid != 0 && exit.pid != slot.agent_pid;
  if (other_pid && exit.pid == slot.next_agent_pid) {
    for (const std::string& line : exit.stderr_tail) NoteLog(exit.executor_id, line);
    NextAgentExited(slot);
    return;
  }
  if (other_pid || (!exit.agent_id.empty() && exit.agent_id != slot.agent_id)) {
    ++fenced_;
    return;
  }
  if (!exit.agent_id.empty() && slot.agent_ended) return;  // whoever told it heard no answer
  for (const std::string& line : exit.stderr_tail) NoteLog(exit.executor_id, line);
  const bool not_started = exit.pid == 0 && exit.agent_id.empty() && !exit.status.ok() &&
                           exit.exit.kind == ExitStatus::Kind::kUnknown;
  if (not_started && slot.sought && (slot.stream_id != 0 || IsOccupied(slot.state))) {
    slot.sought = false;  // nor is it needed: the one before came back
    return;
  }
  const bool awaits = AwaitsReplacement(exit.executor_id) && !slot.restart_at.has_value();
  DropAgent(slot, effects);
  slot.agent_ended = exit.exit.kind != ExitStatus::Kind::kUnknown &&
                     (!exit.agent_id.empty() || (exit.pid != 0 && exit.pid == slot.agent_pid));
  // The launcher was to start another and could not.
  const bool not_replaced = awaits && exit.pid == 0 && exit.agent_id.empty() && !exit.status.ok();
  const bool hopeless = not_replaced || (awaits && slot.state == SlotState::kLost && !slot.has_run);
  if (IsEnded(slot.state) && !hopeless) return;

  if (slot.stop_asked && exit.status.ok() && exit.exit.ok()) {
    Move(slot, SlotState::kFinished, effects);
    return;
  }
  const bool connected = HasConnected(slot);
  const std::string how = exit.status.ok()
                              ? absl::StrCat("its agent ", ExitText(exit.exit))
                              : absl::StrCat("its agent failed: ", exit.status.message());
  const absl::StatusCode code =
      exit.status.ok() ? absl::StatusCode::kUnavailable : exit.status.code();
  absl::Status why(code, absl::StrCat(connected ? "was lost: " : "did not start: ", how));
  if (not_replaced && !slot.error.ok()) {
    why = absl::Status(slot.error.code(),
                       absl::StrCat(slot.error.message(),
                                    "; no other agent could be started: ", exit.status.message()));
  }
  NodeFailure failure = Describe(slot, std::move(why));
  failure.exit = exit.exit;
  failure.of_agent = true;
  failure.stderr_tail = exit.stderr_tail;
  if (!hopeless) KeepBeforeLost(slot);
  // Nor is it a failure if the agent was turned away because its slot was asked to stop.
  const bool lost = connected || slot.stop_asked;
  Fail(slot, lost ? SlotState::kLost : SlotState::kFailed, std::move(failure),
       /*replaceable=*/false, effects);
}

void ReservationTable::NextAgentExited(Slot& slot) {
  slot.next_agent_pid = 0;
  if (!AwaitsReplacement(IdOf(slot)) || slot.restart_at.has_value()) return;
  const absl::Duration now = clock_->SteadyNow();
  slot.restart_at = now + slot.policy->initial_backoff;
  if (!slot.agent_dead) slot.restart_at = std::max(*slot.restart_at, slot.lease_until);
}

void ReservationTable::AgentAwaited(int executor_id, absl::string_view why, TableEffects* effects) {
  Slot* const slot = Find(executor_id);
  if (slot == nullptr) return;
  NoteLog(executor_id, why);
  if (HasConnected(*slot)) return;  // of that one its stream tells, or its lease
  slot->agent_pid = 0;
  if (slot->state == SlotState::kStarted) Move(*slot, SlotState::kRequested, effects);
}

// ---- streams ------------------------------------------------------------------------------------

absl::Status ReservationTable::CheckFree(const Slot& slot) const {
  const std::string who = absl::StrCat(slot.role.ToString(), " (executor ", IdOf(slot), ")");
  if (slot.stream_id != 0) {
    return absl::AlreadyExistsError(
        absl::StrCat(who, " has a live agent (host ", EscapeControls(slot.host), ")"));
  }
  if (slot.state == SlotState::kFinished) {
    return absl::AlreadyExistsError(absl::StrCat(who, " has finished"));
  }
  if (slot.stop_asked) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " was asked to stop: ", slot.stop_reason));
  }
  if (slot.failed_for_good) {
    return absl::FailedPreconditionError(absl::StrCat(who, " ", slot.error.message()));
  }
  if (slot.agent_dead || slot.state == SlotState::kFailed) return absl::OkStatus();
  const absl::Duration left = slot.lease_until - clock_->SteadyNow();
  if (left <= absl::ZeroDuration()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(who, " is held for its agent, whose stream broke, for another ", Seconds(left),
                   "; try again then"));
}

absl::StatusOr<ReservationTable::Slot*> ReservationTable::Choose(std::optional<int> executor_id,
                                                                 const AgentInfo& agent,
                                                                 TableEffects* effects) {
  if (agent.agent_id.empty()) return absl::InvalidArgumentError("agent_id is empty");
  if (auto it = by_agent_.find(agent.agent_id); it != by_agent_.end()) {
    if (executor_id.has_value() && *executor_id != it->second) {
      return absl::InvalidArgumentError(absl::StrCat("this agent has executor ", it->second,
                                                     " and cannot have ", *executor_id, " too"));
    }
    return &slots_[it->second];
  }
  if (executor_id.has_value()) {
    Slot* slot = Find(*executor_id);
    if (slot == nullptr) {
      return absl::NotFoundError(absl::StrCat("no executor ", *executor_id,
                                              ": the cluster has executors 0..", size() - 1));
    }
    TickSlot(*slot, clock_->SteadyNow(), effects);  // the timer may be late
    // Its node must not live on while it waits for its turn.
    if (agent.attempt.has_value() && *agent.attempt < slot->attempt) {
      return absl::AlreadyExistsError(
          absl::StrCat(slot->role.ToString(), " (executor ", *executor_id,
                       ") was given to another agent: it is at attempt ", slot->attempt,
                       ", and attempt ", *agent.attempt, ", which this agent has, is over"));
    }
    absl::Status free = CheckFree(*slot);
    if (!free.ok()) return free;
    return slot;
  }
  while (first_free_ < size() && !slots_[first_free_].nonce.empty()) ++first_free_;
  for (int id = first_free_; id < size(); ++id) {
    if (slots_[id].nonce.empty() && CheckFree(slots_[id]).ok()) return &slots_[id];
  }
  for (Slot& slot : slots_) {
    if (!IsOccupied(slot.state) && CheckFree(slot).ok()) return &slot;
  }
  return absl::ResourceExhaustedError(absl::StrCat("all ", size(), " executors have their agent"));
}

absl::StatusOr<Admission> ReservationTable::Connect(std::optional<int> executor_id,
                                                    const AgentInfo& agent, uint64_t stream_id,
                                                    TableEffects* effects) {
  absl::StatusOr<Slot*> chosen = Choose(executor_id, agent, effects);
  if (!chosen.ok()) return chosen.status();
  Slot& slot = **chosen;
  // Below kConnected a replacement has been started meanwhile, so the old agent begins from scratch
  // too.
  const bool again = slot.agent_id == agent.agent_id && slot.state >= SlotState::kConnected;
  if (again && slot.agent_ended) {  // its last words
    return absl::FailedPreconditionError(
        absl::StrCat("this agent of ", slot.role.ToString(), " has ended"));
  }
  if (!again) {
    if (absl::Status host = CheckHost(slot, agent); !host.ok()) return host;
  }
  if (again) {
    if (slot.stream_id != 0) {
      effects->close.push_back(
          {slot.stream_id, absl::AbortedError("replaced by a newer stream of the same agent")});
      Detach(slot);
    }
  } else {
    TakeOver(slot, effects);
  }
  Attach(slot, agent, stream_id);
  if (!again) {
    Move(slot, SlotState::kConnected, effects);
  } else {
    if (slot.state == SlotState::kLost) {
      const absl::Time when = slot.reached[static_cast<int>(slot.before_lost)];
      slot.error = absl::OkStatus();
      if (slot.restart_at.has_value() && !slot.lost_early) {  // it was not needed after all
        slot.restart_at.reset();
        if (slot.healing != nullptr) {  // PlanRestart() of this table had it counted
          slot.restarts.pop_back();
          slot.earlier.pop_back();
          slot.healed_at.reset();
          slot.healing.reset();
        }
      }
      Move(slot, slot.before_lost, effects);
      slot.reached[static_cast<int>(slot.before_lost)] = when;
      effects->replaced.push_back(IdOf(slot));
    }
    effects->changed.push_back(IdOf(slot));
  }
  return Admission{IdOf(slot), slot.role, slot.attempt, slot.nonce, again};
}

void ReservationTable::TakeOver(Slot& slot, TableEffects* effects) {
  if (!slot.nonce.empty()) {
    ++slot.attempt;
    by_agent_.erase(slot.agent_id);
    slot.announce = true;
    effects->replaced.push_back(IdOf(slot));
  }
  const std::optional<absl::Duration> due = slot.restart_at;
  std::unique_ptr<NodeFailure> healing = std::move(slot.healing);
  BeginAttempt(slot);
  if (due.has_value() && clock_->SteadyNow() < *due) {
    slot.restart_at = due;
    slot.healing = std::move(healing);
  }
}

void ReservationTable::BeginAttempt(Slot& slot) {
  slot.nonce = absl::StrCat(absl::Hex(options_.random(), absl::kZeroPad16));
  if (slot.has_run) --ran_;
  slot.has_run = false;
  slot.node_pid = 0;
  slot.error = absl::OkStatus();
  slot.stopped_since.reset();
  slot.stderr_at = slot.stderr_began = -absl::InfiniteDuration();
  slot.last_lines.clear();
  slot.restart_at.reset();
  slot.restart_asked = false;
  slot.sought = false;
  slot.healing.reset();
  slot.next_address.clear();
  for (int state = static_cast<int>(SlotState::kConnected); state < kNumSlotStates; ++state) {
    slot.reached[state] = absl::InfinitePast();
  }
}

void ReservationTable::Attach(Slot& slot, const AgentInfo& agent, uint64_t stream_id) {
  slot.agent_id = agent.agent_id;
  slot.host = agent.host;
  slot.address = agent.address;
  slot.agent_pid = agent.pid;
  slot.next_agent_pid = 0;
  slot.agent_dead = slot.agent_ended = false;
  slot.stream_id = stream_id;
  slot.spec_epoch = agent.spec_epoch;
  slot.heard = clock_->SteadyNow();
  by_agent_.insert_or_assign(agent.agent_id, IdOf(slot));
  by_stream_.insert_or_assign(stream_id, IdOf(slot));
}

void ReservationTable::Detach(Slot& slot) {
  by_stream_.erase(slot.stream_id);
  slot.stream_id = 0;
  slot.lease_until = clock_->SteadyNow() + options_.lease;
}

bool ReservationTable::Registered(int executor_id, uint64_t stream_id, TableEffects* effects) {
  Slot* slot = Find(executor_id);
  if (slot == nullptr || slot->stream_id != stream_id || stream_id == 0) {
    ++fenced_;
    return false;
  }
  slot->heard = clock_->SteadyNow();
  if (slot->state == SlotState::kConnected) Move(*slot, SlotState::kRegistered, effects);
  if (!IsEarly(*slot)) UpdateSpec(*slot, effects);
  if (slot->stop_asked && !IsEnded(slot->state)) {
    effects->stop.push_back({stream_id, slot->stop_reason, slot->stop_now});
  }
  return true;
}

void ReservationTable::UpdateSpec(Slot& slot, TableEffects* effects) {
  if (epoch_ == 0) {
    if (registered_ < size()) return;
    for (const Slot& each : slots_) {
      // Roles are distinct and their indices not negative.
      MILLRACE_CHECK(spec_.SetTask(each.role.job_name, each.role.task_index, each.address).ok());
      if (each.stream_id != 0 && !IsEarly(each)) effects->whole_spec.push_back(each.stream_id);
    }
    epoch_ = 1;
  } else {
    auto address = spec_.TaskAddress(slot.role.job_name, slot.role.task_index);
    if (slot.announce || !address.ok() || *address != slot.address) {
      MILLRACE_CHECK(spec_.SetTask(slot.role.job_name, slot.role.task_index, slot.address).ok());
      ++epoch_;
      effects->changes.push_back({epoch_, slot.role, slot.address, slot.attempt});
    }
    if (slot.spec_epoch != epoch_) effects->whole_spec.push_back(slot.stream_id);
  }
  slot.announce = false;
}

std::optional<int> ReservationTable::Heard(uint64_t stream_id) {
  auto it = by_stream_.find(stream_id);
  if (it == by_stream_.end()) {
    ++fenced_;
    return std::nullopt;
  }
  slots_[it->second].heard = clock_->SteadyNow();
  return it->second;
}

void ReservationTable::StreamLost(uint64_t stream_id, TableEffects* effects) {
  auto it = by_stream_.find(stream_id);
  if (it == by_stream_.end()) return;
  Slot& slot = slots_[it->second];
  Detach(slot);
  effects->changed.push_back(IdOf(slot));
}

// ---- the node -----------------------------------------------------------------------------------

void ReservationTable::Update(uint64_t stream_id, const NodeReport& report, TableEffects* effects) {
  const std::optional<int> id = Heard(stream_id);
  if (!id.has_value()) return;
  Slot& slot = slots_[*id];
  if (report.attempt < slot.attempt) {
    ++fenced_;
  } else if (report.attempt > slot.attempt || !Apply(slot, report, effects)) {
    ++illegal_;
  }
}

bool ReservationTable::Apply(Slot& slot, const NodeReport& report, TableEffects* effects) {
  const SlotState state = slot.state;
  const bool may_start = state == SlotState::kRegistered || state == SlotState::kReady;
  const bool lives = may_start || state == SlotState::kRunning || state == SlotState::kDraining;
  const bool runs = state == SlotState::kRunning || state == SlotState::kDraining;
  if (lives && report.pid != 0 && report.pid != slot.node_pid) {
    slot.node_pid = report.pid;
    effects->changed.push_back(IdOf(slot));
  }
  switch (report.kind) {
    case NodeReport::Kind::kReady:
      if (state == SlotState::kRegistered) Move(slot, SlotState::kReady, effects);
      return may_start;
    case NodeReport::Kind::kRunning:
      if (may_start) {
        Move(slot, SlotState::kRunning, effects);
      } else if (slot.stopped_since.has_value()) {  // continued
        slot.stopped_since.reset();
        effects->changed.push_back(IdOf(slot));
      } else if (state == SlotState::kDraining) {
        return false;
      }
      return lives;
    case NodeReport::Kind::kStopped:
      if (!runs) return false;
      if (!slot.stopped_since.has_value()) slot.stopped_since = clock_->SteadyNow();
      effects->changed.push_back(IdOf(slot));
      return true;
    case NodeReport::Kind::kDraining:
      if (lives && state != SlotState::kDraining) Move(slot, SlotState::kDraining, effects);
      return lives;
    case NodeReport::Kind::kLaunchFailed:
      if (state == SlotState::kRunning) return false;
      [[fallthrough]];
    case NodeReport::Kind::kExited:
      if (lives) {
        NodeEnded(slot, report, effects);
      } else if (AwaitsReplacement(IdOf(slot)) && !report.next_address.empty()) {
        // A node that had failed as it was stopped, or an agent that came back: it stays.
        slot.next_address = report.next_address;
        if (!slot.restart_at.has_value()) slot.restart_at = clock_->SteadyNow();
      } else if (IsEnded(state) && !report.next_address.empty()) {
        // It was away when its next attempt was called off.
        effects->stop.push_back(
            {slot.stream_id, slot.stop_asked ? slot.stop_reason : kNotStartedAgain, slot.stop_now});
      }
      // The last word again, from an agent that came back.
      return lives || state == SlotState::kFinished || state == SlotState::kFailed;
  }
  return false;
}

void ReservationTable::NodeEnded(Slot& slot, const NodeReport& report, TableEffects* effects) {
  slot.next_address = report.next_address;
  if (slot.restart_asked && !slot.next_address.empty() && !slot.stop_asked) {
    StartInPlace(slot, effects);
    return;
  }
  const bool well = report.kind == NodeReport::Kind::kExited && report.exit.ok();
  if (well || report.as_asked) {
    Move(slot, SlotState::kFinished, effects);
    return;
  }
  NodeFailure failure = Describe(slot, NodeEndStatus(report));
  failure.exit = report.exit;
  if (report.kind == NodeReport::Kind::kLaunchFailed) failure.pid = 0;  // it was no node yet
  failure.stderr_tail = report.stderr_tail;
  if (failure.stderr_tail.size() > kMaxStderrLines) {
    failure.stderr_tail.erase(failure.stderr_tail.begin(),
                              failure.stderr_tail.end() - kMaxStderrLines);
  }
  failure.first_sign = FirstSign(slot);
  failure.unexplained = report.kind == NodeReport::Kind::kExited && report.error.ok();
  // The program's own word, not that of an agent which killed it.
  failure.consequence = report.kind == NodeReport::Kind::kExited &&
                        report.exit.kind == ExitStatus::Kind::kExited &&
                        report.error.code() == absl::StatusCode::kUnavailable;
  Fail(slot, SlotState::kFailed, std::move(failure), /*replaceable=*/false, effects);
}

absl::Duration ReservationTable::FirstSign(const Slot& slot) const {
  const absl::Duration now = clock_->SteadyNow();
  const absl::Duration end = std::min(now, first_failure_);
  if (end - slot.stderr_at > kLastWordsAge) return now;
  return std::max(slot.stderr_began, end - kLastWordsLength);
}

NodeFailure ReservationTable::Describe(const Slot& slot, absl::Status status) const {
  NodeFailure failure;
  failure.executor_id = IdOf(slot);
  failure.role = slot.role;
  failure.attempt = slot.attempt;
  failure.host = slot.host;
  failure.pid = slot.node_pid;
  failure.status = std::move(status);
  failure.time = clock_->Now();
  failure.first_sign = clock_->SteadyNow();
  return failure;
}

void ReservationTable::Fail(Slot& slot, SlotState state, NodeFailure failure, bool replaceable,
                            TableEffects* effects) {
  slot.error = failure.status;
  // Losing an agent that was told to end is what was wanted; a bad exit is still a failure.
  const bool wanted = slot.stop_asked && state == SlotState::kLost;
  if (!replaceable) {  // an early agent's slot is to be mended anew
    slot.restart_at.reset();
    slot.healing.reset();
  }
  const bool fatal = !wanted && !replaceable && !PlanRestart(slot, &failure, effects);
  Move(slot, state, effects);
  if (!fatal) return;
  slot.failed_for_good = true;
  slot.fatal = std::make_unique<NodeFailure>(failure);
  slot.fatal_sign = clock_->Now() - (clock_->SteadyNow() - failure.first_sign);
  first_failure_ = std::min(first_failure_, clock_->SteadyNow());
  if (slot.stream_id != 0 && !slot.next_address.empty()) {
    effects->stop.push_back({slot.stream_id, kNotStartedAgain});
  }
  effects->failures.push_back(std::move(failure));
}

void ReservationTable::Lose(Slot& slot, const absl::Status& why, TableEffects* effects) {
  if (slot.stream_id != 0) {
    effects->close.push_back({slot.stream_id, why});
    Detach(slot);
  }
  KeepBeforeLost(slot);
  // Before its program ever ran nothing is lost: another agent may come until the reservation ends.
  // But whoever was asked for another one before waits to be asked again. Nor is anything lost
  // where another attempt is due in any case. Once a node has failed for good nobody comes, and the
  // loss may be why.
  const bool waits = (!slot.ever_ran && slot.restarts.empty()) || slot.lost_early;
  Fail(slot, SlotState::kLost,
       Describe(slot, absl::Status(why.code(), absl::StrCat("was lost: ", why.message()))),
       /*replaceable=*/waits && first_failure_ == absl::InfiniteDuration(), effects);
}

// ---- the driver, the clock ----------------------------------------------------------------------

void ReservationTable::Stop(int executor_id, absl::string_view reason, bool now,
                            TableEffects* effects) {
  Slot* slot = Find(executor_id);
  if (slot == nullptr) return;
  const bool news = !slot->stop_asked || (now && !slot->stop_now);
  if (!news) return;
  if (!slot->stop_asked) slot->stop_reason = std::string(reason);
  slot->stop_asked = true;
  slot->stop_now = slot->stop_now || now;
  effects->asked.push_back(executor_id);
  // An agent that is not registered yet is told when it registers.
  const bool stays = IsEnded(slot->state) && !slot->next_address.empty();
  slot->restart_at.reset();
  if (slot->healing != nullptr) {
    slot->healing->no_restart = "the cluster was stopped before its next attempt";
    slot->failed_for_good = true;
    slot->fatal = std::move(slot->healing);
    slot->fatal_sign = clock_->Now();
    effects->failures.push_back(*slot->fatal);
  }
  if (slot->stream_id != 0 && slot->state >= SlotState::kRegistered &&
      (stays || !IsEnded(slot->state))) {
    effects->stop.push_back({slot->stream_id, slot->stop_reason, slot->stop_now});
  }
}

absl::Duration ReservationTable::LostAt(const Slot& slot) const {
  if (join_patience_ <= options_.lost_after) return slot.heard + options_.lost_after;
  if (!AllRan()) return slot.heard + join_patience_;
  return std::max(slot.heard, all_ran_at_) + options_.lost_after;
}

void ReservationTable::TickSlot(Slot& slot, absl::Duration now, TableEffects* effects) {
  if (slot.stream_id != 0 && now >= LostAt(slot)) {
    const absl::Status why = absl::UnavailableError(
        absl::StrCat("no heartbeat from its agent for ", Seconds(now - slot.heard),
                     "; is its host down, overloaded or cut off?"));
    if (IsOccupied(slot.state)) {
      Lose(slot, why, effects);
    } else {
      effects->close.push_back({slot.stream_id, why});
      Detach(slot);
      effects->changed.push_back(IdOf(slot));
    }
    return;
  }
  if (slot.stream_id == 0 && IsOccupied(slot.state) && now >= slot.lease_until) {
    Lose(slot,
         absl::UnavailableError(absl::StrCat(
             "the stream of its agent broke and did not come back for ", Seconds(options_.lease))),
         effects);
    return;
  }
  if (slot.stopped_since.has_value() && !slot.stop_asked &&
      now - *slot.stopped_since >= options_.stop_timeout) {
    NodeFailure failure = Describe(
        slot, absl::AbortedError(absl::StrCat(
                  "was stopped by a signal (SIGSTOP) for ", Seconds(now - *slot.stopped_since),
                  ", longer than stop_timeout; continue it (SIGCONT) in time, or raise that")));
    const uint64_t stream_id = slot.stream_id;
    Fail(slot, SlotState::kFailed, std::move(failure), /*replaceable=*/false, effects);
    if (stream_id != 0) {
      effects->stop.push_back({stream_id, "stopped by a signal for too long", /*now=*/true,
                               /*restart=*/slot.restart_at.has_value()});
    }
    return;
  }
  if (slot.restart_at.has_value() && now >= *slot.restart_at) DoRestart(slot, effects);
}

void ReservationTable::Tick(TableEffects* effects) {
  const absl::Duration now = clock_->SteadyNow();
  for (size_t i = 0; i < slots_.size(); ++i) {
    FetchAhead(slots_, i);
    TickSlot(slots_[i], now, effects);
  }
}

absl::Duration ReservationTable::NextDeadline() const {
  absl::Duration next = absl::InfiniteDuration();
  for (size_t i = 0; i < slots_.size(); ++i) {
    FetchAhead(slots_, i);
    const Slot& slot = slots_[i];
    if (slot.stream_id != 0) {
      next = std::min(next, LostAt(slot));
    } else if (IsOccupied(slot.state)) {
      next = std::min(next, slot.lease_until);
    }
    if (slot.stopped_since.has_value() && !slot.stop_asked) {
      next = std::min(next, *slot.stopped_since + options_.stop_timeout);
    }
    if (slot.restart_at.has_value()) next = std::min(next, *slot.restart_at);
  }
  return next;
}

// ---- reading ------------------------------------------------------------------------------------

SlotStatus ReservationTable::Status(int executor_id) const {
  const Slot& slot = slots_[executor_id];
  SlotStatus status;
  status.executor_id = executor_id;
  status.role = slot.role;
  status.state = slot.state;
  status.attempt = slot.attempt;
  status.host = slot.host;
  status.address = slot.address;
  status.agent_pid = slot.agent_pid;
  status.node_pid = slot.node_pid;
  status.attached = slot.stream_id != 0;
  status.stopped = slot.stopped_since.has_value();
  status.stop_asked = slot.stop_asked;
  status.reached = slot.reached;
  status.error = slot.error;
  const absl::Duration now = clock_->SteadyNow();
  status.restarts = static_cast<int>(
      std::count_if(slot.restarts.begin(), slot.restarts.end(),
                    [&](absl::Duration at) { return now - at <= slot.policy->window; }));
  status.max_restarts = slot.policy->max_restarts;
  if (slot.restart_at.has_value()) status.restart_at = clock_->Now() + (*slot.restart_at - now);
  return status;
}

bool ReservationTable::AwaitsReplacement(int executor_id) const {
  const Slot& slot = slots_[executor_id];
  return (slot.state == SlotState::kFailed || slot.state == SlotState::kLost) &&
         !slot.failed_for_good && !slot.stop_asked;
}

bool ReservationTable::HasEnded(int executor_id) const {
  const Slot& slot = slots_[executor_id];
  if (IsEnded(slot.state)) return !AwaitsReplacement(executor_id);
  return slot.stop_asked && slot.state < SlotState::kConnected;
}

bool ReservationTable::AgentIsGone(int executor_id) const {
  const Slot& slot = slots_[executor_id];
  return slot.stream_id == 0 && (slot.agent_dead || clock_->SteadyNow() >= slot.lease_until);
}

void ReservationTable::NoteStderr(int executor_id) {
  Slot* slot = Find(executor_id);
  if (slot == nullptr) return;
  const absl::Duration now = clock_->SteadyNow();
  if (now - slot->stderr_at > kPauseBetweenWords) slot->stderr_began = now;
  slot->stderr_at = now;
}

bool ReservationTable::AnyoneLives() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return IsOccupied(slot.state); });
}

bool ReservationTable::AnyoneShowedSigns(absl::Duration before) const {
  return std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
    return IsOccupied(slot.state) && !slot.stop_asked && FirstSign(slot) < before;
  });
}

bool ReservationTable::AnyoneMissing() const {
  return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.stream_id == 0 && IsOccupied(slot.state);
  });
}

void ReservationTable::NoteLog(int executor_id, absl::string_view line) {
  Slot* slot = Find(executor_id);
  if (slot == nullptr || FirstLine(line).empty()) return;
  slot->last_lines.push_back(EscapeControls(Ellipsize(line, kMaxLastLineBytes)));
  if (slot->last_lines.size() > kMaxLastLines) {
    slot->last_lines.erase(slot->last_lines.begin());
  }
}

}  // namespace millrace
