// File: testing/schedules/feed_wire.h
//
// The feed without sockets: FeedSessions on one side, a ReceiverCore for each attempt of a node on
// the other, and between them frames that take their time, and connections that break. Both sides
// are the product's own but for the loops that serve their sockets, which are short here. Test
// only.
//
// Defines: WiredNode, FeedWire.
//
//   FeedWire wire;
//   auto node = std::make_shared<WiredNode>(&wire, "worker:0", /*executor_id=*/0, /*attempt=*/0,
//                                           budget_bytes);
//   wire.Add(node);
//   directory.Set(node->target());
//   TrainJob job(&wire, &directory, ...);         // feeds node->core()
//   wire.Break(node.get());
//   node->Kill();

#ifndef TESTING_SCHEDULES_FEED_WIRE_H_
#define TESTING_SCHEDULES_FEED_WIRE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/balance/feed_target.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "feed/feeder/feeder_outbox.h"
#include "feed/feeder/feeder_session.h"
#include "feed/ipc/ipc.h"
#include "feed/receiver/equal_steps.h"
#include "feed/receiver/receiver_core.h"
#include "feed/wire/frame.h"

namespace millrace {

// What goes over a connection.
struct WireItem {
  uint64_t connection = 0;
  absl::Duration at;  // steady time of its arrival
  bool lost = false;  // no frame: the connection is lost
  FrameHeader header;
  std::string metadata;
  std::vector<BodyPart> body;
};

// Frames in one direction, in order.
class WireQueue {
 public:
  void Push(WireItem item);
  // The first one, if it has arrived.
  [[nodiscard]] std::optional<WireItem> Take(absl::Duration now);
  // When the first one arrives.
  [[nodiscard]] absl::Duration next() const;
  // The connection is lost: what was under way arrives up to somewhere.
  void Cut(uint64_t connection, absl::Duration now);
  // How long all were under way, added up.
  [[nodiscard]] absl::Duration delays() const { return delays_; }

 private:
  std::deque<WireItem> items_;
  absl::Duration delays_;
};

class FeedWire;

// One attempt of a node: its ReceiverCore, and the thread that brings it frames.
// Thread safety: thread-safe. Lifetime: within that of its FeedWire.
class WiredNode {
 public:
  // `tell_rows`: as ReceiverCore's.
  WiredNode(FeedWire* wire, std::string name, int executor_id, uint32_t attempt,
            int64_t budget_bytes, std::function<void(const ReceiverRows&)> tell_rows = nullptr);
  // Ends the thread.
  ~WiredNode();
  WiredNode(const WiredNode&) = delete;
  WiredNode& operator=(const WiredNode&) = delete;

  [[nodiscard]] const FeedTarget& target() const { return target_; }
  [[nodiscard]] const std::shared_ptr<ReceiverCore>& core() const { return core_; }

  // As SIGKILL does: from here on nothing of it is seen. What its program's thread is told lets it
  // end.
  void Kill();
  [[nodiscard]] bool dead();
  // The process ends by itself: what it has sent is delivered.
  void Leave();

 private:
  friend class FeedWire;
  struct Session {
    ReceiverCore::SessionPtr core;
    uint64_t connection = 0;
    uint64_t next_seq = 0;
    std::optional<BatchDecoder> decoder;
  };

  void Run();
  void Handle(WireItem item);
  [[nodiscard]] absl::Status HandleInSession(Session* session, WireItem item);
  void Lose(uint64_t connection);

  FeedWire* const wire_;
  const FeedTarget target_;
  std::shared_ptr<ReceiverCore> core_;
  std::map<uint64_t, Session> sessions_;  // of the thread
  // Guarded by the wire's lock.
  CondVar changed_;
  bool woken_ = false;
  bool dead_ = false;
  bool leaves_ = false;
  uint64_t connection_ = 0;  // the present one
  WireQueue to_node_;
  WireQueue to_feeder_;
  Thread thread_;
};

// The feeder's side, and what is between.
// Thread safety: thread-safe.
class FeedWire final : public SessionOpener {
 public:
  FeedWire();
  ~FeedWire() override { Stop(); }

  void Add(const std::shared_ptr<WiredNode>& node);
  absl::StatusOr<std::shared_ptr<FeedSession>> OpenSession(const FeedTarget& target,
                                                           const SessionOptions& options) override;
  // The connection between the feeder and this node breaks; there may be another one at once.
  void Break(WiredNode* node);
  // Ends the thread. Idempotent.
  void Stop();

  // Sessions that the feeder's side has not forgotten.
  [[nodiscard]] size_t num_sessions();
  // How long frames were under way, added up.
  [[nodiscard]] absl::Duration delays();
  // What broke the protocol.
  [[nodiscard]] std::vector<std::string> faults();

 private:
  friend class WiredNode;
  class Link;
  struct Entry {
    std::shared_ptr<FeedSession> session;
    std::shared_ptr<WiredNode> node;
    uint64_t connection = 0;
    uint64_t in_seq = 0;
  };

  void Run();
  void Execute(const FeederCommand& command);
  void Handle(WiredNode* node, WireItem item);
  void AddFault(std::string what);
  void BreakLocked(WiredNode* node) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  Mutex mu_;
  CondVar changed_;
  bool woken_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t last_id_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<std::shared_ptr<WiredNode>> nodes_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> faults_ ABSL_GUARDED_BY(mu_);
  const std::shared_ptr<FeederOutbox> outbox_;
  std::map<uint64_t, Entry> sessions_;  // of the thread
  Thread thread_;
};

}  // namespace millrace

#endif  // TESTING_SCHEDULES_FEED_WIRE_H_
