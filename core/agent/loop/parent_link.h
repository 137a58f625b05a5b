// File: core/agent/loop/parent_link.h
//
// JSON Lines with the process that started the agent (docs/control_protocol.md, section 1).
//
//   ParentLink parent(&loop, STDIN_FILENO, STDOUT_FILENO, {.on_request = ..., .on_end = ...});
//   parent.Event("ready", {{"protocol", 1}});
//   parent.Start();

#ifndef CORE_AGENT_LOOP_PARENT_LINK_H_
#define CORE_AGENT_LOOP_PARENT_LINK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/json.h"
#include "core/base/line_reader.h"

namespace millrace {

// Ownership: descriptors stay the caller's; the loop must outlive it. Thread safety: the loop's
// thread only. Blocking: Flush() only: a parent that does not read holds up nobody (its requests
// are not read either while 1 MiB waits for it).
class ParentLink {
 public:
  static constexpr size_t kPauseReadingBytes = size_t{1} << 20;

  struct Callbacks {
    // A well-formed request; answer it with Reply(). `params` is an object.
    std::function<void(const Json& id, const std::string& method, const Json& params)> on_request;
    // The parent is gone (OK) or sent a line that is too long (RESOURCE_EXHAUSTED). Called once.
    std::function<void(const absl::Status&)> on_end;
  };

  ParentLink(EventLoop* loop, int in_fd, int out_fd, Callbacks callbacks);
  ~ParentLink();
  ParentLink(const ParentLink&) = delete;
  ParentLink& operator=(const ParentLink&) = delete;

  // Begins to read.
  void Start();

  void Reply(const Json& id, const absl::StatusOr<Json>& outcome);
  // `members` follow "event", "seq" and "time_ms".
  void Event(absl::string_view event, const OrderedJson& members = OrderedJson::object());

  // The parent does not read as fast as it is written to: what it can do without should be left
  // out.
  [[nodiscard]] bool congested() const { return out_.size() > kPauseReadingBytes; }

  // Writes what waits, for at most `timeout`.
  void Flush(absl::Duration timeout);

 private:
  void ReadSome();
  void HandleLine(absl::string_view line);
  void WriteLine(const OrderedJson& line);
  void WriteSome();
  void UpdateReading();
  void End(const absl::Status& status);

  EventLoop* const loop_;
  const int in_fd_;
  const int out_fd_;
  Callbacks callbacks_;
  LineReader lines_;
  std::string out_;            // not written yet
  bool watching_in_ = false;   // in_fd_ is watched
  bool watching_out_ = false;  // out_fd_ is watched
  bool out_broken_ = false;    // the parent does not read any more
  bool ended_ = false;
  uint64_t next_seq_ = 0;
};

}  // namespace millrace

#endif  // CORE_AGENT_LOOP_PARENT_LINK_H_
