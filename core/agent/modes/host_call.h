// File: core/agent/modes/host_call.h
//
// One AttachHost call: the streams of the agents of this host, each of which is an AttachReactor,
// put together on one stream to the coordinator.
//
// Defines: HostCall.

#ifndef CORE_AGENT_MODES_HOST_CALL_H_
#define CORE_AGENT_MODES_HOST_CALL_H_

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Ownership: shared between its user and gRPC: it lives until OnDone(), whoever lets go of it
// first; it must outlive the streams that it is told of. Thread safety: thread-safe. Blocking:
// never.
class HostCall final : public AttachHandler,
                       private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Called on gRPC's threads.
  struct Callbacks {
    // Heartbeats or samples wait: FlushWaiting() is due after that time, unless another message
    // takes them along. Once until then.
    std::function<void(absl::Duration after)> on_waiting;
    // The call is over, and every stream was told so. Last.
    std::function<void(const absl::Status&)> on_done;
  };

  [[nodiscard]] static std::shared_ptr<HostCall> Start(
      const std::shared_ptr<grpc::Channel>& channel, const std::string& token, Callbacks callbacks);

  // AttachHandler. What a stream's agent says is sent at once; heartbeats wait a little for those
  // of the others, and so do samples where the coordinator wants fewer of them than heartbeats.
  // Return UNAVAILABLE once the call is over, and if the coordinator has left too
  // much unread.
  absl::StatusOr<uint64_t> Register(const std::shared_ptr<AttachStream>& stream,
                                    const v1::Register& message) override;
  absl::Status Handle(uint64_t stream_id, v1::AgentMessage message) override;
  void StreamEnded(uint64_t stream_id) override;

  void FlushWaiting();
  // No further stream comes: half-closes after what is queued.
  void Finish();

 private:
  explicit HostCall(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  // Queues a part of `channel`, which has nothing in it yet.
  v1::HostPart* AddPart(uint32_t channel, size_t size_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Starts the next write, the half-close or nothing. Call it without the lock.
  void PumpWrites();
  void TakePart(const v1::HostPart& part);
  // The agents' intervals, from the first answer to a Register.
  void LearnIntervals(const std::string& message);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  const Callbacks callbacks_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ByteBuffer incoming_;       // gRPC's while a read is in progress
  grpc::ByteBuffer outgoing_;       // and while writing_
  std::shared_ptr<HostCall> self_;  // until OnDone()

  Mutex mu_;
  uint32_t last_channel_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<uint32_t, std::shared_ptr<AttachStream>> streams_ ABSL_GUARDED_BY(mu_);  // open ones
  std::deque<v1::HostMessage> queue_ ABSL_GUARDED_BY(mu_);                          // parts alone
  size_t last_bytes_ ABSL_GUARDED_BY(mu_) = 0;  // of the last message in queue_
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Parts of the last message in queue_: a newer sample takes the place of one that still waits.
  std::map<uint32_t, v1::HostPart*> samples_ ABSL_GUARDED_BY(mu_);
  std::set<uint32_t> alive_ ABSL_GUARDED_BY(mu_);
  bool flush_due_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration window_ ABSL_GUARDED_BY(mu_) = absl::ZeroDuration();  // 0: not known yet
  bool samples_wait_ ABSL_GUARDED_BY(mu_) = false;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool finishing_ ABSL_GUARDED_BY(mu_) = false;  // half-close after the queue
  bool closed_ ABSL_GUARDED_BY(mu_) = false;     // no write may be started any more
  bool released_ ABSL_GUARDED_BY(mu_) = false;   // the writers' hold is given back
};

}  // namespace millrace

#endif  // CORE_AGENT_MODES_HOST_CALL_H_
