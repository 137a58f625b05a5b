// File: core/agent/node/node_sampler.h
//
// Measures one run of the node at intervals and tells the coordinator: its processes, and what the
// node says of its feed when it is asked.
//
//   NodeSampler sampler(&loop, {.ask = ..., .send = ...});
//   sampler.Start(pid, attempt, absl::Seconds(1));
//   sampler.OnFeed(feed);       // the node's answer to ask()
//   sampler.Finish();           // a last one; nothing follows

#ifndef CORE_AGENT_NODE_NODE_SAMPLER_H_
#define CORE_AGENT_NODE_NODE_SAMPLER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/clock.h"
#include "core/proto/sample.pb.h"

namespace millrace {

// Ownership: loop and clock must outlive it. Thread safety: the loop's thread only.
// Blocking: never (procfs).
class NodeSampler {
 public:
  struct Hooks {
    // Asks the node for its feed; OnFeed() may follow.
    std::function<void()> ask;
    std::function<void(const v1::NodeSample&)> send;
  };

  NodeSampler(EventLoop* loop, Hooks hooks, Clock* clock = RealClock());
  ~NodeSampler();
  NodeSampler(const NodeSampler&) = delete;
  NodeSampler& operator=(const NodeSampler&) = delete;

  // The process runs: samples it now, and then each `interval`.
  void Start(pid_t pid, uint32_t attempt, absl::Duration interval);
  // `feed` has the members of NodeSample that are about the feed; it goes with the next sample.
  void OnFeed(const v1::NodeSample& feed);
  // The program has come to `step` of its own counting.
  void OnStep(int64_t step);
  // The process has ended.
  void Finish();

 private:
  void Tick();
  void Send();

  EventLoop* const loop_;
  const Hooks hooks_;
  Clock* const clock_;
  absl::Duration interval_;
  pid_t pid_ = 0;  // 0: does not run
  v1::NodeSample sample_;
  EventLoop::TimerId timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_NODE_SAMPLER_H_
