// File: core/agent/node/output_capture.h
//
// stdout and stderr of the node: whole into a file, line by line to whoever relays them, the last
// lines of stderr kept for the error.
//
//   OutputCapture capture(&loop, "/logs/worker-0.0.log", {.on_line = ..., .on_warning = ...});
//   MILLRACE_RETURN_IF_ERROR(capture.Start(node.TakeStdout(), node.TakeStderr()));
//
// The node is never held up for long: while the disk keeps up the pipes are emptied as fast as it
// writes; when 8 MiB wait and nothing moved for a second, bytes for the file are dropped until it
// has caught up, with a line in the file that says how many.

#ifndef CORE_AGENT_NODE_OUTPUT_CAPTURE_H_
#define CORE_AGENT_NODE_OUTPUT_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/line_cutter.h"
#include "core/agent/node/log_counts.h"
#include "core/agent/node/log_file_writer.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Ownership: the loop must outlive it. Thread safety: the loop's thread only.
// Blocking: Flush() only.
class OutputCapture {
 public:
  static constexpr size_t kMaxLineBytes = 2048;
  static constexpr size_t kTailLines = 50;
  static constexpr size_t kMaxQueuedBytes = size_t{8} << 20;

  enum class Source { kStdout, kStderr };

  struct Callbacks {
    // One line, valid UTF-8, at most kMaxLineBytes: of a progress bar ("\r") what it said last.
    absl::AnyInvocable<void(Source, std::string)> on_line;
    // Everything, as it was read. May be null.
    std::function<void(Source, absl::string_view)> on_bytes;
    // Something about the log file, for people; once.
    std::function<void(const std::string&)> on_warning;
  };

  // `counts` (may be null): what the file gets, and what it does not.
  OutputCapture(EventLoop* loop, const std::string& log_path, Callbacks callbacks,
                std::shared_ptr<LogCounts> counts = nullptr);
  ~OutputCapture();
  OutputCapture(const OutputCapture&) = delete;
  OutputCapture& operator=(const OutputCapture&) = delete;

  // Takes the read ends, which must be non-blocking.
  [[nodiscard]] absl::Status Start(UniqueFd out, UniqueFd err);

  // A line that the node sent by other means; goes where a line of stderr goes.
  void AddLine(absl::string_view line);

  // Held pipes are not read, so that the node waits, until they are held no more.
  void SetHeld(bool held);
  // The node has ended: its pipes are read to their end, whatever SetHeld() says from now on.
  void Release();

  // Both pipes are at their end: nobody holds the other side any more.
  [[nodiscard]] bool ended() const { return !streams_[0].fd.valid() && !streams_[1].fd.valid(); }

  // Reads what the pipes hold now, ends the last lines and closes the pipes.
  void Finish();

  // Waits for the file, at most `timeout`; returns whether all is written.
  bool Flush(absl::Duration timeout) { return file_.Flush(timeout); }

  // The last lines of stderr, oldest first.
  [[nodiscard]] std::vector<std::string> StderrTail() const;

 private:
  struct Stream {
    Source source;
    UniqueFd fd;
    LineCutter lines{kMaxLineBytes, LineCutter::Return::kOverwrites};
  };

  // Returns whether there may be more to read at once.
  bool ReadSome(Stream* stream);
  void CloseStream(Stream* stream);
  void EmitLine(Source source, std::string line);
  void WriteFile(absl::string_view bytes);
  void SetPaused(bool paused);
  void UpdateReading();
  void OnDrained();

  EventLoop* const loop_;
  Callbacks callbacks_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted callbacks
  Stream streams_[2];
  std::deque<std::string> tail_;
  std::vector<char> buffer_;
  bool dropping_ = false;  // the file does not keep up: bytes for it are counted, not queued
  bool paused_ = false;    // the pipes are not read until the file has caught up
  bool held_ = false;
  bool released_ = false;
  uint64_t dropped_bytes_ = 0;
  const std::shared_ptr<LogCounts> counts_;
  EventLoop::TimerId pause_timer_ = EventLoop::kNoTimer;
  LogFileWriter file_;  // last: its callbacks refer to the members above
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_OUTPUT_CAPTURE_H_
