// How ReservationTable heals: restart budgets, backoff, quarantine.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/coordinator/state/reservation_table.h"

namespace millrace {
namespace {

constexpr size_t kMaxEarlier = 8;
constexpr size_t kMaxEarlierBytes = 120;
constexpr size_t kMaxNearby = 4;
// How long a healed failure may explain the failures of its peers.
constexpr absl::Duration kNearby = absl::Seconds(30);

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(absl::ToDoubleSeconds(absl::Trunc(duration, absl::Milliseconds(100))), " s");
}

// In [0, 1).
double ToFraction(uint64_t random) {
  return static_cast<double>(random >> 11) / 9007199254740992.0;
}

// What another attempt cannot mend: a program that is not there or cannot be run.
bool IsFinal(const NodeFailure& failure) {
  if (failure.exit.kind != ExitStatus::Kind::kUnknown) return false;  // it ran
  switch (failure.status.code()) {
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
      return true;
    default:
      return false;
  }
}

std::string Used(size_t used, int max) {
  return absl::StrCat(used, " of ", max, max == 1 ? " restart used" : " restarts used");
}

}  // namespace

void ReservationTable::ForgetOldRestarts(Slot& slot) const {
  const absl::Duration now = clock_->SteadyNow();
  const auto first =
      std::find_if(slot.restarts.begin(), slot.restarts.end(),
                   [&](absl::Duration at) { return now - at <= slot.policy->window; });
  slot.restarts.erase(slot.restarts.begin(), first);
}

bool ReservationTable::PlanRestart(Slot& slot, NodeFailure* failure, TableEffects* effects) {
  const absl::Duration now = clock_->SteadyNow();
  failure->earlier_attempts = {slot.earlier.begin(), slot.earlier.end()};
  if (failure->consequence) {
    for (const Slot& other : slots_) {
      if (&other == &slot || !other.healed_at.has_value() || now - *other.healed_at > kNearby ||
          failure->healed_nearby.size() >= kMaxNearby) {
        continue;
      }
      failure->healed_nearby.push_back(
          absl::StrCat(other.role.ToString(), ", whose ", other.earlier.back()));
    }
  }
  const RestartPolicy& policy = *slot.policy;
  if (policy.max_restarts == 0 || slot.stop_asked) return false;
  const bool only_host = IsOnlyHost(slot.host);
  const std::string node = slot.role.ToString();
  if (only_host) {
    node_quarantine_.RecordFailure(node, now);
  } else {
    quarantine_.RecordFailure(slot.host, now);
  }
  ForgetOldRestarts(slot);
  if (IsFinal(*failure)) {
    failure->no_restart = "another attempt would end in the same way";
    return false;
  }
  if (slot.restarts.size() >= static_cast<size_t>(policy.max_restarts)) {
    failure->no_restart = Used(slot.restarts.size(), policy.max_restarts);
    if (policy.window != absl::InfiniteDuration()) {
      absl::StrAppend(&failure->no_restart, " within ", Seconds(policy.window));
    }
    return false;
  }
  if (only_host && node_quarantine_.IsClosed(node, now)) {
    failure->no_restart =
        absl::StrCat(quarantine_.policy().failures, " failures of ", node, " in ",
                     Seconds(quarantine_.policy().window), ", where quarantine begins, ",
                     Used(slot.restarts.size(), policy.max_restarts));
    return false;
  }
  if (!only_host && quarantine_.IsClosed(slot.host, now)) {
    const absl::Time until = clock_->Now() + (quarantine_.Until(slot.host) - now);
    failure->no_restart = absl::StrCat(quarantine_.policy().failures, " failures in ",
                                       Seconds(quarantine_.policy().window), " on host ",
                                       EscapeControls(slot.host), ": no restarts there until ",
                                       absl::FormatTime("%H:%M:%S", until, absl::UTCTimeZone()),
                                       " UTC, ", Used(slot.restarts.size(), policy.max_restarts));
    return false;
  }
  const bool short_run = !slot.has_run || now - slot.ran_at < policy.max_backoff;
  slot.short_runs = short_run ? slot.short_runs + 1 : 1;
  const absl::Duration after =
      RestartBackoff(policy, slot.short_runs - 1, ToFraction(options_.random()));
  slot.restarts.push_back(now);
  // Its stream broke as it died; how long it takes to be sure of that delays nothing.
  const bool died =
      HasConnected(slot) && !IsEnded(slot.state) && slot.agent_dead && slot.stream_id == 0;
  const absl::Duration failed_at = died ? slot.lease_until - options_.lease : now;
  slot.restart_at = std::max(failed_at + after, now);
  // An agent that is only silent may come back until its lease is over.
  if (slot.stream_id == 0 && !slot.agent_dead) {
    slot.restart_at = std::max(*slot.restart_at, slot.lease_until);
  }
  slot.healed_at = now;
  slot.healing = std::make_unique<NodeFailure>(*failure);
  slot.earlier.push_back(absl::StrCat("attempt ", slot.attempt, " ",
                                      Ellipsize(failure->status.message(), kMaxEarlierBytes)));
  if (slot.earlier.size() > kMaxEarlier) slot.earlier.erase(slot.earlier.begin());
  effects->restarts.push_back({*failure, *slot.restart_at - now,
                               static_cast<int>(slot.restarts.size()), policy.max_restarts});
  return true;
}

