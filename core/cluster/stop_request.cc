#include "millrace/stop_request.h"

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "core/base/mutex.h"

namespace millrace {

class [[gnu::visibility("hidden")]] StopRequest::State {
 public:
  void Request(absl::string_view reason, bool now);
  void Leave(absl::string_view reason);
  bool requested() const;
  absl::Status status() const;
  void Attach(Handler handler, LeaveHandler leave);
  void Detach();

 private:
  // The call of what is requested now, which counts as under way from here on, so that whoever sees
  // requested() and then calls Detach() has had it; null: nobody is there to be called.
  std::function<void()> BeginCall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Call(const std::function<void()>& call);

  mutable Mutex mu_;
  CondVar idle_;
  Handler handler_ ABSL_GUARDED_BY(mu_);
  LeaveHandler leave_handler_ ABSL_GUARDED_BY(mu_);
  int calls_ ABSL_GUARDED_BY(mu_) = 0;  // under way
  bool requested_ ABSL_GUARDED_BY(mu_) = false;
  bool leave_ ABSL_GUARDED_BY(mu_) = false;  // by Leave(), and no Request() has followed
  bool now_ ABSL_GUARDED_BY(mu_) = false;
  std::string reason_ ABSL_GUARDED_BY(mu_);
};

void StopRequest::State::Request(absl::string_view reason, bool now) {
  std::function<void()> call;
  {
    MutexLock lock(&mu_);
    if (requested_ && !leave_ && (now_ || !now)) return;
    if (!requested_) reason_ = std::string(reason);
    requested_ = true;
    leave_ = false;
    now_ = now;
    call = BeginCall();
  }
  Call(call);
}

void StopRequest::State::Leave(absl::string_view reason) {
  std::function<void()> call;
  {
    MutexLock lock(&mu_);
    if (requested_) return;
    reason_ = std::string(reason);
    requested_ = leave_ = true;
    call = BeginCall();
  }
  Call(call);
}

std::function<void()> StopRequest::State::BeginCall() {
  if (!handler_) return nullptr;
  ++calls_;
  if (leave_ && leave_handler_) {
    return [leave = leave_handler_, reason = reason_] { leave(reason); };
  }
  return [handler = handler_, reason = reason_, now = now_] { handler(reason, now); };
}

void StopRequest::State::Call(const std::function<void()>& call) {
  if (!call) return;
  call();
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

void StopRequest::State::Attach(Handler handler, LeaveHandler leave) {
  std::function<void()> call;
  {
    MutexLock lock(&mu_);
    handler_ = std::move(handler);
    leave_handler_ = std::move(leave);
    if (requested_) call = BeginCall();
  }
  Call(call);
}

void StopRequest::State::Detach() {
  MutexLock lock(&mu_);
  handler_ = nullptr;
  leave_handler_ = nullptr;
  while (calls_ > 0) idle_.Wait(&mu_);
}

StopRequest::StopRequest() : state_(std::make_unique<State>()) {}
StopRequest::~StopRequest() = default;

void StopRequest::Request(absl::string_view reason, bool now) { state_->Request(reason, now); }
void StopRequest::Leave(absl::string_view reason) { state_->Leave(reason); }
bool StopRequest::requested() const { return state_->requested(); }
absl::Status StopRequest::status() const { return state_->status(); }
void StopRequest::Attach(Handler handler, LeaveHandler leave) {
  state_->Attach(std::move(handler), std::move(leave));
}
void StopRequest::Detach() { state_->Detach(); }

}  // namespace millrace
