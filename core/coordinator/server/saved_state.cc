#include "core/coordinator/server/saved_state.h"

#include "core/coordinator/view/wire_conversion.h"

namespace millrace {

v1::SlotRecord ToSlotRecord(int executor_id, const SavedSlot& slot) {
  v1::SlotRecord record;
  record.set_executor_id(executor_id);
  // Their numbers differ by the unspecified one.
  record.set_state(static_cast<v1::SlotState>(static_cast<int>(slot.state) + 1));
  record.set_attempt(slot.attempt);
  record.set_nonce(slot.nonce);
  record.set_agent_id(slot.agent_id);
  record.set_host(slot.host);
  record.set_address(slot.address);
  record.set_agent_pid(slot.agent_pid);
  record.set_ever_ran(slot.ever_ran);
  record.set_restarts(slot.restarts);
  record.set_stop_asked(slot.stop_asked);
  record.set_stop_now(slot.stop_now);
  record.set_stop_reason(slot.stop_reason);
  if (!slot.failure.ok()) *record.mutable_failure() = ToErrorProto(slot.failure);
  return record;
}

SavedSlot ToSavedSlot(const v1::SlotRecord& record) {
  SavedSlot slot;
  slot.state = static_cast<SlotState>(static_cast<int>(record.state()) - 1);
  slot.attempt = record.attempt();
  slot.nonce = record.nonce();
  slot.agent_id = record.agent_id();
  slot.host = record.host();
  slot.address = record.address();
  slot.agent_pid = record.agent_pid();
  slot.ever_ran = record.ever_ran();
  slot.restarts = record.restarts();
  slot.stop_asked = record.stop_asked();
  slot.stop_now = record.stop_now();
  slot.stop_reason = record.stop_reason();
  if (record.has_failure()) slot.failure = FromErrorProto(record.failure());
  return slot;
}

}  // namespace millrace
