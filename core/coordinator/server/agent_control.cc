#include "core/coordinator/server/agent_control.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/spec_proto.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

// How long the end of an agent waits for the end of its stream, which says how its node ended.
constexpr absl::Duration kLastWords = absl::Seconds(2);
constexpr size_t kMaxEndpointBytes = 1024;
constexpr int kMaxOtherEndpoints = 64;
constexpr int kMaxLogLines = 200;
constexpr size_t kMaxLineBytes = 2 << 10;
constexpr size_t kMaxMetricNameBytes = 256;
constexpr size_t kLinesForTimeoutError = 5;
constexpr size_t kMaxDoneQueues = 64;
constexpr int kMaxGpus = 128;
constexpr int kMaxQueues = 64;
constexpr size_t kMaxSampleBytes = size_t{64} << 10;

absl::Status CheckEndpoints(const v1::NodeEndpoints& endpoints) {
  bool ok = endpoints.other_size() <= kMaxOtherEndpoints &&
            endpoints.feed().tcp().size() <= kMaxEndpointBytes &&
            endpoints.feed().ipc().size() <= kMaxEndpointBytes &&
            endpoints.feed().key().size() <= kMaxEndpointBytes &&
            endpoints.feed().curve().size() <= kMaxEndpointBytes &&
            endpoints.feed().curve_key().size() <= kMaxEndpointBytes;
  for (const auto& [name, address] : endpoints.other()) {
    ok = ok && name.size() <= kMaxEndpointBytes && address.size() <= kMaxEndpointBytes;
  }
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("NodeEndpoints: at most ", kMaxOtherEndpoints,
                                                 " names, each text at most ", kMaxEndpointBytes,
                                                 " bytes"));
}

// What a reader may be shown. A sample beyond is a heartbeat all the same: it must not end a node.
bool IsReasonable(const v1::NodeSample& sample) {
  return sample.gpus_size() <= kMaxGpus && sample.queues_size() <= kMaxQueues &&
         sample.ByteSizeLong() <= kMaxSampleBytes;
}

// LogLines within their bounds.
struct LogRecord {
  LogSource from = LogSource::kAgent;
  v1::LogLines::Source source = v1::LogLines::SOURCE_AGENT;
  uint32_t attempt = 0;
  uint64_t dropped = 0;
  std::vector<std::string> lines;
};

LogRecord TakeLog(v1::LogLines* log) {
  LogRecord record;
  if (log->source() == v1::LogLines::SOURCE_STDOUT) record.from = LogSource::kStdout;
  if (log->source() == v1::LogLines::SOURCE_STDERR) record.from = LogSource::kStderr;
  if (record.from != LogSource::kAgent) record.source = log->source();
  record.attempt = log->attempt();
  const int count = std::min(log->lines_size(), kMaxLogLines);
  record.lines.reserve(count);
  for (int i = 0; i < count; ++i) {
    std::string& line = *log->mutable_lines(i);
    record.lines.push_back(line.size() <= kMaxLineBytes ? std::move(line)
                                                        : Ellipsize(line, kMaxLineBytes));
  }
  record.dropped = log->dropped() + static_cast<uint64_t>(log->lines_size() - count);
  return record;
}

// A sample each heartbeat, but of large clusters no more than `kMaxSamplesPerSecond` altogether.
absl::Duration SampleInterval(absl::Duration heartbeat_interval, int slots) {
  constexpr double kMaxSamplesPerSecond = 2500;
  return std::max(heartbeat_interval, absl::Seconds(slots / kMaxSamplesPerSecond));
}

}  // namespace

AgentControl::AgentControl(ControlState* state, RequestControl* requests, FeedControl* feeds,
                           v1::NodeSpec node_spec, NodeKeySigner signer, ViewStore* view)
    : state_(state),
      requests_(requests),
      feeds_(feeds),
      node_spec_(std::move(node_spec)),
      signer_(std::move(signer)),
      view_(view) {
  MutexLock lock(&output_gate_->mu);
  output_gate_->agents = this;
}

