// What agents say after they have registered.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/coordinator/server/control_plane.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxRememberedAdds = 64;
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

}  // namespace

absl::Status ControlPlane::Handle(uint64_t stream_id, v1::AgentMessage message) {
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
  Do([&](TableEffects* effects) {
    if (shut_down_) return;
    if (report.has_value()) {
      table_.Update(stream_id, *report, effects);
      if (options_.node.output_window_bytes == 0 || report->kind != NodeReport::Kind::kRunning)
        return;
      id = table_.Heard(stream_id);
      // WaitOutput() waits for it.
      if (id.has_value() && report->attempt == table_.attempt(*id)) OutputOf(*id, report->attempt);
      return;
    }
    id = table_.Heard(stream_id);
    if (!id.has_value()) return;
    attempt = table_.attempt(*id);
    switch (message.message_case()) {
      case Case::kEndpoints:
        HandleEndpoints(*id, message.endpoints(), effects);
        break;
      case Case::kKv:
        HandleKv(stream_id, *id, message.kv());
        break;
      case Case::kBarrier:
        HandleBarrier(stream_id, *id, message.barrier());
        break;
      case Case::kMetric:
        observer_.PostMetric(*id, table_.role(*id),
                             Ellipsize(message.metric().name(), kMaxMetricNameBytes),
                             message.metric().step(), message.metric().value());
        break;
      case Case::kLog:
        if (table_.state(*id) < SlotState::kRunning) {
          const size_t count = log.lines.size();
          const size_t first = count - std::min(count, kLinesForTimeoutError);
          for (size_t i = first; i < count; ++i) table_.NoteLog(*id, log.lines[i]);
        }
        if (log.from == LogSource::kStderr && log.attempt == attempt) table_.NoteStderr(*id);
        observer_.PostLog(*id, table_.role(*id), log.from, log.lines, log.dropped);
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
                     metric.has_time() ? TimeFromProto(metric.time()) : clock_->Now());
  } else if (message.has_log()) {
    view_->AddLog(*id, log.attempt, log.source, std::move(log.lines), log.dropped);
  } else if (message.has_sample() && IsReasonable(message.sample())) {
    view_->SetSample(*id, std::move(*message.mutable_sample()));
  }
  return absl::OkStatus();
}

void ControlPlane::HandleEndpoints(int executor_id, const v1::NodeEndpoints& endpoints,
                                   TableEffects* effects) {
  if (endpoints.attempt() != table_.attempt(executor_id)) return;
  Node& node = NodeOf(executor_id);
  node.feed.reset();
  if (endpoints.has_feed()) node.feed = endpoints.feed();
  node.other = {endpoints.other().begin(), endpoints.other().end()};
  recorder_->Endpoints(executor_id, endpoints.attempt(), node.other);
  effects->changed.push_back(executor_id);
}

ControlPlane::Output& ControlPlane::OutputOf(int executor_id, uint32_t attempt) {
  const auto [found, created] = outputs_.try_emplace({executor_id, attempt});
  if (created) found->second.agent_id = table_.agent_id(executor_id);
  return found->second;
}

void ControlPlane::HandleOutput(int executor_id, v1::OutputData& data) {
  const auto window = static_cast<uint64_t>(options_.node.output_window_bytes);
  if (window == 0 || data.attempt() > table_.attempt(executor_id)) return;
  const OutputKey key(executor_id, data.attempt());
  Output& output = OutputOf(executor_id, data.attempt());
  const uint64_t end = data.offset() + (data.end() ? 1 : data.data().size());
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
  observer_.PostOutput(
      executor_id, table_.role(executor_id),
      data.source() == v1::LogLines::SOURCE_STDERR ? LogSource::kStderr : LogSource::kStdout,
      std::move(bytes), [gate = output_gate_, key, size] {
        MutexLock lock(&gate->mu);
        if (gate->plane != nullptr) gate->plane->OutputTaken(key, size);
      });
}

void ControlPlane::OutputTaken(OutputKey key, uint64_t bytes) {
  Do([&](TableEffects* /*effects*/) {
    Output& output = outputs_[key];
    output.taken += bytes;
    const uint64_t quarter = static_cast<uint64_t>(options_.node.output_window_bytes) / 4;
    if (output.complete() || output.taken - output.credited >= quarter) {
      SendOutputCredit(key, output);
    }
    if (output.taken == output.received) changed_.SignalAll();
  });
}

void ControlPlane::SendOutputCredit(OutputKey key, Output& output) {
  const uint64_t stream_id = table_.stream(key.first);
  if (stream_id == 0) return;
  output.credited = output.taken;
  v1::CoordinatorMessage message;
  message.mutable_output_credit()->set_attempt(key.second);
  message.mutable_output_credit()->set_offset(output.taken);
  Send(stream_id, message);
}

void ControlPlane::HandleSample(int executor_id, const v1::NodeSample& sample) {
  if (sample.attempt() != table_.attempt(executor_id)) return;
  for (const v1::QueueSample& queue : sample.queues()) {
    if (!queue.program_done()) continue;
    std::vector<std::string>& done = NodeOf(executor_id).done_queues;
    if (std::find(done.begin(), done.end(), queue.queue()) == done.end() &&
        done.size() < kMaxDoneQueues) {
      done.push_back(queue.queue());
    }
  }
}

// ---- kv -----------------------------------------------------------------------------------------

namespace {

v1::KvReply ToKvReply(uint64_t request_id, const absl::StatusOr<std::string>& result) {
  v1::KvReply reply;
  reply.set_request_id(request_id);
  if (result.ok()) {
    reply.set_value(*result);
  } else {
    *reply.mutable_error() = ToErrorProto(result.status());
  }
  return reply;
}

}  // namespace

void ControlPlane::HandleKv(uint64_t stream_id, int executor_id, const v1::KvRequest& request) {
  std::optional<absl::StatusOr<std::string>> result;
  std::vector<KvStore::Completion> woken;
  v1::CoordinatorMessage message;
  switch (request.op_case()) {
    case v1::KvRequest::kSet: {
      const absl::Status status = kv_.Set(request.key(), request.set(), &woken);
      result.emplace(status.ok() ? absl::StatusOr<std::string>("") : status);
      break;
    }
    case v1::KvRequest::kGet: {
      const absl::Duration now = clock_->SteadyNow();
      const absl::Duration timeout = DurationFromProto(request.get());
      result = kv_.Get(request.key(), timeout, {stream_id, request.request_id()}, now);
      if (!result.has_value()) WakeTimerFor(now + timeout);
      break;
    }
    case v1::KvRequest::kAdd: {
      if (executor_id < 0) {  // an operator's, once
        result = kv_.Add(request.key(), request.add(), &woken);
        break;
      }
      // An agent that came back repeats what was not answered: an add must not count twice.
      auto& adds = NodeOf(executor_id).adds;
      auto done = std::find_if(adds.begin(), adds.end(), [&](const auto& entry) {
        return entry.first == request.request_id();
      });
      if (done != adds.end()) {
        *message.mutable_kv() = done->second;
        Send(stream_id, message);
        return;
      }
      result = kv_.Add(request.key(), request.add(), &woken);
      adds.emplace_back(request.request_id(), ToKvReply(request.request_id(), *result));
      if (adds.size() > kMaxRememberedAdds) adds.pop_front();
      break;
    }
    case v1::KvRequest::kDelete:
      result = kv_.Delete(request.key());
      break;
    default:
      result.emplace(absl::UnimplementedError("this coordinator does not know the kv operation"));
  }
  if (result.has_value()) {
    *message.mutable_kv() = ToKvReply(request.request_id(), *result);
    Send(stream_id, message);
  }
  ReplyKv(woken);
}

void ControlPlane::ReplyKv(const std::vector<KvStore::Completion>& completions) {
  for (const KvStore::Completion& completion : completions) {
    v1::CoordinatorMessage message;
    *message.mutable_kv() = ToKvReply(completion.waiter.request_id, completion.result);
    Send(completion.waiter.owner, message);
  }
}

// ---- barriers -----------------------------------------------------------------------------------

void ControlPlane::HandleBarrier(uint64_t stream_id, int executor_id,
                                 const v1::BarrierRequest& request) {
  const absl::Duration now = clock_->SteadyNow();
  const absl::Duration timeout = DurationFromProto(request.timeout());
  ReplyBarrier(barriers_.Arrive(request.name(), executor_id, {stream_id, request.request_id()},
                                timeout, now));
  WakeTimerFor(now + timeout);
}

void ControlPlane::ReplyBarrier(const std::vector<BarrierSet::Completion>& completions) {
  for (const BarrierSet::Completion& completion : completions) {
    v1::CoordinatorMessage message;
    message.mutable_barrier()->set_request_id(completion.waiter.request_id);
    if (!completion.status.ok()) {
      *message.mutable_barrier()->mutable_error() = ToErrorProto(completion.status);
    }
    Send(completion.waiter.owner, message);
  }
}

}  // namespace millrace
