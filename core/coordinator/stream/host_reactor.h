// File: core/coordinator/stream/host_reactor.h
//
// The server's side of one AttachHost stream: the streams of all agents of a host in one.
//
// Defines: HostReactor.
//
// gRPC's contract is as in core/coordinator/stream/attach_reactor.h, and so is what a channel means
// to the control plane: an AttachStream. What several channels are told with the same bytes is
// written once.

#ifndef CORE_COORDINATOR_STREAM_HOST_REACTOR_H_
#define CORE_COORDINATOR_STREAM_HOST_REACTOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/coordinator/stream/attach_reactor.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/stream/live_calls.h"
#include "core/proto/coordinator.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {

// Ownership: keeps itself alive until OnDone; the control plane holds references through the
// channels that are registered. Thread safety: thread-safe. Blocking: never.
class HostReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static constexpr size_t kMaxChannels = 1024;

  // As AttachReactor::Create(). What may wait for a host is kHostLimits times `limits`.
  static HostReactor* Create(grpc::CallbackServerContext* context, const absl::Status& admitted,
                             const AttachLimits& limits, AttachHandler* agents, LiveCalls* calls);

  // ServerBidiReactor:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  static constexpr size_t kHostLimits = 8;
  // A message to the host is closed once it has so much.
  static constexpr size_t kBatchBytes = size_t{128} << 10;

  // One agent of the host.
  class Channel;
  // Told to `channels`, in order with the others: bytes, or the end of each.
  struct Part {
    std::vector<uint32_t> channels;
    grpc::ByteBuffer message;
    std::string end;  // a serialised HostEnd field; empty: none
  };

  HostReactor(grpc::CallbackServerContext* context, const AttachLimits& limits,
              AttachHandler* agents, LiveCalls* calls);

  // For channels.
  void Enqueue(uint32_t channel, const grpc::ByteBuffer& message);
  void CloseChannel(uint32_t channel, const absl::Status& status);
  void Flush();

  // What arrived. Not OK: the whole stream ends with it.
  absl::Status Receive();
  absl::Status ReceivePart(v1::HostPart* part);
  // One message on an open channel; not OK: the channel ends with it.
  absl::Status ReceiveMessage(const std::shared_ptr<Channel>& channel, const std::string& bytes);
  // Every channel has lost its stream.
  void EndAll();
  void CloseLocked(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The next message to the host, from the front of the queue.
  grpc::ByteBuffer TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  grpc::CallbackServerContext* const context_;
  const AttachLimits limits_;
  AttachHandler* const agents_;
  LiveCalls* const calls_;
  std::shared_ptr<HostReactor> self_;  // until OnDone

  // Reads are one at a time, so these belong to whoever reacts to the read.
  grpc::ByteBuffer incoming_;
  uint32_t last_channel_ = 0;  // the highest number that was used

  Mutex mu_;
  // Open: neither side has ended them.
  std::map<uint32_t, std::shared_ptr<Channel>> channels_ ABSL_GUARDED_BY(mu_);
  std::deque<Part> queue_ ABSL_GUARDED_BY(mu_);
  size_t queued_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Unchanged while writing_; a fresh object for each write, as in AttachReactor.
  std::unique_ptr<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> close_ ABSL_GUARDED_BY(mu_);  // set once; nothing is queued after
  bool cancel_ ABSL_GUARDED_BY(mu_) = false;                // the write in flight must be given up
  bool finished_ ABSL_GUARDED_BY(mu_) = false;              // Finish was called
  bool done_ ABSL_GUARDED_BY(mu_) = false;                  // context_ is gone
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_STREAM_HOST_REACTOR_H_
