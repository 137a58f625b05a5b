// Streams, effects and time. What agents say is in control_plane_agents.cc, what the driver asks in
// control_plane_driver.cc.

#include "core/coordinator/server/control_plane.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxFeederKeysPerMessage = 4096;

// Peers notice within that time that another node's connections broke, and end; that one may take
// as long.
constexpr absl::Duration kUnexplainedWait = absl::Milliseconds(500);
// How long the end of an agent waits for the end of its stream, which says how its node ended.
constexpr absl::Duration kLastWords = absl::Seconds(2);

TableOptions ToTableOptions(const CoordinatorOptions& options, Clock* clock) {
  TableOptions table;
  table.roles = options.roles;
  table.lost_after = options.lost_after;
  table.lease = options.lease;
  table.stop_timeout = options.node.stop_timeout;
  table.restart = options.restart;
  table.restarts = options.restarts;
  table.quarantine = options.quarantine;
  table.clock = clock;
  return table;
}

// A deadline that comes up while the timer sleeps is at least twice as far away. A second at most,
// so that a jump of the wall clock, by which waits are timed, delays nothing for long.
absl::Duration LongestSleep(const CoordinatorOptions& options) {
  return std::min(
      {absl::Seconds(1), options.lost_after / 2, options.lease / 2, options.node.stop_timeout / 2});
}

// A sample each heartbeat, but of large clusters no more than `kMaxSamplesPerSecond` altogether.
absl::Duration SampleInterval(absl::Duration heartbeat_interval, int slots) {
  constexpr double kMaxSamplesPerSecond = 2500;
  return std::max(heartbeat_interval, absl::Seconds(slots / kMaxSamplesPerSecond));
}