absl::StatusOr<uint64_t> AgentControl::Register(const std::shared_ptr<AttachStream>& stream,
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
  AgentInfo agent = {message.agent_id(), message.host(), message.pid(), message.address()};
  if (node.has_value()) agent.attempt = node->attempt;
  agent.spec_epoch = message.spec_epoch();

  uint64_t id = 0;
  absl::StatusOr<Admission> admission = absl::CancelledError("the coordinator shuts down");
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (!state_->fenced.ok()) {  // shut down or not: the agent is to go on to the next driver
      admission = absl::UnavailableError(state_->fenced.message());
      return;
    }
    if (state_->shut_down) return;
    id = state_->next_stream_id++;
    admission = state_->table.Connect(executor_id, agent, id, effects);
    if (!admission.ok()) return;
    state_->streams[id] = {
        .stream = stream,
        .executor_id = admission->executor_id,
        .format = message.takes_columns() ? SpecFormat::kColumns : SpecFormat::kClusterDef};
  });
  if (!admission.ok()) return admission.status();

  // Signing takes CPU: not under the lock. Until it is done the slot is connected.
  absl::StatusOr<std::string> certificate = signer_(
      message.public_key(),
      absl::StrCat(admission->role.job_name, "-", admission->role.task_index, ".node.millrace"));
  if (!certificate.ok()) {
    StreamEnded(id);
    return certificate.status();
  }
  bool registered = false;
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    registered = state_->table.Registered(admission->executor_id, id, effects);
    if (!registered) return;
    SendRegistered(id, *admission, *std::move(certificate));  // before what the effects send
    if (node.has_value()) state_->table.Update(id, *node, effects);
  });
  if (!registered) return absl::AbortedError("replaced by a newer stream of the same agent");
  return id;
}

void AgentControl::SendRegistered(uint64_t stream_id, const Admission& admission,
                                  std::string certificate_pem) {
  auto it = state_->streams.find(stream_id);
  if (it == state_->streams.end()) return;
  it->second.registered = true;
  v1::CoordinatorMessage message;
  v1::Registered* registered = message.mutable_registered();
  registered->set_cluster_id(state_->options.cluster_id);
  registered->set_executor_id(admission.executor_id);
  registered->set_job_name(admission.role.job_name);
  registered->set_task_index(admission.role.task_index);
  registered->set_attempt(admission.attempt);
  registered->set_nonce(admission.nonce);
  registered->set_certificate_pem(std::move(certificate_pem));
  *registered->mutable_node() = node_spec_;
  *registered->mutable_heartbeat_interval() = DurationToProto(state_->options.heartbeat_interval);
  *registered->mutable_sample_interval() =
      DurationToProto(SampleInterval(state_->options.heartbeat_interval, state_->table.size()));
  *registered->mutable_lease() = DurationToProto(state_->options.lease);
  registered->set_restarts(state_->table.Status(admission.executor_id).max_restarts > 0);
  state_->Send(stream_id, message);
  for (const grpc::ByteBuffer& early : std::exchange(it->second.early, {})) {
    it->second.stream->Enqueue(early);
  }
  if (IsFedRole(admission.role.job_name)) state_->SendFeedState(stream_id);
}

