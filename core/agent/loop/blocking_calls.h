// File: core/agent/loop/blocking_calls.h
//
// Calls that wait, each on a thread of its own, so that the main thread never does.
//
//   BlockingCalls calls(&loop);
//   calls.Start([&] { return ToJson(coordinator->WaitRunning()); },
//               [&](const absl::StatusOr<Json>& outcome) { parent.Reply(id, outcome); });

#ifndef CORE_AGENT_LOOP_BLOCKING_CALLS_H_
#define CORE_AGENT_LOOP_BLOCKING_CALLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/json.h"
#include "core/base/thread.h"

namespace millrace {

// Ownership: the loop must outlive it. Thread safety: the loop's thread only; bodies run on threads
// "parent-call". Blocking: the destructor waits for the bodies that still run: make them return
// first.
class BlockingCalls {
 public:
  static constexpr int kMaxCalls = 64;

  using Body = std::function<absl::StatusOr<Json>()>;
  using Done = std::function<void(const absl::StatusOr<Json>&)>;

  explicit BlockingCalls(EventLoop* loop) : loop_(loop) {}
  ~BlockingCalls() = default;
  BlockingCalls(const BlockingCalls&) = delete;
  BlockingCalls& operator=(const BlockingCalls&) = delete;

  // Runs `body`, then `done` on the loop's thread (not once this object is gone). If kMaxCalls are
  // under way or there is no thread to be had, `done` gets RESOURCE_EXHAUSTED at once.
  void Start(Body body, Done done);

  [[nodiscard]] bool idle() const { return threads_.empty(); }

 private:
  EventLoop* const loop_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted closures
  uint64_t next_id_ = 0;
  std::map<uint64_t, Thread> threads_;
};

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_BLOCKING_CALLS_H_
