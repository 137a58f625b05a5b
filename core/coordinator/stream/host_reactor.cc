#include "core/coordinator/stream/host_reactor.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/grpc_status.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

using ::google::protobuf::internal::WireFormatLite;
using ::google::protobuf::io::CodedOutputStream;
using ::google::protobuf::io::StringOutputStream;

// Whether both are the very same memory, as copies of one SerializeMessage() are; or the same few
// bytes, which slices hold in themselves.
bool ShareBytes(const grpc::ByteBuffer& one, const grpc::ByteBuffer& other) {
  constexpr size_t kFew = 64;
  grpc::Slice first;
  grpc::Slice second;
  if (one.Length() != other.Length() || !one.TrySingleSlice(&first).ok() ||
      !other.TrySingleSlice(&second).ok()) {
    return false;
  }
  return first.begin() == second.begin() ||
         (first.size() <= kFew && std::equal(first.begin(), first.end(), second.begin()));
}

void AppendLengthDelimited(int field, size_t size, std::string* out) {
  StringOutputStream sink(out);
  CodedOutputStream coded(&sink);
  coded.WriteTag(WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED));
  coded.WriteVarint32(static_cast<uint32_t>(size));
}

std::string EndField(const absl::Status& status) {
  v1::HostPart part;
  part.mutable_end();
  if (!status.ok()) *part.mutable_end()->mutable_error() = ToErrorProto(status);
  return part.SerializeAsString();
}

}  // namespace

class HostReactor::Channel final : public AttachStream {
 public:
  Channel(std::shared_ptr<HostReactor> host, uint32_t number)
      : host_(std::move(host)), number_(number) {}

  void Enqueue(const grpc::ByteBuffer& message) override { host_->Enqueue(number_, message); }
  void Close(const absl::Status& status) override { host_->CloseChannel(number_, status); }
  void Flush() override { host_->Flush(); }

  [[nodiscard]] uint32_t number() const { return number_; }

  // 0: not registered. Guarded by the host's mu_.
  uint64_t stream_id = 0;

 private:
  const std::shared_ptr<HostReactor> host_;
  const uint32_t number_;
};

HostReactor::HostReactor(grpc::CallbackServerContext* context, const AttachLimits& limits,
                         AttachHandler* agents, LiveCalls* calls)
    : context_(context),
      limits_({limits.messages * kHostLimits, limits.bytes * kHostLimits}),
      agents_(agents),
      calls_(calls) {
  calls_->Begin();
}

HostReactor* HostReactor::Create(grpc::CallbackServerContext* context, const absl::Status& admitted,
                                 const AttachLimits& limits, AttachHandler* agents,
                                 LiveCalls* calls) {
  std::shared_ptr<HostReactor> reactor(new HostReactor(context, limits, agents, calls));
  reactor->self_ = reactor;
  if (admitted.ok()) {
    reactor->StartRead(&reactor->incoming_);
  } else {
    {
      MutexLock lock(&reactor->mu_);
      reactor->CloseLocked(admitted);
    }
    reactor->Flush();
  }
  return reactor.get();
}

// ---- to the host --------------------------------------------------------------------------------

void HostReactor::Enqueue(uint32_t channel, const grpc::ByteBuffer& message) {
  MutexLock lock(&mu_);
  if (close_.has_value() || channels_.count(channel) == 0) return;
  if (!queue_.empty()) {
    Part& last = queue_.back();
    if (last.end.empty() && last.channels.back() != channel && ShareBytes(last.message, message)) {
      last.channels.push_back(channel);
      return;
    }
  }
  const size_t size_bytes = message.Length();
  if (queue_.size() >= limits_.messages || queued_bytes_ + size_bytes > limits_.bytes) {
    MILLRACE_LOG(WARNING) << "a host does not read; its stream is dropped with " << queue_.size()
                          << " messages of " << queued_bytes_ << " bytes waiting";
    CloseLocked(absl::ResourceExhaustedError("the host does not read what it is sent"));
    cancel_ = true;  // the write in flight would not end by itself
    return;
  }
  queue_.push_back({{channel}, message, ""});
  queued_bytes_ += size_bytes;
}