absl::Status AgentControl::Handle(uint64_t stream_id, v1::AgentMessage message) {
  using Case = v1::AgentMessage::MessageCase;
  // What can be checked without the lock is.
  std::optional<NodeReport> report;
  switch (message.message_case()) {
    case Case::kRegister:
      return absl::InvalidArgumentError("Register comes once, as the first message of a stream");
    case Case::kNode: {
      absl::StatusOr<NodeReport> parsed = ToNodeReport(message.node());
      if (!parsed.ok()) return parsed.status();
      report = *std::move(parsed);
      break;
    }
    case Case::kEndpoints:
      if (absl::Status valid = CheckEndpoints(message.endpoints()); !valid.ok()) return valid;
      break;
    default:
      break;
  }
  std::optional<int> id;
  uint32_t attempt = 0;
  LogRecord log;
  if (message.has_log()) log = TakeLog(message.mutable_log());
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (state_->shut_down) return;
    if (report.has_value()) {
      state_->table.Update(stream_id, *report, effects);
      if (state_->options.output_window_bytes == 0 || report->kind != NodeReport::Kind::kRunning)
        return;
      id = state_->table.Heard(stream_id);
      // WaitOutput() waits for it.
      if (id.has_value() && report->attempt == state_->table.attempt(*id))
        OutputOf(*id, report->attempt);
      return;
    }
    id = state_->table.Heard(stream_id);
    if (!id.has_value()) return;
    attempt = state_->table.attempt(*id);
    switch (message.message_case()) {
      case Case::kEndpoints:
        HandleEndpoints(*id, message.endpoints(), effects);
        break;
      case Case::kKv:
        requests_->Kv(stream_id, *id, message.kv());
        break;
      case Case::kBarrier:
        requests_->Barrier(stream_id, *id, message.barrier());
        break;
      case Case::kEqualJoin:
        feeds_->JoinEqual(stream_id, *id, message.equal_join());
        break;
      case Case::kEqualRows:
        feeds_->TellEqual(*id, message.equal_rows());
        break;
      case Case::kMetric:
        state_->observer.PostMetric(*id, state_->table.role(*id),
                                    Ellipsize(message.metric().name(), kMaxMetricNameBytes),
                                    message.metric().step(), message.metric().value());
        break;
      case Case::kLog:
        if (state_->table.state(*id) < SlotState::kRunning) {
          const size_t count = log.lines.size();
          const size_t first = count - std::min(count, kLinesForTimeoutError);
          for (size_t i = first; i < count; ++i) state_->table.NoteLog(*id, log.lines[i]);
        }
        if (log.from == LogSource::kStderr && log.attempt == attempt) state_->table.NoteStderr(*id);
        state_->observer.PostOutput(*id, state_->table.role(*id), log.from, log.lines, log.dropped);
        break;
      case Case::kOutput:
        HandleOutput(*id, *message.mutable_output());
        break;
      case Case::kSample:
        HandleSample(*id, message.sample());
        break;
      default:
        break;  // a heartbeat, or something newer than this coordinator
    }
  });
  if (!id.has_value()) return absl::OkStatus();
  // What only readers see does not need the lock. The messages of a stream come one by one, so that
  // it stays in order.
  if (message.has_metric()) {
    v1::MetricReport& metric = *message.mutable_metric();
    view_->AddMetric(*id, attempt, Ellipsize(metric.name(), kMaxMetricNameBytes), metric.step(),
                     metric.value(),
                     metric.has_time() ? TimeFromProto(metric.time()) : state_->clock->Now());
  } else if (message.has_log()) {
    view_->AddLog(*id, log.attempt, log.source, std::move(log.lines), log.dropped);
  } else if (message.has_sample() && IsReasonable(message.sample())) {
    view_->SetSample(*id, std::move(*message.mutable_sample()));
  }
  return absl::OkStatus();
}

void AgentControl::HandleHeartbeats(const std::vector<uint64_t>& stream_ids) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (state_->shut_down) return;
    for (const uint64_t id : stream_ids) (void)state_->table.Heard(id);
  });
}

void AgentControl::StreamEnded(uint64_t stream_id) {
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (state_->shut_down) return;
    state_->table.StreamLost(stream_id, effects);
    state_->DropStream(stream_id);
    TellHeldExits(effects);
  });
}

