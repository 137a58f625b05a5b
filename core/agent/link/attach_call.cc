#include "core/agent/link/attach_call.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/time/time.h"
#include "core/client/client_channel.h"
#include "core/proto/grpc_status.h"

namespace millrace {

AttachCall::AttachCall(std::shared_ptr<EventLoop::Mailbox> mailbox, Callbacks callbacks)
    : mailbox_(std::move(mailbox)), callbacks_(std::make_shared<Callbacks>(std::move(callbacks))) {}

std::shared_ptr<AttachCall> AttachCall::Start(v1::Coordinator::Stub* stub, const std::string& token,
                                              std::shared_ptr<EventLoop::Mailbox> mailbox,
                                              Callbacks callbacks) {
  std::shared_ptr<AttachCall> stream(new AttachCall(std::move(mailbox), std::move(callbacks)));
  stream->self_ = stream;
  PrepareCall(token, absl::InfiniteDuration(), &stream->context_);
  stub->async()->Attach(&stream->context_, stream.get());
  stream->AddMultipleHolds(2);  // reads and writes are started from outside of reactions
  stream->StartRead(&stream->incoming_);
  stream->StartCall();
  return stream;
}

bool AttachCall::Send(v1::AgentMessage message, bool droppable) {
  {
    MutexLock lock(&mu_);
    if (closed_ || finishing_) return false;
    if (droppable && queued_bytes_ > kDroppableBytes) return false;
    queued_bytes_ += message.ByteSizeLong();
    sent_ = true;
    queue_.push_back(std::move(message));
  }
  PumpWrites();
  return true;
}

void AttachCall::SendHeartbeat() {
  {
    MutexLock lock(&mu_);
    if (std::exchange(sent_, false)) return;
    if (closed_ || finishing_ || heartbeat_queued_) return;
    heartbeat_queued_ = true;
    queue_.emplace_back();
  }
  PumpWrites();
}

void AttachCall::Finish() {
  {
    MutexLock lock(&mu_);
    finishing_ = true;
  }
  PumpWrites();
}

void AttachCall::PumpWrites() {
  const v1::AgentMessage* message = nullptr;
  bool half_close = false;
  {
    MutexLock lock(&mu_);
    if (writing_ || released_) return;
    if (closed_) {
      released_ = true;
    } else if (!queue_.empty()) {
      writing_ = true;
      message = &queue_.front();
    } else if (finishing_) {
      closed_ = released_ = true;
      half_close = true;
    } else {
      return;
    }
  }
  if (message != nullptr) {
    StartWrite(message);
    return;
  }
  if (half_close) StartWritesDone();
  RemoveHold();
}

void AttachCall::OnWriteDone(bool ok) {
  {
    MutexLock lock(&mu_);
    writing_ = false;
    const v1::AgentMessage& written = queue_.front();
    if (written.message_case() == v1::AgentMessage::MESSAGE_NOT_SET) {
      heartbeat_queued_ = false;
    } else {
      queued_bytes_ -= written.ByteSizeLong();
    }
    queue_.pop_front();
    if (!ok) closed_ = true;
  }
  PumpWrites();
}

void AttachCall::OnReadDone(bool ok) {
  if (!ok) {
    {
      MutexLock lock(&mu_);
      closed_ = true;
    }
    PumpWrites();
    RemoveHold();
    return;
  }
  // The next read starts when this closure is gone, whether it ran or the loop ended before.
  absl::Cleanup next([this] { StartRead(&incoming_); });
  mailbox_->Post([callbacks = callbacks_, message = std::exchange(incoming_, {}),
                  next = std::move(next)] { callbacks->on_message(message); });
}

void AttachCall::OnDone(const grpc::Status& status) {
  mailbox_->Post(
      [callbacks = callbacks_, result = FromGrpcStatus(status)] { callbacks->on_done(result); });
  const std::shared_ptr<AttachCall> last = std::move(self_);
}

}  // namespace millrace
