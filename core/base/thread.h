// File: core/base/thread.h
//
// A thread with a name that joins itself.
//
//   class Poller {
//    public:
//     Poller() : thread_("poller", [this] { Run(); }) {}
//     ~Poller() { stop_.Notify(); }        // thread_ is the last member: joined first
//    private:
//     Notification stop_;
//     Thread thread_;
//   };
//
// The child starts with every signal blocked, except those that a fault raises in the thread itself
// (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT) and SIGPROF: signals are handled by
// the main thread alone. Who forks from such a thread resets the mask in the child before exec.

#ifndef CORE_BASE_THREAD_H_
#define CORE_BASE_THREAD_H_

#include <pthread.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Movable, not copyable. Thread safety: not thread-safe (the handle, that is).
class [[nodiscard]] Thread {
 public:
  // A handle without a thread.
  Thread() = default;

  // Starts `body` at once. Ends the process if the system has no thread left; Start() does not.
  // `name` is cut to 15 bytes, the kernel's limit. An exception that leaves `body` ends the
  // process.
  Thread(absl::string_view name, absl::AnyInvocable<void()> body);

  // As the constructor. Returns RESOURCE_EXHAUSTED or UNAVAILABLE if no thread can be made.
  [[nodiscard]] static absl::StatusOr<Thread> Start(absl::string_view name,
                                                    absl::AnyInvocable<void()> body);

  Thread(Thread&& other) noexcept;
  // Joins the thread held before, if any.
  Thread& operator=(Thread&& other) noexcept;
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  // Joins.
  ~Thread();

  [[nodiscard]] bool joinable() const { return handle_.has_value(); }

  // Blocks until `body` has returned; does nothing if there is no thread (any more). A thread must
  // not join itself (ends the process).
  void Join();

 private:
  std::optional<pthread_t> handle_;
#ifdef MILLRACE_INTERNAL_SCHEDULED_THREADS
  uint64_t scheduled_ = 0;  // its number in a run of ThreadScheduler
#endif
};

// Names the calling thread, as shown in logs, /proc and debuggers; cut to 15 bytes.
void SetCurrentThreadName(absl::string_view name);

// The calling thread's name. The main thread has the program's name.
[[nodiscard]] std::string CurrentThreadName();

}  // namespace millrace

#endif  // CORE_BASE_THREAD_H_