void AgentControl::HandleEndpoints(int executor_id, const v1::NodeEndpoints& endpoints,
                                   TableEffects* effects) {
  if (endpoints.attempt() != state_->table.attempt(executor_id)) return;
  ControlState::Node& node = state_->NodeOf(executor_id);
  node.feed.reset();
  if (endpoints.has_feed()) node.feed = endpoints.feed();
  node.other = {endpoints.other().begin(), endpoints.other().end()};
  state_->recorder->Endpoints(executor_id, endpoints.attempt(), node.other);
  effects->changed.push_back(executor_id);
}

void AgentControl::HandleSample(int executor_id, const v1::NodeSample& sample) {
  if (sample.attempt() != state_->table.attempt(executor_id)) return;
  for (const v1::QueueSample& queue : sample.queues()) {
    std::vector<std::string>& done = state_->NodeOf(executor_id).done_queues;
    const auto found = std::find(done.begin(), done.end(), queue.queue());
    if (!queue.program_done()) {
      if (found != done.end()) done.erase(found);  // it has trained, and serves inference now
    } else if (found == done.end() && done.size() < kMaxDoneQueues) {
      done.push_back(queue.queue());
      state_->equal.Left(executor_id, queue.queue());
      state_->SendEqualGrants();
    }
  }
}

// ---- output -------------------------------------------------------------------------------------

AgentControl::Output& AgentControl::OutputOf(int executor_id, uint32_t attempt) {
  const auto [found, created] = outputs_.try_emplace({executor_id, attempt});
  if (created) {
    found->second.agent_id = state_->table.agent_id(executor_id);
    found->second.begun = !state_->options.resume;
  }
  return found->second;
}

void AgentControl::HandleOutput(int executor_id, v1::OutputData& data) {
  const auto window = static_cast<uint64_t>(state_->options.output_window_bytes);
  if (window == 0 || data.attempt() > state_->table.attempt(executor_id)) return;
  const OutputKey key(executor_id, data.attempt());
  Output& output = OutputOf(executor_id, data.attempt());
  const uint64_t end = data.offset() + (data.end() ? 1 : data.data().size());
  if (!std::exchange(output.begun, true)) {
    output.received = output.taken = output.credited = data.offset();
  }
  if (end <= output.received) {  // again, over a new stream; so the credit may have been lost
    SendOutputCredit(key, output);
    return;
  }
  // Sent by no agent that keeps to the protocol: with a gap, after the end, or beyond its credit.
  if (data.offset() > output.received || output.ended || end > output.taken + window + 1) return;
  std::string bytes = std::move(*data.mutable_data());
  bytes.erase(0, std::min<uint64_t>(output.received - data.offset(), bytes.size()));
  const uint64_t size = end - output.received;
  output.received = end;
  output.ended = data.end();
  state_->observer.PostBytes(
      executor_id, state_->table.role(executor_id),
      data.source() == v1::LogLines::SOURCE_STDERR ? LogSource::kStderr : LogSource::kStdout,
      std::move(bytes), [gate = output_gate_, key, size] {
        MutexLock lock(&gate->mu);
        if (gate->agents != nullptr) gate->agents->OutputTaken(key, size);
      });
}

void AgentControl::OutputTaken(OutputKey key, uint64_t bytes) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    Output& output = outputs_[key];
    output.taken += bytes;
    const uint64_t quarter = static_cast<uint64_t>(state_->options.output_window_bytes) / 4;
    if (output.complete() || output.taken - output.credited >= quarter) {
      SendOutputCredit(key, output);
    }
    if (output.taken == output.received) state_->changed.SignalAll();
  });
}

void AgentControl::SendOutputCredit(OutputKey key, Output& output) {
  const uint64_t stream_id = state_->table.stream(key.first);
  if (stream_id == 0) return;
  output.credited = output.taken;
  v1::CoordinatorMessage message;
  message.mutable_output_credit()->set_attempt(key.second);
  message.mutable_output_credit()->set_offset(output.taken);
  state_->Send(stream_id, message);
}

