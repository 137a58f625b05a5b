#include "core/coordinator/stream/attach_reactor.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/grpc_status.h"

namespace millrace {

AttachReactor* AttachReactor::Create(grpc::CallbackServerContext* context,
                                     const absl::Status& admitted, const AttachLimits& limits,
                                     AttachHandler* agents, LiveCalls* calls) {
  std::shared_ptr<AttachReactor> reactor(new AttachReactor(context, limits, agents, calls));
  reactor->self_ = reactor;
  if (admitted.ok()) {
    reactor->StartRead(&reactor->incoming_);
  } else {
    reactor->Close(admitted);
    reactor->Flush();
  }
  return reactor.get();
}

// ---- AttachStream -------------------------------------------------------------------------------

void AttachReactor::Enqueue(const grpc::ByteBuffer& message) {
  MutexLock lock(&mu_);
  if (close_.has_value()) return;
  const size_t size_bytes = message.Length();
  if (queue_.size() >= limits_.messages || queued_bytes_ + size_bytes > limits_.bytes) {
    MILLRACE_LOG(WARNING) << "stream " << stream_id_ << ": its agent does not read; dropped with "
                          << queue_.size() << " messages of " << queued_bytes_ << " bytes waiting";
    CloseLocked(absl::ResourceExhaustedError("the agent does not read what it is sent"));
    cancel_ = true;  // the write in flight would not end by itself
    return;
  }
  queue_.push_back(message);
  queued_bytes_ += size_bytes;
}

void AttachReactor::Close(const absl::Status& status) {
  MutexLock lock(&mu_);
  CloseLocked(status);
}

void AttachReactor::CloseLocked(const absl::Status& status) {
  if (close_.has_value()) return;
  close_ = status;
  if (status.ok()) return;
  // The write in flight may end, so that the peer hears why; keepalive ends it if the host is gone.
  queue_.clear();
  queued_bytes_ = 0;
}

void AttachReactor::Flush() {
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
      outgoing_ = std::make_unique<grpc::ByteBuffer>(std::move(queue_.front()));
      message = outgoing_.get();
      queue_.pop_front();
      queued_bytes_ -= message->Length();
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

// ---- reactions ----------------------------------------------------------------------------------

absl::Status AttachReactor::Receive() {
  absl::StatusOr<v1::AgentMessage> message = ParseAgentMessage(incoming_);
  if (!message.ok()) return message.status();
  incoming_.Clear();
  if (registered_) {
    uint64_t id = 0;
    {
      MutexLock lock(&mu_);
      id = stream_id_;
    }
    return agents_->Handle(id, *std::move(message));
  }
  if (!message->has_register_()) {
    return absl::InvalidArgumentError("the first message of a stream must be Register");
  }
  absl::StatusOr<uint64_t> id = agents_->Register(self_, message->register_());
  if (!id.ok()) return id.status();
  registered_ = true;
  bool cancelled = false;
  {
    MutexLock lock(&mu_);
    stream_id_ = *id;
    cancelled =
        close_.has_value();  // OnCancel came before the id: it could not tell the control plane
  }
  if (cancelled) agents_->StreamEnded(*id);
  return absl::OkStatus();
}

void AttachReactor::OnReadDone(bool ok) {
  const absl::Status status = ok ? Receive() : absl::OkStatus();
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    // Half-closed: what is queued still goes out.
    if (!ok || !status.ok()) CloseLocked(status);
    id = stream_id_;
  }
  if (ok && status.ok()) {
    StartRead(&incoming_);
    return;
  }
  if (id != 0) agents_->StreamEnded(id);
  Flush();
}

void AttachReactor::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mu_);
    writing_ = false;
    outgoing_.reset();
    if (!ok) CloseLocked(absl::UnavailableError("the stream broke"));
    if (!ok) queue_.clear();
  }
  Flush();
}

void AttachReactor::OnCancel() {
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    CloseLocked(absl::UnavailableError("the call was cancelled"));
    queue_.clear();
    cancel_ = false;
    id = stream_id_;
  }
  if (id != 0) agents_->StreamEnded(id);
  Flush();
}

void AttachReactor::OnDone() {
  uint64_t id = 0;
  {
    MutexLock lock(&mu_);
    done_ = true;
    id = stream_id_;
    queue_.clear();
    incoming_.Clear();
  }
  if (id != 0) agents_->StreamEnded(id);
  LiveCalls* const calls = calls_;
  // The control plane may still be about to Flush(); then the last reference is its own.
  const std::shared_ptr<AttachReactor> self = std::move(self_);
  calls->End();
}

}  // namespace millrace
