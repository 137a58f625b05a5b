// File: core/agent/link/attach_call.h
//
// One Attach call: messages out through a bounded queue, messages in and the end of the call handed
// over to the agent's loop. Dialling, and dialling again, is core/agent/link/coordinator_link.h.

#ifndef CORE_AGENT_LINK_ATTACH_CALL_H_
#define CORE_AGENT_LINK_ATTACH_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/mutex.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Ownership: shared between its user and gRPC: it lives until OnDone(), whoever lets go of it
// first. Thread safety: thread-safe. Blocking: never.
class AttachCall final : public grpc::ClientBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  // Above this, Send() refuses messages that may be lost.
  static constexpr size_t kDroppableBytes = size_t{1} << 20;

  // Posted to the mailbox, on_message in order, on_done last and once (whatever happens).
  struct Callbacks {
    std::function<void(const v1::CoordinatorMessage&)> on_message;
    std::function<void(const absl::Status&)> on_done;
  };

  // Starts the call. Reading goes no faster than the loop handles messages.
  [[nodiscard]] static std::shared_ptr<AttachCall> Start(
      v1::Coordinator::Stub* stub, const std::string& token,
      std::shared_ptr<EventLoop::Mailbox> mailbox, Callbacks callbacks);

  // Queues `message`. Returns false if the stream is ending or, for one that may be lost, if much
  // is queued.
  bool Send(v1::AgentMessage message, bool droppable = false);
  // Queues a heartbeat, unless one waits already or anything else was sent since the last call.
  void SendHeartbeat();
  // Nothing more will be sent: half-closes after what is queued.
  void Finish();
  // Ends the call now.
  void Cancel() { context_.TryCancel(); }

 private:
  AttachCall(std::shared_ptr<EventLoop::Mailbox> mailbox, Callbacks callbacks);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  // Starts the next write, the half-close or nothing. Call it without the lock.
  void PumpWrites();

  const std::shared_ptr<EventLoop::Mailbox> mailbox_;
  const std::shared_ptr<Callbacks> callbacks_;
  grpc::ClientContext context_;
  v1::CoordinatorMessage incoming_;   // gRPC's while a read is in progress
  std::shared_ptr<AttachCall> self_;  // until OnDone()

  Mutex mu_;
  std::deque<v1::AgentMessage> queue_ ABSL_GUARDED_BY(mu_);  // front: in progress while writing_
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;             // of queue_
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool heartbeat_queued_ ABSL_GUARDED_BY(mu_) = false;
  bool sent_ ABSL_GUARDED_BY(mu_) = false;       // since the last SendHeartbeat()
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;  // half-close after the queue
  bool closed_ ABSL_GUARDED_BY(mu_) = false;     // no write may be started any more
  bool released_ ABSL_GUARDED_BY(mu_) = false;   // the writers' hold is given back
};

}  // namespace millrace

#endif  // CORE_AGENT_LINK_ATTACH_CALL_H_