void ReservationTable::DoRestart(Slot& slot, TableEffects* effects) {
  if (slot.stream_id != 0 && !slot.next_address.empty()) {
    StartInPlace(slot, effects);
    return;
  }
  if (IsEarly(slot)) {
    slot.restart_at.reset();
    slot.healing.reset();
    // One that is about to register is sent the spec when it does.
    if (slot.state == SlotState::kRegistered && slot.stream_id != 0) UpdateSpec(slot, effects);
    effects->changed.push_back(IdOf(slot));
    return;
  }
  slot.restart_at.reset();
  if (slot.stream_id != 0) {
    effects->close.push_back(
        {slot.stream_id, absl::CancelledError("another agent takes over its slot")});
    Detach(slot);
    slot.agent_dead = true;  // it ends its node when it hears this, and can send nothing any more
  }
  slot.sought = true;
  effects->relaunch.push_back(IdOf(slot));
  effects->changed.push_back(IdOf(slot));
}

void ReservationTable::StartInPlace(Slot& slot, TableEffects* effects) {
  ++slot.attempt;
  slot.address = slot.next_address;
  BeginAttempt(slot);
  effects->replaced.push_back(IdOf(slot));
  slot.reached[static_cast<int>(SlotState::kConnected)] = clock_->Now();
  Move(slot, SlotState::kRegistered, effects);
  if (epoch_ == 0) {
    UpdateSpec(slot, effects);
  } else {
    MILLRACE_CHECK(spec_.SetTask(slot.role.job_name, slot.role.task_index, slot.address).ok());
    effects->changes.push_back({++epoch_, slot.role, slot.address, slot.attempt});
  }
  effects->start.push_back({slot.stream_id, IdOf(slot), slot.attempt, slot.nonce});
}

absl::Status ReservationTable::Restart(int executor_id, absl::string_view reason,
                                       TableEffects* effects) {
  Slot* slot = Find(executor_id);
  if (slot == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no executor ", executor_id, ": the cluster has executors 0..", size() - 1));
  }
  const std::string who = absl::StrCat(slot->role.ToString(), " (executor ", executor_id, ")");
  if (slot->stop_asked) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " was asked to stop: ", slot->stop_reason));
  }
  if (slot->restart_at.has_value()) {
    slot->restart_at = clock_->SteadyNow();
    DoRestart(*slot, effects);
    return absl::OkStatus();
  }
  if (slot->state != SlotState::kRunning || slot->stream_id == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(who, " is ", SlotStateName(slot->state),
                     slot->stream_id == 0 ? ", its agent out of reach" : "",
                     ": only a running node can be restarted"));
  }
  slot->restart_asked = true;
  effects->stop.push_back({slot->stream_id, std::string(reason), /*now=*/false, /*restart=*/true});
  effects->changed.push_back(executor_id);
  return absl::OkStatus();
}

bool ReservationTable::IsOnlyHost(absl::string_view host) const {
  return std::all_of(slots_.begin(), slots_.end(),
                     [&](const Slot& slot) { return slot.host.empty() || slot.host == host; });
}

// For an agent that would replace one that failed.
absl::Status ReservationTable::CheckHost(const Slot& slot, const AgentInfo& agent) const {
  if (slot.state != SlotState::kFailed && slot.state != SlotState::kLost) return absl::OkStatus();
  const absl::Duration now = clock_->SteadyNow();
  if (slot.policy->max_restarts == 0 || !quarantine_.IsClosed(agent.host, now)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      quarantine_.policy().failures, " failures in ", Seconds(quarantine_.policy().window),
      " on host ", EscapeControls(agent.host), ": no restarts there for another ",
      Seconds(quarantine_.Until(agent.host) - now)));
}

std::vector<QuarantinedHost> ReservationTable::Quarantined() const {
  std::vector<QuarantinedHost> hosts;
  const absl::Duration now = clock_->SteadyNow();
  for (const HostQuarantine::Entry& entry : quarantine_.Closed(now)) {
    hosts.push_back({entry.host, clock_->Now() + (entry.until - now)});
  }
  return hosts;
}

}  // namespace millrace
