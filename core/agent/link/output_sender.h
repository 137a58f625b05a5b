// File: core/agent/link/output_sender.h
//
// The node's output on its way to a driver that asked for all of it: byte for byte, none lost, as
// fast as the driver takes it.
//
//   OutputSender sender(window_bytes, attempt, {.send = ..., .hold = ..., .on_done = ...});
//   sender.Add(v1::LogLines::SOURCE_STDOUT, bytes);
//   sender.OnCredit(offset);     // the driver has taken everything below
//   sender.End();                // on_done follows when it has taken everything

#ifndef CORE_AGENT_LINK_OUTPUT_SENDER_H_
#define CORE_AGENT_LINK_OUTPUT_SENDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Bytes are known by their offset, counted over both sources. At most a window of them is sent and
// not taken; when as many more wait here the node's pipes are not read, so that the node waits for
// the driver. What was not taken is sent again over a new stream, and the coordinator drops what it
// has.
//
// Memory: two windows, and what Add() is given at once. Thread safety: not thread-safe. Blocking:
// never. Reentrancy: on_done may destroy this object, if it is not called from Add() or End().
class OutputSender {
 public:
  struct Hooks {
    // Over the present stream; false if there is none.
    std::function<bool(v1::AgentMessage message)> send;
    // Whether the node's pipes are to be left alone now.
    std::function<void(bool hold)> hold;
    // After End(): everything has been taken.
    std::function<void()> on_done;
  };

  OutputSender(int64_t window_bytes, uint32_t attempt, Hooks hooks);
  OutputSender(const OutputSender&) = delete;
  OutputSender& operator=(const OutputSender&) = delete;

  void Add(v1::LogLines::Source source, absl::string_view bytes);
  // Nothing follows.
  void End();
  // Everything below `offset` has been taken; also the end, if `offset` is one more than the last
  // byte's.
  void OnCredit(uint64_t offset);
  // There is a new stream, over which nothing has been sent.
  void OnRegistered();

  [[nodiscard]] bool done() const { return done_; }

 private:
  struct Chunk {
    uint64_t offset = 0;
    v1::LogLines::Source source = v1::LogLines::SOURCE_STDOUT;
    std::string bytes;
    bool end = false;  // the last one, without bytes; it counts as one
  };

  static uint64_t SizeOf(const Chunk& chunk) { return chunk.end ? 1 : chunk.bytes.size(); }
  void Push(Chunk chunk);
  void Pump();
  void UpdateHold();

  const uint64_t window_;
  const uint32_t attempt_;
  const Hooks hooks_;
  std::deque<Chunk> chunks_;  // not taken yet, in order
  size_t sent_ = 0;           // of chunks_, over the present stream
  uint64_t added_ = 0;        // offset after the last chunk
  uint64_t taken_ = 0;        // as the coordinator says
  bool held_ = false;
  bool ended_ = false;
  bool done_ = false;
};

}  // namespace millrace

#endif  // CORE_AGENT_LINK_OUTPUT_SENDER_H_
