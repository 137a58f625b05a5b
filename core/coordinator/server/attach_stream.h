// File: core/coordinator/server/attach_stream.h
//
// One agent's stream, as the control plane sees it: messages are queued under the plane's lock,
// which fixes their order, and written after it is released.
//
// Defines: AttachStream.

#ifndef CORE_COORDINATOR_SERVER_ATTACH_STREAM_H_
#define CORE_COORDINATOR_SERVER_ATTACH_STREAM_H_

#include "absl/status/status.h"
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

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_ATTACH_STREAM_H_
