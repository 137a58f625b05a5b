#include "core/base/thread.h"

#include <signal.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"

#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
#include "core/base/thread_scheduler.h"
#endif

namespace millrace {
namespace {

constexpr size_t kMaxNameBytes = 15;

struct StartInfo {
  std::string name;
  absl::AnyInvocable<void()> body;
};

// noexcept: an exception that leaves `body` is std::terminate, not unwinding through libc.
void* RunThread(void* argument) noexcept {
  const std::unique_ptr<StartInfo> info(static_cast<StartInfo*>(argument));
  SetCurrentThreadName(info->name);
  std::move(info->body)();
  return nullptr;
}

sigset_t BlockedSignals() {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF}) {
    sigdelset(&set, fault);
  }
  return set;
}

}  // namespace

Thread::Thread(absl::string_view name, absl::AnyInvocable<void()> body) {
  absl::StatusOr<Thread> started = Start(name, std::move(body));
  MILLRACE_CHECK(started.ok()) << started.status();
  *this = *std::move(started);
}

absl::StatusOr<Thread> Thread::Start(absl::string_view name, absl::AnyInvocable<void()> body) {
  auto info = std::make_unique<StartInfo>();
  info->name = std::string(name.substr(0, kMaxNameBytes));
  info->body = std::move(body);
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
  uint64_t scheduled = 0;
  if (ThreadScheduler::IsActive()) {
    info->body = ThreadScheduler::Adopt(name, std::move(info->body), &scheduled);
  }
#endif

  // The child inherits the mask at its birth, so that no signal can reach it before it has one.
  const sigset_t blocked = BlockedSignals();
  sigset_t previous;
  pthread_sigmask(SIG_BLOCK, &blocked, &previous);
  pthread_t handle;
  const int error = pthread_create(&handle, nullptr, &RunThread, info.get());
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (error != 0) {
    return absl::ErrnoToStatus(
        error,
        absl::StrCat("cannot start thread \"", name,
                     error == EAGAIN ? "\" (has this user too many processes and threads? ulimit "
                                       "-u, pids.max of its control group)"
                                     : "\""));
  }
  (void)info.release();  // RunThread owns it now
  Thread thread;
  thread.handle_ = handle;
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
  thread.scheduled_ = scheduled;
  if (scheduled != 0) ThreadScheduler::Started();
#endif
  return thread;
}

Thread::Thread(Thread&& other) noexcept { *this = std::move(other); }

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    Join();
    handle_ = std::exchange(other.handle_, std::nullopt);
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
    scheduled_ = std::exchange(other.scheduled_, 0);
#endif
  }
  return *this;
}

Thread::~Thread() { Join(); }

void Thread::Join() {
  if (!handle_.has_value()) return;
  MILLRACE_CHECK(pthread_equal(*handle_, pthread_self()) == 0) << "a thread cannot join itself";
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
  if (scheduled_ != 0) ThreadScheduler::WaitEnded(scheduled_);
#endif
  const int error = pthread_join(*handle_, nullptr);
  MILLRACE_CHECK(error == 0) << "pthread_join: " << error;
  handle_.reset();
}

void SetCurrentThreadName(absl::string_view name) {
  pthread_setname_np(pthread_self(), std::string(name.substr(0, kMaxNameBytes)).c_str());
}

std::string CurrentThreadName() {
  char name[kMaxNameBytes + 1] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof(name)) != 0) return "?";
  return name;
}

}  // namespace millrace
