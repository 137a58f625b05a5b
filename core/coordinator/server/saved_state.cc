#include "core/coordinator/server/saved_state.h"

#include <algorithm>
#include <string>

#include "core/coordinator/view/wire_conversion.h"
#include "core/process/exit_status.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

v1::FailureRecord ToFailureRecord(const NodeFailure& failure) {
  v1::FailureRecord record;
  *record.mutable_error() = ToErrorProto(failure.status);
  if (failure.exit.kind == ExitStatus::Kind::kExited) record.set_exit_code(failure.exit.code);
  if (failure.exit.kind == ExitStatus::Kind::kSignaled) record.set_exit_signal(failure.exit.signal);
  record.set_of_agent(failure.of_agent);
  record.set_pid(failure.pid);
  for (const std::string& line : failure.stderr_tail) record.add_stderr_tail(line);
  record.set_unexplained(failure.unexplained);
  record.set_consequence(failure.consequence);
  record.set_no_restart(failure.no_restart);
  for (const std::string& text : failure.earlier_attempts) record.add_earlier_attempts(text);
  return record;
}

NodeFailure ToFailure(const v1::FailureRecord& record) {
  NodeFailure failure;
  failure.status = FromErrorProto(record.error());
  if (record.exit_case() == v1::FailureRecord::kExitCode) {
    failure.exit = {.kind = ExitStatus::Kind::kExited, .code = record.exit_code()};
  } else if (record.exit_case() == v1::FailureRecord::kExitSignal) {
    failure.exit = {.kind = ExitStatus::Kind::kSignaled, .signal = record.exit_signal()};
  }
  failure.of_agent = record.of_agent();
  failure.pid = record.pid();
  failure.stderr_tail = {record.stderr_tail().begin(), record.stderr_tail().end()};
  failure.unexplained = record.unexplained();
  failure.consequence = record.consequence();
  failure.no_restart = record.no_restart();
  failure.earlier_attempts = {record.earlier_attempts().begin(), record.earlier_attempts().end()};
  return failure;
}

}  // namespace

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
  record.set_agent_gone(slot.agent_gone);
  record.set_restart_asked(slot.restart_asked);
  if (slot.failure.has_value()) {
    *record.mutable_failure() = ToFailureRecord(*slot.failure);
    *record.mutable_failure()->mutable_first_sign() = TimeToProto(slot.first_sign);
  }
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
  slot.agent_gone = record.agent_gone();
  slot.restart_asked = record.restart_asked();
  if (record.has_failure()) {
    slot.failure = ToFailure(record.failure());
    slot.first_sign = TimeFromProto(record.failure().first_sign());
  }
  return slot;
}

v1::SlotRecord RecordOf(const StateImage& image, int executor_id) {
  const auto slot = image.slots().find(executor_id);
  return slot == image.slots().end() ? v1::SlotRecord() : slot->second;
}

AgentTicket::Standing StandingOf(const StateImage& image, int executor_id) {
  using Standing = AgentTicket::Standing;
  const bool over = image.cancel().has_value() ||
                    std::any_of(image.slots().begin(), image.slots().end(),
                                [](const auto& slot) { return slot.second.has_failure(); });
  const v1::SlotRecord record = RecordOf(image, executor_id);
  // Where nothing is to be started any more, something may have been; and what was found is there.
  const bool taken = over || record.stop_asked() || !record.place().empty();
  const Standing open = taken ? Standing::kTaken : Standing::kNew;
  if (record.nonce().empty()) return open;
  if (!record.agent_gone()) return Standing::kTaken;
  if (record.state() == v1::SLOT_STATE_FINISHED || record.has_failure()) return Standing::kEnded;
  return over || record.stop_asked() ? Standing::kTaken : Standing::kReplaced;
}

}  // namespace millrace