std::vector<int> FedNodes(const CoordinatorOptions& options) {
  std::vector<int> ids;
  for (size_t i = 0; i < options.roles.size(); ++i) {
    if (IsFedRole(options.roles[i].job_name)) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

std::map<int, std::string> FedNames(const CoordinatorOptions& options) {
  std::map<int, std::string> names;
  for (const int id : FedNodes(options)) names[id] = options.roles[id].ToString();
  return names;
}

}  // namespace

ControlPlane::ControlPlane(const CoordinatorOptions& options, v1::NodeSpec node_spec,
                           const CertificateAuthority* ca, ViewStore* view,
                           ClusterRecorder* recorder)
    : options_(options),
      fed_nodes_(FedNodes(options)),
      node_spec_(std::move(node_spec)),
      ca_(ca),
      longest_sleep_(LongestSleep(options)),
      attended_(options.clock, 2 * longest_sleep_),
      clock_(&attended_),
      view_(view),
      recorder_(recorder),
      started_at_(clock_->SteadyNow()),
      observer_(options.observer),
      table_(ToTableOptions(options, clock_)),
      barriers_(FedNames(options)),
      // Fed programs use the SDK, and say why they end.
      causes_({.echo = options.lost_after + options.heartbeat_interval,
               .unexplained = options.node.input_mode == InputMode::kDirect
                                  ? kUnexplainedWait
                                  : absl::ZeroDuration()}),
      nodes_(options.roles.size()),
      timer_wakes_at_(started_at_) {
  {
    MutexLock lock(&output_gate_->mu);
    output_gate_->plane = this;
  }
  {
    MutexLock lock(&mu_);
    for (int id = 0; id < table_.size(); ++id) recorder_->Slot(StatusOf(id));
  }
  timer_ = Thread("coord-timer", [this] { RunTimer(); });
}

void ControlPlane::Do(absl::FunctionRef<void(TableEffects*)> body) {
  Streams streams;
  {
    MutexLock lock(&mu_);
    TableEffects effects;
    body(&effects);
    Perform(effects);
    streams.swap(to_flush_);
  }
  for (const std::shared_ptr<AttachStream>& stream : streams) stream->Flush();
}

void ControlPlane::Perform(TableEffects& effects) {
  for (const TableEffects::CloseStream& close : effects.close) {
    auto it = streams_.find(close.stream_id);
    if (it == streams_.end()) continue;
    it->second.stream->Close(close.status);
    to_flush_.push_back(it->second.stream);
    DropStream(close.stream_id);
  }
  PerformSpec(effects);
  for (const TableEffects::StopNode& stop : effects.stop) {
    v1::CoordinatorMessage message;
    message.mutable_stop()->set_reason(stop.reason);
    message.mutable_stop()->set_now(stop.now);
    message.mutable_stop()->set_restart(stop.restart);
    Send(stop.stream_id, message);
  }
  PerformSlots(effects);
  for (const TableEffects::StartNode& start : effects.start) {
    v1::CoordinatorMessage message;
    message.mutable_start()->set_attempt(start.attempt);
    message.mutable_start()->set_nonce(start.nonce);
    Send(start.stream_id, message);
    if (IsFedRole(options_.roles[start.executor_id].job_name)) SendFeedState(start.stream_id);
  }
  for (const int id : effects.relaunch) observer_.PostRelaunch(id);
  for (const NodeRestart& restart : effects.restarts) {
    MILLRACE_LOG(INFO) << RestartText(restart);
    observer_.PostRestart(restart);
    recorder_->Restart(restart.failure, restart.after, restart.used, restart.max);
  }
  for (NodeFailure& failure : effects.failures) {
    MILLRACE_LOG(INFO) << FailureText(failure, 0);
    recorder_->Failure(failure, causes_.cause() != nullptr);
    causes_.Record(std::move(failure), clock_->SteadyNow());
  }
  Settle();
  recorder_->Counters(table_.fenced_updates(), table_.illegal_updates());
  if (effects.empty()) return;
  if (!effects.restarts.empty() || !effects.failures.empty()) {
    recorder_->Quarantined(table_.Quarantined());
  }
  changed_.SignalAll();
}

void ControlPlane::PerformSpec(const TableEffects& effects) {
  for (const TableEffects::Change& change : effects.changes) {
    v1::CoordinatorMessage message;
    v1::SpecUpdate* update = message.mutable_spec();
    update->set_epoch(change.epoch);
    v1::TaskChange* task = update->add_changes();
    task->set_job_name(change.role.job_name);
    task->set_task_index(change.role.task_index);
    task->set_address(change.address);
    task->set_attempt(change.attempt);
    const grpc::ByteBuffer bytes = SerializeMessage(message);
    for (const auto& [id, stream] : streams_) {
      const bool gets_all = std::find(effects.whole_spec.begin(), effects.whole_spec.end(), id) !=
                            effects.whole_spec.end();
      if (stream.registered && !gets_all) SendBytes(id, bytes);
    }
  }
  for (const uint64_t id : effects.whole_spec) SendBytes(id, WholeSpec());
  if (recorded_epoch_ == 0 && table_.epoch() > 0) {
    recorded_epoch_ = table_.epoch();
    recorder_->Spec(table_.spec(), recorded_epoch_);
  }
  for (const TableEffects::Change& change : effects.changes) {
    if (change.epoch <= recorded_epoch_) continue;
    recorded_epoch_ = change.epoch;
    recorder_->SpecChange(change.role, change.address, change.attempt, change.epoch);
  }
}

void ControlPlane::PerformSlots(const TableEffects& effects) {
  for (const int id : effects.ended) {
    const SlotState state = table_.state(id);
    // What the attempt still waits for goes to nobody; its request ids come again.
    kv_.DropOwner(table_.stream(id));
    barriers_.DropOwner(table_.stream(id));
    if (table_.AwaitsReplacement(id)) {
      // The others wait for the next attempt.
      barriers_.Returned(id);
      continue;
    }
    ReplyBarrier(barriers_.Ended(
        id, IsEnded(state)
                ? absl::StrCat(state == SlotState::kLost ? "was " : "has ", SlotStateName(state))
                : "was lost"));
  }
  for (const int id : effects.replaced) {
    kv_.DropOwner(table_.stream(id));
    barriers_.Returned(id);
    if (nodes_[id].attempt != table_.attempt(id)) nodes_[id] = {.attempt = table_.attempt(id)};
  }
  std::vector<int> changed = effects.changed;
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  for (const int id : changed) {
    SlotStatus status = StatusOf(id);
    recorder_->Slot(status);
    observer_.PostSlot(std::move(status));
  }
  if (!all_ran_ && table_.AllRan()) {
    all_ran_ = true;
    recorder_->AllRunning();
  }
}

void ControlPlane::Settle() {
  if (causes_.NextDeadline() == absl::InfiniteDuration()) return;
  const absl::Duration now = clock_->SteadyNow();
  if (causes_.NextDeadline() > now && table_.AnyoneLives()) {
    WakeTimerFor(causes_.NextDeadline());
    return;
  }
  if (!causes_.Settle(now, {.missing = table_.AnyoneMissing(), .live = table_.AnyoneLives()}))
    return;
  observer_.PostFailure(causes_.status());
  recorder_->FirstCause(*causes_.cause(), causes_.folded());
  changed_.SignalAll();
}

void ControlPlane::SendBytes(uint64_t stream_id, const grpc::ByteBuffer& bytes) {
  auto it = streams_.find(stream_id);
  if (it == streams_.end()) return;
  it->second.stream->Enqueue(bytes);
  if (to_flush_.empty() || to_flush_.back() != it->second.stream) {
    to_flush_.push_back(it->second.stream);
  }
}

void ControlPlane::Send(uint64_t stream_id, const v1::CoordinatorMessage& message) {
  SendBytes(stream_id, SerializeMessage(message));
}

void ControlPlane::SendToFed(const v1::CoordinatorMessage& message) {
  const grpc::ByteBuffer bytes = SerializeMessage(message);
  for (const auto& [id, stream] : streams_) {
    if (stream.registered && IsFedRole(options_.roles[stream.executor_id].job_name)) {
      SendBytes(id, bytes);
    }
  }
}

const grpc::ByteBuffer& ControlPlane::WholeSpec() {
  if (whole_spec_epoch_ != table_.epoch()) {
    v1::CoordinatorMessage message;
    *message.mutable_spec() = MakeSpecUpdate(table_.spec(), table_.epoch());
    whole_spec_ = SerializeMessage(message);
    whole_spec_epoch_ = table_.epoch();
  }
  return whole_spec_;
}

void ControlPlane::DropStream(uint64_t stream_id) {
  streams_.erase(stream_id);
  kv_.DropOwner(stream_id);
  barriers_.DropOwner(stream_id);
}

ControlPlane::Node& ControlPlane::NodeOf(int executor_id) {
  Node& node = nodes_[executor_id];
  if (node.attempt != table_.attempt(executor_id)) {
    node = {.attempt = table_.attempt(executor_id)};
  }
  return node;
}

SlotStatus ControlPlane::StatusOf(int executor_id) const {
  SlotStatus status = table_.Status(executor_id);
  const Node& node = nodes_[executor_id];
  status.has_feed = node.attempt == status.attempt && node.feed.has_value();
  return status;
}

// ---- streams ------------------------------------------------------------------------------------

absl::StatusOr<uint64_t> ControlPlane::Register(const std::shared_ptr<AttachStream>& stream,
                                                const v1::Register& message) {
  if (absl::Status valid = CheckRegister(message); !valid.ok()) return valid;
  std::optional<NodeReport> node;
  if (message.has_node()) {
    absl::StatusOr<NodeReport> report = ToNodeReport(message.node());
    if (!report.ok()) return report.status();
    node = *std::move(report);
  }
  std::optional<int> executor_id;
  if (message.has_executor_id()) executor_id = message.executor_id();
  const AgentInfo agent = {message.agent_id(), message.host(), message.pid(), message.address()};

  uint64_t id = 0;
  absl::StatusOr<Admission> admission = absl::CancelledError("the coordinator shuts down");
  Do([&](TableEffects* effects) {
    if (shut_down_) return;
    id = next_stream_id_++;
    admission = table_.Connect(executor_id, agent, id, effects);
    if (admission.ok()) streams_[id] = {stream, admission->executor_id, false};
  });
  if (!admission.ok()) return admission.status();

  // Signing takes CPU: not under the lock. Until it is done the slot is connected.
  absl::StatusOr<std::string> certificate = ca_->SignNodeKey(
      message.public_key(),
      absl::StrCat(admission->role.job_name, "-", admission->role.task_index, ".node.millrace"));
  if (!certificate.ok()) {
    StreamEnded(id);
    return certificate.status();
  }
  bool registered = false;
  Do([&](TableEffects* effects) {
    registered = table_.Registered(admission->executor_id, id, effects);
    if (!registered) return;
    SendRegistered(id, *admission, *std::move(certificate));  // before what the effects send
    if (node.has_value()) table_.Update(id, *node, effects);
  });
  if (!registered) return absl::AbortedError("replaced by a newer stream of the same agent");
  return id;
}

void ControlPlane::SendRegistered(uint64_t stream_id, const Admission& admission,
                                  std::string certificate_pem) {
  auto it = streams_.find(stream_id);
  if (it == streams_.end()) return;
  it->second.registered = true;
  v1::CoordinatorMessage message;
  v1::Registered* registered = message.mutable_registered();
  registered->set_cluster_id(options_.cluster_id);
  registered->set_executor_id(admission.executor_id);
  registered->set_job_name(admission.role.job_name);
  registered->set_task_index(admission.role.task_index);
  registered->set_attempt(admission.attempt);
  registered->set_nonce(admission.nonce);
  registered->set_certificate_pem(std::move(certificate_pem));
  *registered->mutable_node() = node_spec_;
  *registered->mutable_heartbeat_interval() = DurationToProto(options_.heartbeat_interval);
  *registered->mutable_sample_interval() =
      DurationToProto(SampleInterval(options_.heartbeat_interval, table_.size()));
  *registered->mutable_lease() = DurationToProto(options_.lease);
  registered->set_restarts(table_.Status(admission.executor_id).max_restarts > 0);
  Send(stream_id, message);
  if (IsFedRole(admission.role.job_name)) SendFeedState(stream_id);
}

// What a node that begins has missed.
void ControlPlane::SendFeedState(uint64_t stream_id) {
  for (const v1::FeedEnd& feed_end : feed_ends_) {
    v1::CoordinatorMessage again;
    *again.mutable_feed_end() = feed_end;
    Send(stream_id, again);
  }
  for (const std::string& queue : ended_queues_) {
    v1::CoordinatorMessage again;
    again.mutable_end_feed()->set_queue(queue);
    Send(stream_id, again);
  }
  v1::CoordinatorMessage keys;
  auto& by_principal = *keys.mutable_feeder_keys()->mutable_keys();
  for (const auto& [principal, key] : feeder_keys_) {
    by_principal[principal] = key;
    if (by_principal.size() == kMaxFeederKeysPerMessage) {
      Send(stream_id, keys);
      by_principal.clear();
    }
  }
  if (!by_principal.empty()) Send(stream_id, keys);
}

void ControlPlane::StreamEnded(uint64_t stream_id) {
  Do([&](TableEffects* effects) {
    if (shut_down_) return;
    table_.StreamLost(stream_id, effects);
    DropStream(stream_id);
    TellHeldExits(effects);
  });
}

void ControlPlane::AgentExited(const AgentExit& exit) {
  Do([&](TableEffects* effects) {
    if (HoldExit(exit)) {
      const absl::Duration due = clock_->SteadyNow() + kLastWords;
      held_exits_.push_back({exit, table_.stream(exit.executor_id), due});
      WakeTimerFor(due);
    } else {
      table_.AgentExited(exit, effects);
    }
  });
}

void ControlPlane::AgentAwaited(int executor_id, absl::string_view why) {
  Do([&](TableEffects* effects) { table_.AgentAwaited(executor_id, why, effects); });
}

bool ControlPlane::HoldExit(const AgentExit& exit) const {
  // Only one that ended by itself has said all it had to say.
  if (shut_down_ || exit.exit.kind != ExitStatus::Kind::kExited || !exit.status.ok() ||
      !table_.Has(exit.executor_id)) {
    return false;
  }
  return table_.stream(exit.executor_id) != 0 && !IsEnded(table_.state(exit.executor_id));
}

void ControlPlane::TellHeldExits(TableEffects* effects) {
  const absl::Duration now = clock_->SteadyNow();
  std::vector<HeldExit> held;
  held.swap(held_exits_);
  for (HeldExit& one : held) {
    if (table_.stream(one.exit.executor_id) == one.stream_id && now < one.due) {
      held_exits_.push_back(std::move(one));
    } else {
      table_.AgentExited(one.exit, effects);
    }
  }
}

void ControlPlane::Shutdown() {
  Do([&](TableEffects* /*effects*/) {
    if (shut_down_) return;
    shut_down_ = true;
    recorder_->Ended();
    for (const auto& [id, stream] : streams_) {
      stream.stream->Close(absl::CancelledError("the coordinator shuts down"));
      to_flush_.push_back(stream.stream);
    }
    streams_.clear();
    changed_.SignalAll();
    timer_wake_.SignalAll();
  });
  {
    MutexLock lock(&output_gate_->mu);
    output_gate_->plane = nullptr;
  }
  MutexLock lock(&join_mu_);
  timer_.Join();
  observer_.Stop();
}

// ---- time ---------------------------------------------------------------------------------------

void ControlPlane::WakeTimerFor(absl::Duration deadline) {
  if (deadline < timer_wakes_at_) timer_wake_.Signal();
}

void ControlPlane::RunTimer() {
  for (;;) {
    {
      MutexLock lock(&mu_);
      if (shut_down_) return;
      const absl::Duration now = clock_->SteadyNow();
      absl::Duration next = std::min({table_.NextDeadline(), kv_.NextDeadline(),
                                      barriers_.NextDeadline(), causes_.NextDeadline()});
      for (const HeldExit& one : held_exits_) next = std::min(next, one.due);
      const absl::Duration sleep = std::clamp(next - now, absl::Milliseconds(1), longest_sleep_);
      timer_wakes_at_ = now + sleep;
      timer_wake_.WaitWithTimeout(&mu_, sleep);
      if (shut_down_) return;
    }
    Do([&](TableEffects* effects) {
      if (shut_down_) return;
      TellHeldExits(effects);
      table_.Tick(effects);
      ReplyKv(kv_.Expire(clock_->SteadyNow()));
      ReplyBarrier(barriers_.Expire(clock_->SteadyNow()));
    });
  }
}

}  // namespace millrace