void HostReactor::CloseChannel(uint32_t channel, const absl::Status& status) {
  MutexLock lock(&mu_);
  if (close_.has_value() || channels_.erase(channel) == 0) return;
  if (!status.ok()) {  // in place of what was not written
    for (Part& part : queue_) {
      part.channels.erase(std::remove(part.channels.begin(), part.channels.end(), channel),
                          part.channels.end());
    }
    const auto untold = [&](const Part& part) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      if (!part.channels.empty()) return false;
      queued_bytes_ -= part.message.Length();
      return true;
    };
    queue_.erase(std::remove_if(queue_.begin(), queue_.end(), untold), queue_.end());
  }
  queue_.push_back({{channel}, grpc::ByteBuffer(), EndField(status)});
}

void HostReactor::CloseLocked(const absl::Status& status) {
  if (close_.has_value()) return;
  close_ = status;
  if (status.ok()) return;
  queue_.clear();
  queued_bytes_ = 0;
}

grpc::ByteBuffer HostReactor::TakeBatch() {
  std::vector<grpc::Slice> slices;
  size_t batch_bytes = 0;
  std::string head;  // what precedes the next part's message
  while (!queue_.empty() && batch_bytes < kBatchBytes) {
    const Part part = std::move(queue_.front());
    queue_.pop_front();
    const size_t message_bytes = part.message.Length();
    queued_bytes_ -= message_bytes;
    v1::HostPart to;
    to.mutable_channels()->Add(part.channels.begin(), part.channels.end());
    std::string inner = to.SerializeAsString();
    if (message_bytes > 0) {
      AppendLengthDelimited(v1::HostPart::kMessageFieldNumber, message_bytes, &inner);
    }
    AppendLengthDelimited(v1::HostMessage::kPartsFieldNumber,
                          inner.size() + message_bytes + part.end.size(), &head);
    head += inner;
    if (message_bytes > 0) {
      std::vector<grpc::Slice> own;
      if (part.message.Dump(&own).ok()) {
        slices.emplace_back(std::exchange(head, ""));
        slices.insert(slices.end(), own.begin(), own.end());
      }
    }
    head += part.end;
    batch_bytes += inner.size() + message_bytes + part.end.size();
  }
  if (!head.empty()) slices.emplace_back(head);
  return {slices.data(), slices.size()};
}

void HostReactor::Flush() {
  enum class Action { kNothing, kWrite, kFinish };
  Action action = Action::kNothing;
  grpc::Status status;
  const grpc::ByteBuffer* message = nullptr;
  {
    MutexLock lock(&mu_);
    if (cancel_ && !done_) context_->TryCancel();  // calls nothing back on this thread
    cancel_ = false;
    if (writing_ || finished_) return;
    if (!queue_.empty()) {
      outgoing_ = std::make_unique<grpc::ByteBuffer>(TakeBatch());
      message = outgoing_.get();
      writing_ = true;  // until OnWriteDone nobody else writes or finishes
      action = Action::kWrite;
    } else if (close_.has_value()) {
      finished_ = true;
      status = ToGrpcStatus(*close_);
      action = Action::kFinish;
    }
  }
  if (action == Action::kWrite) StartWrite(message);
  if (action == Action::kFinish) Finish(std::move(status));
}

// ---- from the host ------------------------------------------------------------------------------

absl::Status HostReactor::ReceiveMessage(const std::shared_ptr<Channel>& channel,
                                         const std::string& bytes) {
  v1::AgentMessage message;
  if (!message.ParseFromString(bytes)) return absl::InvalidArgumentError("not an AgentMessage");
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    id = channel->stream_id;
  }
  if (id != 0) return agents_->Handle(id, std::move(message));
  if (!message.has_register_()) {
    return absl::InvalidArgumentError("the first message of a channel must be Register");
  }
  MILLRACE_ASSIGN_OR_RETURN(id, agents_->Register(channel, message.register_()));
  bool ended = false;
  {
    MutexLock lock(&mu_);
    channel->stream_id = id;
    ended = channels_.count(channel->number()) == 0;  // by whom the id was not known yet
  }
  if (ended) agents_->StreamEnded(id);
  return absl::OkStatus();
}

