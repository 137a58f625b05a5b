#include "core/cluster/stop_request.h"

#include <utility>

namespace millrace {

void StopRequest::Request(absl::string_view reason, bool now) {
  std::string first;
  {
    MutexLock lock(&mu_);
    if (requested_ && (now_ || !now)) return;
    if (!requested_) reason_ = std::string(reason);
    requested_ = true;
    now_ = now;
    first = reason_;
  }
  Call(first, now);
}

void StopRequest::Call(const std::string& reason, bool now) {
  Handler handler;
  {
    MutexLock lock(&mu_);
    if (!handler_) return;
    handler = handler_;
    ++calls_;
  }
  handler(reason, now);
  MutexLock lock(&mu_);
  --calls_;
  idle_.SignalAll();
}

bool StopRequest::requested() const {
  MutexLock lock(&mu_);
  return requested_;
}

absl::Status StopRequest::status() const {
  MutexLock lock(&mu_);
  return requested_ ? absl::CancelledError(reason_) : absl::OkStatus();
}

void StopRequest::Attach(Handler handler) {
  std::string reason;
  bool now = false;
  {
    MutexLock lock(&mu_);
    handler_ = std::move(handler);
    if (!requested_) return;
    reason = reason_;
    now = now_;
  }
  Call(reason, now);
}

void StopRequest::Detach() {
  MutexLock lock(&mu_);
  handler_ = nullptr;
  while (calls_ > 0) idle_.Wait(&mu_);
}

}  // namespace millrace
