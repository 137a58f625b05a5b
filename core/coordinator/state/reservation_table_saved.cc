// What a ReservationTable takes over from an earlier one.

#include <algorithm>
#include <utility>

#include "core/base/log.h"
#include "core/coordinator/state/reservation_table.h"

namespace millrace {

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
          .failure = slot.failed_for_good ? slot.error : absl::OkStatus()};
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
  // Another agent must not have the slot before the lease of this one is over.
  slot.agent_dead = saved.state == SlotState::kFinished;
  slot.lease_until = now + options_.lease;
  switch (saved.state) {
    case SlotState::kFinished:
      Move(slot, SlotState::kFinished, effects);
      break;
    case SlotState::kFailed:
      slot.error = saved.failure;
      Move(slot, SlotState::kFailed, effects);
      if (!saved.failure.ok()) {
        slot.failed_for_good = true;
        effects->failures.push_back(Describe(slot, saved.failure));
      } else if (!slot.stop_asked) {
        slot.restart_at = now + options_.lost_after;
      }
      break;
    case SlotState::kLost:
      if (!saved.failure.ok()) {
        slot.error = saved.failure;
        slot.failed_for_good = true;
        Move(slot, SlotState::kLost, effects);
        effects->failures.push_back(Describe(slot, saved.failure));
        break;
      }
      [[fallthrough]];  // its agent may come back yet
    default:
      // The agent's own report takes it on from here.
      Move(slot,
           saved.state == SlotState::kConnected ? SlotState::kConnected : SlotState::kRegistered,
           effects);
  }
  slot.ever_ran = saved.ever_ran;
}

void ReservationTable::RestoreSpec(uint64_t epoch) {
  if (epoch == 0) return;
  for (const Slot& slot : slots_) {
    MILLRACE_CHECK(spec_.SetTask(slot.role.job_name, slot.role.task_index, slot.address).ok());
  }
  epoch_ = epoch + 1;
}

}  // namespace millrace