bool AgentControl::AllOutputTaken() const {
  state_->mu.AssertHeld();
  for (const auto& [key, output] : outputs_) {
    if (output.complete()) continue;
    // From an agent that is gone there will be no more.
    const bool gone = state_->table.AgentIsGone(key.first) ||
                      state_->table.agent_id(key.first) != output.agent_id;
    if (output.taken < output.received || !gone) return false;
  }
  return true;
}

void AgentControl::CloseOutput() {
  MutexLock lock(&output_gate_->mu);
  output_gate_->agents = nullptr;
}

// ---- the processes of agents --------------------------------------------------------------------

void AgentControl::AgentStarted(int executor_id, int64_t pid) {
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    state_->table.AgentStarted(executor_id, pid, effects);
  });
}

void AgentControl::AgentFound(int executor_id, absl::string_view place) {
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (!state_->table.Has(executor_id)) return;
    std::string& known = state_->places[executor_id];
    if (known == place) return;
    known = std::string(place);
    effects->changed.push_back(executor_id);
  });
}

void AgentControl::AgentExited(const AgentExit& exit) {
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    if (HoldExit(exit)) {
      const absl::Duration due = state_->clock->SteadyNow() + kLastWords;
      held_exits_.push_back({exit, state_->table.stream(exit.executor_id), due});
      state_->WakeTimerFor(due);
    } else {
      state_->table.AgentExited(exit, effects);
    }
  });
}

void AgentControl::AgentAwaited(int executor_id, absl::string_view why) {
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    state_->table.AgentAwaited(executor_id, why, effects);
  });
}

absl::Status AgentControl::AgentGone(const v1::AgentGoneRequest& request,
                                     v1::AgentGoneReply* reply) {
  if (request.agent_id().empty()) {
    return absl::InvalidArgumentError("AgentGoneRequest.agent_id is unset");
  }
  AgentExit exit = {.executor_id = request.executor_id(), .agent_id = request.agent_id()};
  if (request.signal() != 0) {
    exit.exit = {.kind = ExitStatus::Kind::kSignaled, .signal = request.signal()};
  } else {
    exit.exit = {.kind = ExitStatus::Kind::kExited, .code = request.exit_code()};
  }
  bool known = true;
  state_->Do([&](TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    known = state_->table.Has(exit.executor_id);
    if (!known) return;
    state_->table.AgentExited(exit, effects);
    reply->set_awaits_agent(state_->table.agent_id(exit.executor_id) == exit.agent_id &&
                            state_->table.AgentIsGone(exit.executor_id) &&
                            state_->table.AwaitsReplacement(exit.executor_id));
  });
  if (known) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("no executor ", request.executor_id()));
}

bool AgentControl::HoldExit(const AgentExit& exit) const {
  // Only one that ended by itself has said all it had to say.
  if (state_->shut_down || exit.exit.kind != ExitStatus::Kind::kExited || !exit.status.ok() ||
      !state_->table.Has(exit.executor_id)) {
    return false;
  }
  return state_->table.stream(exit.executor_id) != 0 &&
         !IsEnded(state_->table.state(exit.executor_id));
}

void AgentControl::TellHeldExits(TableEffects* effects) {
  state_->mu.AssertHeld();
  const absl::Duration now = state_->clock->SteadyNow();
  std::vector<HeldExit> held;
  held.swap(held_exits_);
  for (HeldExit& one : held) {
    if (state_->table.stream(one.exit.executor_id) == one.stream_id && now < one.due) {
      held_exits_.push_back(std::move(one));
    } else {
      state_->table.AgentExited(one.exit, effects);
    }
  }
}

absl::Duration AgentControl::NextHeldExit() const {
  state_->mu.AssertHeld();
  absl::Duration next = absl::InfiniteDuration();
  for (const HeldExit& one : held_exits_) next = std::min(next, one.due);
  return next;
}

}  // namespace millrace
