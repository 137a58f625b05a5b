// File: core/coordinator/stream/attach_stream.h
//
// One agent's stream, as the control plane sees it: messages are queued under the plane's lock,
// which fixes their order, and written after it is released. And the control plane, as a stream
// sees it.
//
// Defines: AttachStream, AttachHandler.

#ifndef CORE_COORDINATOR_STREAM_ATTACH_STREAM_H_
#define CORE_COORDINATOR_STREAM_ATTACH_STREAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/proto/coordinator.pb.h"
#include "grpcpp/support/byte_buffer.h"

namespace millrace {

// Thread safety: implementations are thread-safe. Blocking: never.
class AttachStream {
 public:
  virtual ~AttachStream() = default;

  // Queues a message; nothing is called. Dropped after Close(). A queue over its bound drops the
  // stream: its agent does not read.
  virtual void Enqueue(const grpc::ByteBuffer& message) = 0;

  // Queues the end of the stream. OK: after all messages; otherwise in place of those not written.
  virtual void Close(const absl::Status& status) = 0;

  // Writes what is queued. Calls into gRPC: never with a lock held.
  virtual void Flush() = 0;
};

// Whom streams tell what arrives. Called with no lock held. Thread safety: implementations are
// thread-safe. Blocking: never.
class AttachHandler {
 public:
  virtual ~AttachHandler() = default;

  // Registers the agent behind `stream`. Returns the id for the calls below, or the status to end
  // the stream with.
  virtual absl::StatusOr<uint64_t> Register(const std::shared_ptr<AttachStream>& stream,
                                            const v1::Register& message) = 0;
  // One message after Register. Not OK: the stream must end with that status.
  virtual absl::Status Handle(uint64_t stream_id, v1::AgentMessage message) = 0;
  // As Handle() with a heartbeat for each.
  virtual void HandleHeartbeats(const std::vector<uint64_t>& stream_ids) {
    for (const uint64_t id : stream_ids) Handle(id, {}).IgnoreError();
  }
  // Idempotent.
  virtual void StreamEnded(uint64_t stream_id) = 0;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STREAM_ATTACH_STREAM_H_
