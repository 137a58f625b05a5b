// File: feed/feeder/feeder_outbox.h
//
// What sessions ask of the feeder's socket thread, and what they count for it. Internal to
// feed/feeder/feeder.h.
//
// Defines: FeederCommand, FeederOutbox.

#ifndef FEED_FEEDER_FEEDER_OUTBOX_H_
#define FEED_FEEDER_FEEDER_OUTBOX_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "feed/wire/socket_turns.h"

namespace millrace {

class FeedSession;

struct FeederCommand {
  enum class Kind {
    kOpen,    // connect if need be and send OPEN
    kClose,   // forget the session
    kPoison,  // the node of the session sent what does not decode (`reason`)
    kBreak,   // a frame of the session could not be sent (`reason`)
  };
  Kind kind;
  std::shared_ptr<FeedSession> session;
  absl::Status reason;
};

// An unbounded queue: a session puts a few commands in. `wake` makes the socket thread look; it may
// be called from any thread, must not block, and may outlive that thread.
// Serving: a session's thread that waits serves the feeder's sockets itself
// (feed/wire/socket_turns.h), until `after_turn` says otherwise or `timeout` has passed; returns at
// once if another does. Ownership: shared by the socket thread and the sessions, which may outlive
// it. Thread safety: thread-safe. Blocking: never.
class FeederOutbox {
 public:
  using Serve =
      std::function<void(absl::FunctionRef<AfterTurn()> after_turn, absl::Duration timeout)>;

  explicit FeederOutbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Before sessions are made.
  void SetServe(Serve serve) { serve_ = std::move(serve); }
  // nullptr: sessions only wait.
  [[nodiscard]] const Serve& serve() const { return serve_; }
  // Counts a session's thread that begins to wait, or has (-1); returns how many wait now.
  int AddWaiting(int change) { return waiting_ += change; }

  // Drops the command once the outbox is closed.
  void Push(FeederCommand command) {
    {
      MutexLock lock(&mu_);
      if (closed_) return;
      commands_.push_back(std::move(command));
      if (commands_.size() > 1) return;  // the thread was woken for the first one
    }
    wake_();
  }

  // Takes what was pushed, in order. Socket thread only.
  [[nodiscard]] std::vector<FeederCommand> Take() {
    MutexLock lock(&mu_);
    return std::exchange(commands_, {});
  }

  void Close() {
    {
      MutexLock lock(&mu_);
      closed_ = true;
    }
    wake_();
  }

  // Ends the wait of whoever serves the sockets.
  void WakeThread() const { wake_(); }

  [[nodiscard]] bool closed() const {
    MutexLock lock(&mu_);
    return closed_;
  }

  // A reply connection was refused at `steady_now`: whose it was is not known, so this is for every
  // session that waits for its node. Socket thread only.
  void NoteRefusal(absl::string_view what, absl::Duration steady_now) {
    MutexLock lock(&mu_);
    refused_ = std::string(what);
    refused_at_ = steady_now;
  }
  // The last one, if it was not before `since`.
  [[nodiscard]] std::optional<std::string> RefusedSince(absl::Duration since) const {
    MutexLock lock(&mu_);
    if (refused_.empty() || refused_at_ < since) return std::nullopt;
    return refused_;
  }

  // A batch of `size_bytes` went out, as PLACED or as BATCH.
  void CountBatch(int64_t size_bytes, bool placed) {
    if (placed) batches_placed_.fetch_add(1, std::memory_order_relaxed);
    batches_sent_.fetch_add(1, std::memory_order_relaxed);
    bytes_sent_.fetch_add(size_bytes, std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t batches_sent() const {
    return batches_sent_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t batches_placed() const {
    return batches_placed_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] int64_t bytes_sent() const { return bytes_sent_.load(std::memory_order_relaxed); }

 private:
  const std::function<void()> wake_;
  Serve serve_;
  std::atomic<int> waiting_{0};
  mutable Mutex mu_;
  std::vector<FeederCommand> commands_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::string refused_ ABSL_GUARDED_BY(mu_);
  absl::Duration refused_at_ ABSL_GUARDED_BY(mu_);
  std::atomic<int64_t> batches_sent_{0};
  std::atomic<int64_t> bytes_sent_{0};
  std::atomic<int64_t> batches_placed_{0};
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_OUTBOX_H_
