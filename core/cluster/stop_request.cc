#include "millrace/stop_request.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "core/base/mutex.h"

namespace millrace {

class [[gnu::visibility("hidden")]] StopRequest::State {
 public:
  void Request(absl::string_view reason, bool now);
  bool requested() const;
  absl::Status status() const;
  void Attach(Handler handler);
  void Detach();

 private:
  void Call(const std::string& reason, bool now);

  mutable Mutex mu_;
  CondVar idle_;
  Handler handler_ ABSL_GUARDED_BY(mu_);
  int calls_ ABSL_GUARDED_BY(mu_) = 0;  // under way
  bool requested_ ABSL_GUARDED_BY(mu_) = false;
  bool now_ ABSL_GUARDED_BY(mu_) = false;
  std::string reason_ ABSL_GUARDED_BY(mu_);
};

void StopRequest::State::Request(absl::string_view reason, bool now) {
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

void StopRequest::State::Call(const std::string& reason, bool now) {
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

bool StopRequest::State::requested() const {
  MutexLock lock(&mu_);
  return requested_;
}

absl::Status StopRequest::State::status() const {
  MutexLock lock(&mu_);
  return requested_ ? absl::CancelledError(reason_) : absl::OkStatus();
}

void StopRequest::State::Attach(Handler handler) {
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

void StopRequest::State::Detach() {
  MutexLock lock(&mu_);
  handler_ = nullptr;
  while (calls_ > 0) idle_.Wait(&mu_);
}

StopRequest::StopRequest() : state_(std::make_unique<State>()) {}
StopRequest::~StopRequest() = default;

void StopRequest::Request(absl::string_view reason, bool now) { state_->Request(reason, now); }
bool StopRequest::requested() const { return state_->requested(); }
absl::Status StopRequest::status() const { return state_->status(); }
void StopRequest::Attach(Handler handler) { state_->Attach(std::move(handler)); }
void StopRequest::Detach() { state_->Detach(); }

}  // namespace millrace
