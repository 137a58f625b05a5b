// File: core/base/thread_checker.h
//
// Lets a single-threaded class check its claim.
//
//   void SlotTable::Register(...) {
//     MILLRACE_DCHECK(thread_.IsOnSameThread());
//     ...
//   }

#ifndef CORE_BASE_THREAD_CHECKER_H_
#define CORE_BASE_THREAD_CHECKER_H_

#include <atomic>
#include <thread>

namespace millrace {

// Thread safety: thread-safe. Blocking: never.
class ThreadChecker {
 public:
  // True if this is the thread of the first call (the first call binds and returns true).
  [[nodiscard]] bool IsOnSameThread() const {
    std::thread::id bound;  // no thread
    const std::thread::id self = std::this_thread::get_id();
    return thread_.compare_exchange_strong(bound, self) || bound == self;
  }

  // Forgets the thread; the next IsOnSameThread() binds again. For an object handed over to another
  // thread; the hand-over itself must synchronise.
  void Detach() { thread_.store(std::thread::id()); }

 private:
  mutable std::atomic<std::thread::id> thread_{};
};

}  // namespace millrace

#endif  // CORE_BASE_THREAD_CHECKER_H_
