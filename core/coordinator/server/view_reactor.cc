#include "core/coordinator/server/view_reactor.h"

#include <utility>

#include "core/proto/grpc_status.h"

namespace millrace {

std::shared_ptr<ViewReactor> ViewReactor::Create(WatchHub* hub, LiveCalls* calls) {
  std::shared_ptr<ViewReactor> reactor(new ViewReactor(hub, calls));
  reactor->self_ = reactor;
  return reactor;
}

uint64_t ViewReactor::id() const {
  MutexLock lock(&mu_);
  return id_;
}

void ViewReactor::Begin(absl::FunctionRef<absl::Status(uint64_t id)> add) {
  const uint64_t id = hub_->NewId();
  {
    MutexLock lock(&mu_);
    id_ = id;
  }
  if (absl::Status added = add(id); !added.ok()) {
    End(added);
    return;
  }
  bool over = false;
  {
    MutexLock lock(&mu_);
    over = end_.has_value();  // it was cancelled before the hub had it
  }
  if (over) hub_->Remove(id);
}

void ViewReactor::Write(grpc::ByteBuffer message) {
  const grpc::ByteBuffer* outgoing = nullptr;
  {
    MutexLock lock(&mu_);
    if (writing_ || end_.has_value()) return;
    outgoing_ = std::make_unique<grpc::ByteBuffer>(std::move(message));
    outgoing = outgoing_.get();
    writing_ = true;  // until OnWriteDone nobody else writes or finishes
  }
  StartWrite(outgoing);
}

void ViewReactor::End(const absl::Status& status) {
  {
    MutexLock lock(&mu_);
    if (!end_.has_value()) end_ = status;
    if (writing_ || finished_) return;
    finished_ = true;
  }
  Finish(ToGrpcStatus(status));
}

void ViewReactor::OnWriteDone(bool ok) {
  std::optional<absl::Status> end;
  {
    MutexLock lock(&mu_);
    writing_ = false;
    outgoing_.reset();
    if (!ok && !end_.has_value()) end_ = absl::CancelledError("the stream broke");
    end = end_;
  }
  if (end.has_value()) {
    End(*end);
  } else {
    hub_->Written(id());
  }
}

void ViewReactor::OnCancel() {
  if (const uint64_t mine = id(); mine != 0) hub_->Remove(mine);
  End(absl::CancelledError("the call was cancelled"));
}

void ViewReactor::OnDone() {
  if (const uint64_t mine = id(); mine != 0) hub_->Remove(mine);
  LiveCalls* const calls = calls_;
  // The hub may still be about to write; then the last reference is its own.
  const std::shared_ptr<ViewReactor> self = std::move(self_);
  calls->End();
}

}  // namespace millrace
