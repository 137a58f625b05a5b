// File: core/coordinator/server/view_reactor.h
//
// The server's side of one Watch or ReadLogs call.
//
// Defines: ViewReactor.

#ifndef CORE_COORDINATOR_SERVER_VIEW_REACTOR_H_
#define CORE_COORDINATOR_SERVER_VIEW_REACTOR_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/coordinator/stream/live_calls.h"
#include "core/coordinator/view/watch_hub.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {

// gRPC's contract is quoted in attach_reactor.h.
// Ownership: keeps itself alive until OnDone; the hub holds a reference while it feeds it.
// Thread safety: thread-safe. Blocking: never.
class ViewReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer>, public ViewStream {
 public:
  // `hub` and `calls` are not owned and outlive OnDone. Begin() or End() must follow.
  static std::shared_ptr<ViewReactor> Create(WatchHub* hub, LiveCalls* calls);

  // `add` gives this call to the hub under that id; its error ends the call.
  void Begin(absl::FunctionRef<absl::Status(uint64_t id)> add);

  // ViewStream:
  void Write(grpc::ByteBuffer message) override;
  void End(const absl::Status& status) override;

  // ServerWriteReactor:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  ViewReactor(WatchHub* hub, LiveCalls* calls) : hub_(hub), calls_(calls) { calls_->Begin(); }
  uint64_t id() const;

  WatchHub* const hub_;
  LiveCalls* const calls_;
  std::shared_ptr<ViewReactor> self_;  // until OnDone

  mutable Mutex mu_;
  uint64_t id_ ABSL_GUARDED_BY(mu_) = 0;  // 0: the hub does not have it
  // Unchanged while writing_; a fresh object for each write (see AttachReactor).
  std::unique_ptr<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mu_);
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_VIEW_REACTOR_H_
