#include "testing/simulation/checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace millrace::simulation {
namespace {

std::string Text(const SlotStatus& slot) {
  return absl::StrCat(SlotStateName(slot.state), ", attempt ", slot.attempt, ", agent ",
                      slot.agent_pid, ", node ", slot.node_pid, slot.attached ? "" : ", detached",
                      slot.stopped ? ", stopped" : "", slot.stop_asked ? ", asked to stop" : "",
                      slot.has_feed ? ", fed" : "", slot.restart_at.has_value() ? ", due" : "",
                      slot.error.ok() ? "" : ", ", slot.error.ok() ? "" : slot.error.message());
}

bool IsUnreached(SlotState state) {
  return state == SlotState::kFailed || state == SlotState::kLost;
}

}  // namespace

Checks::Checks(const Plan& plan, EventQueue* queue, Trace* trace)
    : plan_(plan), queue_(queue), trace_(trace), slots_(plan.nodes) {}

std::string Checks::Name(int executor) const { return plan_.options.roles[executor].ToString(); }

void Checks::Fail(absl::string_view rule, const std::string& text) {
  if (violation_.has_value()) return;
  violation_ = {std::string(rule), text};
  trace_->Add(queue_->now(), "VIOLATION: ", rule, ": ", text);
}

// ---- messages -----------------------------------------------------------------------------------

void Checks::OnStream(int executor, uint64_t connection, int64_t agent_pid,
                      const ControlPlane& plane) {
  const SlotStatus now = plane.Snapshot().slots[executor];
  if (now.attached && now.agent_pid == agent_pid) slots_[executor].connection = connection;
}

Checks::Fence Checks::BeforeMessage(int executor, uint64_t connection,
                                    const v1::AgentMessage& message, const ControlPlane& plane) {
  if (message.message_case() == v1::AgentMessage::MESSAGE_NOT_SET) return {};  // too many
  const Slot& slot = slots_[executor];
  const bool past = !slot.status.attached || slot.connection != connection ||
                    (message.has_node() && message.node().attempt() < slot.status.attempt);
  if (!past) return {};
  return {executor, plane.Snapshot().slots[executor]};
}

void Checks::AfterMessage(const Fence& fence, const ControlPlane& plane) {
  if (fence.executor < 0) return;
  const std::string before = Text(fence.before);
  const std::string after = Text(plane.Snapshot().slots[fence.executor]);
  if (before == after) return;
  Fail("a fenced message changes nothing",
       absl::StrCat(Name(fence.executor), " was ", before, "; is ", after));
}

void Checks::OnDriver() {
  for (Slot& slot : slots_) {
    slot.connection = 0;
    slot.resumed = true;
  }
}

// ---- nodes --------------------------------------------------------------------------------------

void Checks::OnNodeStarted(int executor, uint32_t attempt, int64_t pid,
                           std::function<bool()> excused) {
  Slot& slot = slots_[executor];
  for (const LiveNode& other : slot.live) {
    if (other.excused() || excused()) continue;
    Fail("one live attempt per slot",
         absl::StrCat(Name(executor), ": attempt ", attempt, " begins while attempt ",
                      other.attempt, " (pid ", other.pid, ") lives"));
  }
  if (!slot.started.insert(attempt).second) {
    Fail("an attempt begins once", absl::StrCat(Name(executor), ": attempt ", attempt));
  }
  slot.live.push_back({attempt, pid, std::move(excused)});
}

void Checks::OnNodeEnded(int executor, int64_t pid) {
  std::erase_if(slots_[executor].live, [&](const LiveNode& node) { return node.pid == pid; });
}

int Checks::LiveNodes() const {
  int live = 0;
  for (const Slot& slot : slots_) live += static_cast<int>(slot.live.size());
  return live;
}

// ---- slots --------------------------------------------------------------------------------------

void Checks::OnSlot(const SlotStatus& now) {
  Slot& slot = slots_[now.executor_id];
  const SlotStatus before = std::exchange(slot.status, now);
  if (before.state == now.state && before.attempt == now.attempt) return;
  trace_->Add(queue_->now(), Name(now.executor_id), ": ", Text(now));
  const std::string text =
      absl::StrCat(Name(now.executor_id), " was ", Text(before), "; is ", Text(now));
  if (now.attempt < before.attempt || now.attempt > before.attempt + 1) {
    Fail("attempts grow by one", text);
  }
  if (now.attempt > before.attempt && std::exchange(slot.ran, false)) ++slot.restarts;
  slot.ran = slot.ran || now.state == SlotState::kRunning;
  if (slot.restarts > now.max_restarts + slot.asked_restarts) {
    Fail("restarts stay within their budget",
         absl::StrCat(text, ": ", slot.restarts, " of ", now.max_restarts));
  }
  // A driver that takes over hears from the agents how far they are.
  const bool resumed = std::exchange(slot.resumed, false);
  const bool again = now.attempt == before.attempt && now.state < before.state && !resumed;
  // One that had failed, came back and ended well is the cluster's failure all the same.
  const bool failed_before = resumed && IsUnreached(now.state);
  if ((before.state == SlotState::kFinished && !failed_before) ||
      (again && !IsUnreached(before.state))) {
    Fail("a slot climbs its ladder", text);
  }
}

void Checks::OnSpec(int executor, uint64_t before, uint64_t after, const absl::Status& applied) {
  if (!applied.ok()) {
    Fail("spec changes follow on each other",
         absl::StrCat(Name(executor), " at epoch ", before, ": ", applied.ToString()));
  }
  if (after < before) {
    Fail("epochs grow", absl::StrCat(Name(executor), " was at ", before, ", is at ", after));
  }
}

// ---- causes -------------------------------------------------------------------------------------

void Checks::OnFaultOfAll() {
  for (Slot& slot : slots_) slot.faulted = true;
}

void Checks::OnFirstCause(const NodeFailure& cause, bool anyone_lives, bool driver_stopped) {
  const Slot& slot = slots_[cause.executor_id];
  const std::string text = FailureText(cause, 0);
  trace_->Add(queue_->now(), "the first cause: ", text);
  if (plan_.options.failure.restart.max_restarts > 0) return;
  if (slot.echo_of < 0 || !cause.consequence) {
    if (!slot.faulted) Fail("the first cause is a fault", text);
    return;
  }
  if (slot.faulted) return;
  const SlotStatus& root = slots_[slot.echo_of].status;
  const absl::Duration waited = queue_->clock()->SteadyNow() - cause.first_sign;
  const absl::Duration patience = plan_.options.lost_after + plan_.options.heartbeat_interval;
  const bool missing =
      !root.attached && root.state >= SlotState::kConnected && root.state <= SlotState::kDraining;
  if (IsUnreached(root.state) || missing) {
    Fail("the first cause is no consequence",
         absl::StrCat(text, "; but ", Name(slot.echo_of), " is ", Text(root)));
  } else if (anyone_lives && !driver_stopped && waited < patience - absl::Milliseconds(1)) {
    Fail("a consequence waits for its cause",
         absl::StrCat(text, ", after ", absl::FormatDuration(waited)));
  }
}

}  // namespace millrace::simulation