absl::Status HostReactor::ReceivePart(v1::HostPart* part) {
  if (part->channels_size() != 1 || part->channels(0) == 0) {
    return absl::InvalidArgumentError("HostPart.channels: one, from 1, towards the coordinator");
  }
  const uint32_t number = part->channels(0);
  std::shared_ptr<Channel> channel;
  {
    MutexLock lock(&mu_);
    if (close_.has_value()) return absl::OkStatus();
    if (number > last_channel_) {
      if (channels_.size() >= kMaxChannels) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a host may have ", kMaxChannels, " channels"));
      }
      last_channel_ = number;
      channels_[number] = std::make_shared<Channel>(self_, number);
    }
    const auto found = channels_.find(number);
    if (found == channels_.end()) return absl::OkStatus();  // it has ended
    channel = found->second;
  }
  absl::Status status;
  if (!part->message().empty() || !part->has_end())
    status = ReceiveMessage(channel, part->message());
  if (status.ok() && !part->has_end()) return absl::OkStatus();
  if (status.ok() && part->end().has_error()) status = FromErrorProto(part->end().error());
  CloseChannel(number, status);
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    id = channel->stream_id;
  }
  if (id != 0) agents_->StreamEnded(id);
  Flush();
  return absl::OkStatus();
}

absl::Status HostReactor::Receive() {
  v1::HostMessage message;
  {
    grpc::ProtoBufferReader reader(&incoming_);
    if (!reader.status().ok() || !message.ParseFromZeroCopyStream(&reader)) {
      return absl::InvalidArgumentError("not a HostMessage");
    }
  }
  incoming_.Clear();
  for (v1::HostPart& part : *message.mutable_parts()) {
    MILLRACE_RETURN_IF_ERROR(ReceivePart(&part));
  }
  if (message.alive().empty()) return absl::OkStatus();
  std::vector<uint64_t> alive;
  alive.reserve(std::min<size_t>(message.alive_size(), kMaxChannels));
  {
    MutexLock lock(&mu_);
    for (const uint32_t number : message.alive()) {
      const auto found = channels_.find(number);
      if (found == channels_.end() || found->second->stream_id == 0) continue;
      alive.push_back(found->second->stream_id);
    }
  }
  agents_->HandleHeartbeats(alive);
  return absl::OkStatus();
}

void HostReactor::EndAll() {
  std::map<uint32_t, std::shared_ptr<Channel>> channels;
  std::vector<uint64_t> ids;
  {
    MutexLock lock(&mu_);
    channels.swap(channels_);
    for (const auto& [number, channel] : channels) {
      if (channel->stream_id != 0) ids.push_back(channel->stream_id);
    }
  }
  for (const uint64_t id : ids) agents_->StreamEnded(id);
}

void HostReactor::OnReadDone(bool ok) {
  const absl::Status status = ok ? Receive() : absl::OkStatus();
  if (ok && status.ok()) {
    StartRead(&incoming_);
    return;
  }
  {
    MutexLock lock(&mu_);
    CloseLocked(status);  // half-closed: what is queued still goes out
  }
  EndAll();
  Flush();
}

void HostReactor::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mu_);
    writing_ = false;
    outgoing_.reset();
    if (!ok) CloseLocked(absl::UnavailableError("the stream broke"));
    if (!ok) queue_.clear();
  }
  Flush();
}

void HostReactor::OnCancel() {
  {
    MutexLock lock(&mu_);
    CloseLocked(absl::UnavailableError("the call was cancelled"));
    queue_.clear();
    cancel_ = false;
  }
  EndAll();
  Flush();
}

void HostReactor::OnDone() {
  {
    MutexLock lock(&mu_);
    done_ = true;
    queue_.clear();
    incoming_.Clear();
  }
  EndAll();
  LiveCalls* const calls = calls_;
  // The control plane may still be about to Flush(); then the last reference is its own.
  const std::shared_ptr<HostReactor> self = std::move(self_);
  calls->End();
}

}  // namespace millrace
