// File: core/coordinator/stream/attach_reactor.h
//
// The server's side of one Attach stream.
//
// Defines: AttachReactor, AttachLimits.
//
// gRPC's contract: reactions must not block and may run concurrently; at most one write is in
// flight, and its message stays unchanged until OnWriteDone; Finish is called exactly once, even if
// the call was cancelled; OnDone is last. The stream is raw: messages arrive and leave as bytes, so
// that one serialised message goes to many streams.

#ifndef CORE_COORDINATOR_STREAM_ATTACH_REACTOR_H_
#define CORE_COORDINATOR_STREAM_ATTACH_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/stream/live_calls.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {

// What may wait for an agent that does not read. Beyond, its stream is dropped with
// RESOURCE_EXHAUSTED (which such an agent sees as CANCELLED: there is no room to tell it).
struct AttachLimits {
  size_t messages = 4096;
  size_t bytes = size_t{16} << 20;
};

// Ownership: keeps itself alive until OnDone; the control plane holds a reference while registered.
// Thread safety: thread-safe. Blocking: never.
class AttachReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                            public AttachStream {
 public:
  // `admitted` not OK: the call ends with it at once. Pointers are not owned and outlive OnDone;
  // `context` is gRPC's own.
  static AttachReactor* Create(grpc::CallbackServerContext* context, const absl::Status& admitted,
                               const AttachLimits& limits, AttachHandler* agents, LiveCalls* calls);

  // AttachStream:
  void Enqueue(const grpc::ByteBuffer& message) override;
  void Close(const absl::Status& status) override;
  void Flush() override;

  // ServerBidiReactor:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  AttachReactor(grpc::CallbackServerContext* context, const AttachLimits& limits,
                AttachHandler* agents, LiveCalls* calls)
      : context_(context), limits_(limits), agents_(agents), calls_(calls) {
    calls_->Begin();
  }

  // What arrived. Not OK: the stream ends with it.
  absl::Status Receive();
  void CloseLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  grpc::CallbackServerContext* const context_;
  const AttachLimits limits_;
  AttachHandler* const agents_;
  LiveCalls* const calls_;
  std::shared_ptr<AttachReactor> self_;  // until OnDone

  // Reads are one at a time, so these belong to whoever reacts to the read.
  grpc::ByteBuffer incoming_;
  bool registered_ = false;

  Mutex mu_;
  uint64_t stream_id_ ABSL_GUARDED_BY(mu_) = 0;  // 0: not registered
  std::deque<grpc::ByteBuffer> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Unchanged while writing_. A fresh object for each write: gRPC hands it from thread to thread in
  // ways that ThreadSanitizer does not see.
  std::unique_ptr<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mu_);  // set once; nothing is queued after
  bool cancel_ ABSL_GUARDED_BY(mu_) = false;                // the write in flight must be given up
  bool finished_ ABSL_GUARDED_BY(mu_) = false;              // Finish was called
  bool done_ ABSL_GUARDED_BY(mu_) = false;                  // context_ is gone
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STREAM_ATTACH_REACTOR_H_
