// What a ReservationTable takes over from an earlier one.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/log.h"
#include "core/coordinator/state/reservation_table.h"

namespace millrace {
namespace {

void RestoreFailure(const NodeFailure& saved, NodeFailure* failure) {
  failure->exit = saved.exit;
  failure->of_agent = saved.of_agent;
  failure->pid = saved.pid;
  failure->stderr_tail = saved.stderr_tail;
  failure->unexplained = saved.unexplained;
  failure->consequence = saved.consequence;
  failure->no_restart = saved.no_restart;
  failure->earlier_attempts = saved.earlier_attempts;
}

}  // namespace

SavedSlot ReservationTable::Save(int executor_id) const {
  const Slot& slot = slots_[executor_id];
  return {.state = slot.state,
          .attempt = slot.attempt,
          .nonce = slot.nonce,
          .agent_id = slot.agent_id,
          .host = slot.host,
          .address = slot.address,
          .agent_pid = slot.agent_pid,
          .ever_ran = slot.ever_ran,
          .restarts = static_cast<int>(slot.restarts.size()),
          .stop_asked = slot.stop_asked,
          .stop_now = slot.stop_now,
          .stop_reason = slot.stop_reason,
          .agent_gone = slot.agent_dead,
          .restart_asked = slot.restart_asked,
          .failure = slot.fatal == nullptr ? std::nullopt : std::optional(*slot.fatal),
          .first_sign = slot.fatal_sign};
}

void ReservationTable::Restore(int executor_id, const SavedSlot& saved, TableEffects* effects) {
  Slot* const found = Find(executor_id);
  if (found == nullptr) return;
  Slot& slot = *found;
  const absl::Duration now = clock_->SteadyNow();
  slot.stop_asked = saved.stop_asked;
  slot.stop_now = saved.stop_now;
  slot.stop_reason = saved.stop_reason;
  if (saved.nonce.empty()) return;
  slot.attempt = saved.attempt;
  slot.nonce = saved.nonce;
  slot.agent_id = saved.agent_id;
  slot.host = saved.host;
  slot.address = saved.address;
  slot.agent_pid = saved.agent_pid;
  slot.restarts.assign(saved.restarts, now);
  by_agent_.insert_or_assign(slot.agent_id, executor_id);
  // Another agent must not have the slot before the lease of this one is over. Nothing of one whose
  // node has finished is waited for, but it may be there.
  slot.agent_dead = saved.agent_gone;
  slot.lease_until = saved.state == SlotState::kFinished ? now : now + options_.lease;
  slot.ever_ran = saved.ever_ran;
  slot.restart_asked = saved.restart_asked;
  if (saved.failure.has_value()) {
    slot.error = saved.failure->status;
    slot.failed_for_good = true;
    slot.fatal = std::make_unique<NodeFailure>(Describe(slot, saved.failure->status));
    RestoreFailure(*saved.failure, slot.fatal.get());
    slot.fatal_sign = saved.first_sign;
    slot.fatal->first_sign = now - std::max(clock_->Now() - saved.first_sign, absl::ZeroDuration());
    first_failure_ = std::min(first_failure_, now);
    Move(slot, saved.state == SlotState::kLost ? SlotState::kLost : SlotState::kFailed, effects);
    effects->failures.push_back(*slot.fatal);
    return;
  }
  if (saved.state == SlotState::kFinished) {
    Move(slot, SlotState::kFinished, effects);
    return;
  }
  // Its agent's own report takes it on, if that comes.
  const SlotState again =
      saved.state == SlotState::kConnected ? SlotState::kConnected : SlotState::kRegistered;
  if (saved.state == SlotState::kFailed || slot.agent_dead) {
    // What was to replace it, or is about to, comes in its own time, or is asked for again.
    slot.before_lost = again;  // an agent that was sent away may not have heard of it
    Move(slot, saved.state == SlotState::kFailed ? SlotState::kFailed : SlotState::kLost, effects);
    if (!slot.stop_asked) slot.restart_at = now + options_.lost_after;
    return;
  }
  Move(slot, again, effects);  // also of one that was lost, which may come back yet
}

void ReservationTable::RestoreSpec(uint64_t epoch) {
  if (epoch == 0) return;
  for (const Slot& slot : slots_) {
    MILLRACE_CHECK(spec_.SetTask(slot.role.job_name, slot.role.task_index, slot.address).ok());
  }
  epoch_ = epoch + 1;
}

}  // namespace millrace
