// File: core/agent/node/control_channel.h
//
// The agent's side of the control channel: a socketpair, frames of JSON, bounded in both
// directions. core/agent/node/node_requests.h says what the frames mean.
//
// Defines: ControlChannel, EncodeFrame().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto channel, ControlChannel::Create(&loop, {
//       .on_frame = [&](const Json& frame) { ... },
//       .on_closed = [&](absl::string_view why) { ... }}));
//   UniqueFd node_end = channel->TakeNodeEnd();   // goes to the child
//   channel->Send(Json{{"push", "stop"}, {"reason", "shutdown"}});
//
// A node that breaks the protocol (a frame over 4 MiB, no JSON object), does not read what it is
// sent, or closes its end, loses the channel. From then on it is treated as a plain process, and
// one warning is logged.

#ifndef CORE_AGENT_NODE_CONTROL_CHANNEL_H_
#define CORE_AGENT_NODE_CONTROL_CHANNEL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/json.h"
#include "core/base/unique_fd.h"

namespace millrace {

// `frame` as it goes over the socket: u32 little-endian length, then JSON.
[[nodiscard]] std::string EncodeFrame(const Json& frame);

// Ownership: the loop must outlive it. Thread safety: the loop's thread only. Blocking: never.
class ControlChannel {
 public:
  static constexpr size_t kMaxFrameBytes = size_t{4} << 20;
  // Above the first nothing more is read from the node; above the second the channel is closed.
  static constexpr size_t kPauseReadingBytes = size_t{1} << 20;
  static constexpr size_t kMaxUnsentBytes = size_t{32} << 20;

  struct Callbacks {
    // A frame that is a JSON object.
    absl::AnyInvocable<void(const Json&)> on_frame;
    // The channel is closed, by whoever; called once, never from Send() or Close().
    absl::AnyInvocable<void()> on_closed;
  };

  // Returns RESOURCE_EXHAUSTED if the process has no descriptor left.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ControlChannel>> Create(EventLoop* loop,
                                                                              Callbacks callbacks);
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  // The node's end, close-on-exec; valid once. Close it here after fork, or EOF is never seen.
  [[nodiscard]] UniqueFd TakeNodeEnd() { return std::move(node_end_); }

  // Queues a frame. Dropped if the channel is closed or `frame` would be over kMaxFrameBytes.
  void Send(const Json& frame);

  // Handles what the node has written so far; for a node that has ended.
  void Drain();

  // Closes the agent's end; what is unsent is lost.
  void Close();
  [[nodiscard]] bool closed() const { return !fd_.valid(); }

 private:
  ControlChannel(EventLoop* loop, UniqueFd fd, UniqueFd node_end, Callbacks callbacks);
  void OnReady(uint32_t events);
  // Returns whether the channel can still be read.
  bool ReadSome();
  void HandleFrames();
  void WriteSome();
  void UpdateEvents();
  void Fail(absl::string_view why);
  [[nodiscard]] size_t unsent_bytes() const { return out_.size() - out_start_; }

  EventLoop* const loop_;
  UniqueFd fd_;
  UniqueFd node_end_;
  Callbacks callbacks_;
  std::string in_;  // at most one frame and one read
  std::string out_;
  size_t out_start_ = 0;                                 // bytes of out_ already sent
  EventLoop::TimerId fail_timer_ = EventLoop::kNoTimer;  // set: about to be closed
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_CONTROL_CHANNEL_H_
