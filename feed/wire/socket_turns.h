// File: feed/wire/socket_turns.h
//
// Whose turn it is to serve a receiver's or a feeder's sockets. ZeroMQ's sockets are for one thread
// at a time, not for one thread: a program that waits for rows, credit or results serves them
// itself, so that they reach it without a hand-over between threads; while it computes, a socket
// thread does.
//
// Defines: AfterTurn, SocketTurns.
//
//   turns.TakeAsSocketThread();                  // the socket thread
//   while (!turns.wanted()) Turn();
//   turns.Give();
//
//   if (turns.TryLead(wake)) {                   // a program that waits
//     while (!done) Turn();
//     turns.StopLeading(/*yield=*/false);
//   }

#ifndef FEED_WIRE_SOCKET_TURNS_H_
#define FEED_WIRE_SOCKET_TURNS_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace millrace {

// What a thread that serves sockets while it waits for something does after a turn.
enum class AfterTurn {
  kGoOn,
  kLeave,  // it has what it wants
  kYield,  // and other threads wait on
};

// A lock over the sockets, held across whole turns, with an understanding of who should have it.
// Each holder sees what the one before has done.
//
// Thread safety: thread-safe. Blocking: as said.
class SocketTurns {
 public:
  // How long the socket thread leaves the sockets alone after a program has served them: one that
  // reads batch after batch comes back sooner and finds them free.
  static constexpr absl::Duration kLease = absl::Milliseconds(2);

  // ---- The socket thread.

  // Blocks until the sockets are free and no program has led for kLease; after Stop(), until they
  // are free.
  void TakeAsSocketThread();
  // A program wants to lead: Give() soon.
  [[nodiscard]] bool wanted() const { return leading_.load(std::memory_order_relaxed); }

  // ---- A program that waits.

  // False if another leads, or after Stop(). Otherwise blocks until the sockets are this thread's;
  // `wake` makes the socket thread end its turn, and is called without a lock.
  [[nodiscard]] bool TryLead(absl::FunctionRef<void()> wake);
  // `yield`: the socket thread shall go on at once, since others wait.
  void StopLeading(bool yield);

  // ---- Anyone with a quick thing to do.

  // Does not block.
  [[nodiscard]] bool TryTake();
  // After TakeAsSocketThread() or TryTake().
  void Give();

  // Nobody leads any more but who does; that one looks at stopped() after each turn.
  void Stop();
  [[nodiscard]] bool stopped() const { return stopped_.load(); }

 private:
  void GiveLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::atomic<bool> leading_{false};  // written under mu_
  std::atomic<bool> stopped_{false};  // written under mu_

  Mutex mu_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mu_) = false;
  int sleepers_ ABSL_GUARDED_BY(mu_) = 0;              // those to signal when the sockets get free
  absl::Duration lead_since_ ABSL_GUARDED_BY(mu_){};   // steady
  absl::Duration lease_until_ ABSL_GUARDED_BY(mu_){};  // steady
};

}  // namespace millrace

#endif  // FEED_WIRE_SOCKET_TURNS_H_
