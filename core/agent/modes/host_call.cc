#include "core/agent/modes/host_call.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/client/client_channel.h"
#include "core/proto/grpc_status.h"
#include "core/proto/time_proto.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"

namespace millrace {
namespace {

constexpr char kMethod[] = "/millrace.v1.Coordinator/AttachHost";
// A coordinator takes messages of 2 MiB. A part that is larger is alone.
constexpr size_t kMaxMessageBytes = size_t{512} << 10;
constexpr size_t kMaxQueuedBytes = size_t{32} << 20;
// Until the coordinator has said how often there are heartbeats.
constexpr absl::Duration kFirstWindow = absl::Milliseconds(50);

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

// What the agents hear when the whole call has ended with `status`: as from the coordinator where
// it has turned the host away or has ended the cluster; otherwise they attach again.
absl::Status StatusForAgents(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kFailedPrecondition:
      return status;
    default:
      return absl::UnavailableError(
          absl::StrCat("the host's stream has ended: ", status.message()));
  }
}

}  // namespace

std::shared_ptr<HostCall> HostCall::Start(const std::shared_ptr<grpc::Channel>& channel,
                                          const std::string& token, Callbacks callbacks) {
  std::shared_ptr<HostCall> call(new HostCall(std::move(callbacks)));
  call->self_ = call;
  PrepareCall(token, absl::InfiniteDuration(), &call->context_);
  call->stub_ = std::make_unique<grpc::GenericStub>(channel);
  call->stub_->PrepareBidiStreamingCall(&call->context_, kMethod, {}, call.get());
  call->AddHold();  // writes are started from outside of reactions
  call->StartRead(&call->incoming_);
  call->StartCall();
  return call;
}

// ---- from agents --------------------------------------------------------------------------------

v1::HostPart* HostCall::AddPart(uint32_t channel, size_t size_bytes) {
  if (queue_.empty() || last_bytes_ + size_bytes > kMaxMessageBytes) {
    queue_.emplace_back();
    last_bytes_ = 0;
    samples_.clear();
  }
  last_bytes_ += size_bytes;
  queued_bytes_ += size_bytes;
  v1::HostPart* part = queue_.back().add_parts();
  part->add_channels(channel);
  return part;
}

absl::StatusOr<uint64_t> HostCall::Register(const std::shared_ptr<AttachStream>& stream,
                                            const v1::Register& message) {
  v1::AgentMessage hello;
  *hello.mutable_register_() = message;
  std::string bytes = hello.SerializeAsString();
  uint32_t channel = 0;
  {
    MutexLock lock(&mu_);
    if (closed_ || finishing_) return absl::UnavailableError("the host's stream has ended");
    channel = ++last_channel_;
    streams_[channel] = stream;
    AddPart(channel, bytes.size())->set_message(std::move(bytes));
  }
  PumpWrites();
  return channel;
}

absl::Status HostCall::Handle(uint64_t stream_id, v1::AgentMessage message) {
  const auto channel = static_cast<uint32_t>(stream_id);
  const bool heartbeat = message.message_case() == v1::AgentMessage::MESSAGE_NOT_SET;
  const bool sample = message.has_sample();
  std::string bytes = message.SerializeAsString();
  bool waits = false;
  absl::Duration after;
  {
    MutexLock lock(&mu_);
    if (streams_.count(channel) == 0) return absl::OkStatus();  // it has ended
    if (heartbeat) {
      alive_.insert(channel);
    } else if (const auto waits = samples_.find(channel); sample && waits != samples_.end()) {
      queued_bytes_ += bytes.size() - waits->second->message().size();
      last_bytes_ += bytes.size() - waits->second->message().size();
      waits->second->set_message(std::move(bytes));
      return absl::OkStatus();
    } else if (queued_bytes_ > kMaxQueuedBytes) {
      return absl::UnavailableError("the coordinator does not read what this host sends");
    } else {
      v1::HostPart* part = AddPart(channel, bytes.size());
      part->set_message(std::move(bytes));
      if (sample) samples_[channel] = part;
    }
    waits = heartbeat || (sample && samples_wait_);
    if (waits && std::exchange(flush_due_, true)) return absl::OkStatus();
    after = window_ > absl::ZeroDuration() ? window_ : kFirstWindow;
  }
  if (waits) {
    callbacks_.on_waiting(after);
  } else {
    PumpWrites();
  }
  return absl::OkStatus();
}

