// File: core/agent/node/log_relay.h
//
// Lines of the node's output on their way to the coordinator: in batches, within a rate. What is
// over the rate is dropped and counted; the file in log_dir has everything. The agent's own lines
// are under no rate.
//
//   LogRelay relay(&loop, {}, [&](v1::LogLines lines) { return link.SendDroppable(lines); });
//   relay.Add(v1::LogLines::SOURCE_STDERR, "loss is nan");

#ifndef CORE_AGENT_NODE_LOG_RELAY_H_
#define CORE_AGENT_NODE_LOG_RELAY_H_

#include <cstdint>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/clock.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Ownership: loop and clock must outlive it. Thread safety: the loop's thread only.
// Blocking: never.
class LogRelay {
 public:
  struct Options {
    int64_t bytes_per_second = int64_t{64} << 10;
    int64_t burst_bytes = int64_t{256} << 10;
    int max_lines = 200;  // in a message
    // The longest time for which a line waits for others; a line of stderr that follows a pause
    // does not wait.
    absl::Duration delay = absl::Milliseconds(100);
    Clock* clock = RealClock();
  };
  // Sends a batch; false if it could not be taken (its lines then count as dropped).
  using Sink = absl::AnyInvocable<bool(const v1::LogLines&)>;

  LogRelay(EventLoop* loop, Options options, Sink sink);
  ~LogRelay();
  LogRelay(const LogRelay&) = delete;
  LogRelay& operator=(const LogRelay&) = delete;

  void set_attempt(uint32_t attempt) { attempt_ = attempt; }
  // Four seconds' worth may come in a burst.
  void set_rate(int64_t bytes_per_second);

  // `line` must be valid UTF-8.
  void Add(v1::LogLines::Source source, std::string line);
  // Sends what waits, and the count of what was dropped.
  void Flush();

 private:
  bool TakeTokens(int64_t bytes);

  EventLoop* const loop_;
  Options options_;
  Sink sink_;
  uint32_t attempt_ = 0;
  v1::LogLines batch_;    // of one source
  uint64_t dropped_ = 0;  // not yet reported
  double tokens_;         // bytes that may be sent now, at most burst_bytes
  absl::Duration stderr_flushed_ = -absl::InfiniteDuration();  // steady
  absl::Duration refilled_;  // steady time up to which tokens_ counts
  EventLoop::TimerId timer_ = EventLoop::kNoTimer;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_LOG_RELAY_H_
