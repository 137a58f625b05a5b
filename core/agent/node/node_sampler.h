// File: core/agent/node/node_sampler.h
//
// Measures one run of the node at intervals and tells the coordinator: its processes, and what the
// node says of its feed.
//
//   NodeSampler sampler(&loop, [](const v1::NodeSample& sample) { ... });
//   sampler.Start(pid, attempt, absl::Seconds(1));
//   sampler.OnFeed(feed);       // the node says so at its interval: goes out at once
//   sampler.Finish();           // a last one; nothing follows

#ifndef CORE_AGENT_NODE_NODE_SAMPLER_H_
#define CORE_AGENT_NODE_NODE_SAMPLER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/proto/sample.pb.h"

namespace millrace {

// A node that has a feed sets the pace: a sample goes out when it says what its feed is like, so
// that the coordinator has both parts as they are now. A node without one, or one that falls
// silent, is sampled by a timer.
//
// Ownership: loop must outlive it. Thread safety: the loop's thread only.
// Blocking: never (procfs).
class NodeSampler {
 public:
  using SendFn = std::function<void(const v1::NodeSample&)>;

  NodeSampler(EventLoop* loop, SendFn send);
  ~NodeSampler();
  NodeSampler(const NodeSampler&) = delete;
  NodeSampler& operator=(const NodeSampler&) = delete;

  // The process runs: samples it now, and then each `interval`.
  void Start(pid_t pid, uint32_t attempt, absl::Duration interval);
  // `feed` has the members of NodeSample that are about the feed. It is sent at once; from a node
  // that says it more than twice as often as each `interval`, with the next sample.
  void OnFeed(const v1::NodeSample& feed);
  // The program has come to `step` of its own counting.
  void OnStep(int64_t step);
  // The process has ended.
  void Finish();

 private:
  // Sends, and again by the timer if the node does not come first.
  void Sample();

  EventLoop* const loop_;
  const SendFn send_;
  absl::Duration interval_;
  pid_t pid_ = 0;           // 0: does not run
  bool paced_ = false;      // by the node
  absl::Duration sampled_;  // steady: when the last one was sent
  v1::NodeSample sample_;
  EventLoop::TimerId timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_NODE_SAMPLER_H_
