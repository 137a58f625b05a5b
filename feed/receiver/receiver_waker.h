// File: feed/receiver/receiver_waker.h
//
// Wakes the receiver's socket thread. A program that reads batches does so many times for each turn
// of the loop, so a wake-up that the loop has not seen yet costs no system call.
//
// Defines: ReceiverWaker.
//
//   waker.Wake();                        // any thread, after the change that it announces
//   ...
//   poller.Wait(...); waker.Clear();     // the loop, before it looks for changes

#ifndef FEED_RECEIVER_RECEIVER_WAKER_H_
#define FEED_RECEIVER_RECEIVER_WAKER_H_

#include <atomic>
#include <utility>

#include "feed/wire/poller.h"

namespace millrace {

// Thread safety: Wake() from any thread; Clear() by the loop alone. Blocking: never.
class ReceiverWaker {
 public:
  explicit ReceiverWaker(WakeFd fd) : fd_(std::move(fd)) {}

  // Makes the current or next wait for fd() return.
  void Wake() {
    if (!pending_.exchange(true)) fd_.Wake();
  }

  // Takes the wake-ups so far. The descriptor first: a Wake() in between then finds pending_ set,
  // and what it announces is looked at after this. The other way round, its wake-up would be taken
  // from the descriptor while pending_ stays set, and no later one would reach the loop. An
  // exchange, so that what came before each of those Wake() is seen.
  void Clear() {
    fd_.Clear();
    pending_.exchange(false);
  }

  [[nodiscard]] const WakeFd& fd() const { return fd_; }

 private:
  WakeFd fd_;
  std::atomic<bool> pending_{false};
};

}  // namespace millrace

#endif  // FEED_RECEIVER_RECEIVER_WAKER_H_