void HostCall::StreamEnded(uint64_t stream_id) {
  const auto channel = static_cast<uint32_t>(stream_id);
  {
    MutexLock lock(&mu_);
    alive_.erase(channel);
    if (streams_.erase(channel) == 0 || closed_) return;
    AddPart(channel, 0)->mutable_end();
  }
  PumpWrites();
}

void HostCall::FlushWaiting() {
  {
    MutexLock lock(&mu_);
    flush_due_ = false;
    if (closed_ || finishing_) return;
    if (queue_.empty()) {
      if (alive_.empty()) return;
      queue_.emplace_back();
      last_bytes_ = 0;
      samples_.clear();
    }
  }
  PumpWrites();
}

void HostCall::Finish() {
  {
    MutexLock lock(&mu_);
    finishing_ = true;
  }
  PumpWrites();
}

void HostCall::PumpWrites() {
  bool write = false;
  bool half_close = false;
  {
    MutexLock lock(&mu_);
    if (writing_ || released_) return;
    if (closed_) {
      released_ = true;
    } else if (!queue_.empty()) {
      v1::HostMessage message = std::move(queue_.front());
      queue_.pop_front();
      if (queue_.empty()) samples_.clear();
      for (const v1::HostPart& part : message.parts()) queued_bytes_ -= part.message().size();
      message.mutable_alive()->Add(alive_.begin(), alive_.end());
      alive_.clear();
      outgoing_ = BytesOf(message.SerializeAsString());
      writing_ = write = true;
    } else if (finishing_) {
      closed_ = released_ = half_close = true;
    } else {
      return;
    }
  }
  if (write) {
    StartWrite(&outgoing_);
    return;
  }
  if (half_close) StartWritesDone();
  RemoveHold();
}

void HostCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mu_);
    writing_ = false;
    if (!ok) closed_ = true;
  }
  PumpWrites();
}

// ---- to agents ----------------------------------------------------------------------------------

void HostCall::LearnIntervals(const std::string& message) {
  MutexLock lock(&mu_);
  if (window_ > absl::ZeroDuration()) return;
  v1::CoordinatorMessage first;
  if (!first.ParseFromString(message) || !first.has_registered()) return;
  const absl::Duration heartbeats = DurationFromProto(first.registered().heartbeat_interval());
  window_ = std::clamp(heartbeats / 2, absl::Milliseconds(5), absl::Seconds(10));
  samples_wait_ = DurationFromProto(first.registered().sample_interval()) > heartbeats;
}

void HostCall::TakePart(const v1::HostPart& part) {
  std::vector<std::shared_ptr<AttachStream>> streams;
  {
    MutexLock lock(&mu_);
    for (const uint32_t channel : part.channels()) {
      const auto found = streams_.find(channel);
      if (found == streams_.end()) continue;
      streams.push_back(found->second);
      if (part.has_end()) streams_.erase(found);
    }
  }
  if (!part.message().empty()) {
    LearnIntervals(part.message());
    const grpc::ByteBuffer bytes = BytesOf(part.message());
    for (const auto& stream : streams) stream->Enqueue(bytes);
  }
  absl::Status end;
  if (part.end().has_error()) {
    const int code = part.end().error().code();
    end = absl::Status(
        code > 0 && code <= 16 ? static_cast<absl::StatusCode>(code) : absl::StatusCode::kUnknown,
        part.end().error().message());
  }
  for (const auto& stream : streams) {
    if (part.has_end()) stream->Close(end);
    stream->Flush();
  }
}

void HostCall::OnReadDone(bool ok) {
  v1::HostMessage message;
  if (ok) {
    grpc::ProtoBufferReader reader(&incoming_);
    ok = reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
    if (!ok) context_.TryCancel();  // no coordinator says that
  }
  if (!ok) {
    {
      MutexLock lock(&mu_);
      closed_ = true;
    }
    PumpWrites();
    return;
  }
  incoming_.Clear();
  for (const v1::HostPart& part : message.parts()) TakePart(part);
  StartRead(&incoming_);
}

void HostCall::OnDone(const grpc::Status& status) {
  std::map<uint32_t, std::shared_ptr<AttachStream>> streams;
  {
    MutexLock lock(&mu_);
    closed_ = true;
    streams.swap(streams_);
  }
  const absl::Status why = FromGrpcStatus(status);
  for (const auto& [channel, stream] : streams) {
    stream->Close(StatusForAgents(why));
    stream->Flush();
  }
  const std::shared_ptr<HostCall> last = std::move(self_);
  callbacks_.on_done(why);
}

}  // namespace millrace
