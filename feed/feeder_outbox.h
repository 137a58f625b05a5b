// File: feed/feeder_outbox.h
//
// What sessions ask of the feeder's socket thread. Internal to feed/feeder.h.
//
// Defines: FeederCommand, FeederOutbox.

#ifndef FEED_FEEDER_OUTBOX_H_
#define FEED_FEEDER_OUTBOX_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "feed/frame.h"
#include "feed/ipc.h"
#include "feed/zmq_socket.h"

namespace millrace {

class FeedSession;

struct FeederCommand {
  enum class Kind {
    kOpen,    // connect if need be and send OPEN
    kFrame,   // send a frame
    kClose,   // forget the session; with ABORT if `metadata` is not empty
    kPoison,  // the node of the session sent what does not decode (`reason`)
  };
  Kind kind;
  std::shared_ptr<FeedSession> session;
  FrameType type{};             // kFrame
  std::string metadata;         // kFrame, kClose
  std::vector<BodyPart> parts;  // kFrame
  absl::Status reason;          // kPoison
};

// An unbounded queue: credit bounds what sessions put in.
// Ownership: shared by the socket thread and the sessions, which may outlive it.
// Thread safety: thread-safe. Blocking: never.
class FeederOutbox {
 public:
  explicit FeederOutbox(WakeFd wake) : wake_(std::move(wake)) {}

  // Drops the command once the outbox is closed.
  void Push(FeederCommand command) {
    {
      MutexLock lock(&mu_);
      if (closed_) return;
      commands_.push_back(std::move(command));
      if (commands_.size() > 1) return;  // the thread was woken for the first one
    }
    wake_.Wake();
  }

  // Takes what was pushed, in order. Socket thread only.
  [[nodiscard]] std::vector<FeederCommand> Take() {
    wake_.Clear();
    MutexLock lock(&mu_);
    return std::exchange(commands_, {});
  }

  void Close() {
    {
      MutexLock lock(&mu_);
      closed_ = true;
    }
    wake_.Wake();
  }

  [[nodiscard]] bool closed() const {
    MutexLock lock(&mu_);
    return closed_;
  }

  [[nodiscard]] const WakeFd& wake() const { return wake_; }

 private:
  const WakeFd wake_;
  mutable Mutex mu_;
  std::vector<FeederCommand> commands_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace millrace

#endif  // FEED_FEEDER_OUTBOX_H_
