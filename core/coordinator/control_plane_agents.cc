// What agents say after they have registered.

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "core/coordinator/control_plane.h"
#include "core/coordinator/wire_conversion.h"
#include "core/proto/time_proto.h"

namespace millrace {
namespace {

constexpr size_t kMaxRememberedAdds = 64;
constexpr size_t kMaxEndpointBytes = 1024;
constexpr int kMaxOtherEndpoints = 64;
constexpr int kMaxLogLines = 200;
constexpr size_t kMaxLineBytes = 2 << 10;
constexpr size_t kMaxMetricNameBytes = 256;
constexpr int kLinesForTimeoutError = 5;

absl::Status CheckEndpoints(const v1::NodeEndpoints& endpoints) {
  bool ok = endpoints.other_size() <= kMaxOtherEndpoints &&
            endpoints.feed().tcp().size() <= kMaxEndpointBytes &&
            endpoints.feed().ipc().size() <= kMaxEndpointBytes &&
            endpoints.feed().key().size() <= kMaxEndpointBytes;
  for (const auto& [name, address] : endpoints.other()) {
    ok = ok && name.size() <= kMaxEndpointBytes && address.size() <= kMaxEndpointBytes;
  }
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("NodeEndpoints: at most ", kMaxOtherEndpoints,
                                                 " names, each text at most ", kMaxEndpointBytes,
                                                 " bytes"));
}

}  // namespace

absl::Status ControlPlane::Handle(uint64_t stream_id, const v1::AgentMessage& message) {
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
  Do([&](TableEffects* effects) {
    if (shut_down_) return;
    if (report.has_value()) {
      table_.Update(stream_id, *report, effects);
      return;
    }
    const std::optional<int> id = table_.Heard(stream_id);
    if (!id.has_value()) return;
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
        HandleLog(*id, message.log());
        break;
      default:
        break;  // a heartbeat, or something newer than this coordinator
    }
  });
  return absl::OkStatus();
}

void ControlPlane::HandleEndpoints(int executor_id, const v1::NodeEndpoints& endpoints,
                                   TableEffects* effects) {
  if (endpoints.attempt() != table_.attempt(executor_id)) return;
  Node& node = NodeOf(executor_id);
  node.feed.reset();
  if (endpoints.has_feed()) node.feed = endpoints.feed();
  node.other = {endpoints.other().begin(), endpoints.other().end()};
  effects->changed.push_back(executor_id);
}

void ControlPlane::HandleLog(int executor_id, const v1::LogLines& log) {
  LogSource source = LogSource::kAgent;
  if (log.source() == v1::LogLines::SOURCE_STDOUT) source = LogSource::kStdout;
  if (log.source() == v1::LogLines::SOURCE_STDERR) source = LogSource::kStderr;
  std::vector<std::string> lines;
  const int count = std::min(log.lines_size(), kMaxLogLines);
  lines.reserve(count);
  for (int i = 0; i < count; ++i) lines.push_back(Ellipsize(log.lines(i), kMaxLineBytes));
  const uint64_t dropped = log.dropped() + static_cast<uint64_t>(log.lines_size() - count);
  if (table_.state(executor_id) < SlotState::kRunning) {
    for (int i = std::max(0, count - kLinesForTimeoutError); i < count; ++i) {
      table_.NoteLog(executor_id, lines[i]);
    }
  }
  observer_.PostLog(executor_id, table_.role(executor_id), source, std::move(lines), dropped);
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
