// File: core/agent/node/log_file_writer.h
//
// Appends to one file from a thread of its own, so that a slow, full or hanging disk holds up
// nobody.
//
//   LogFileWriter writer("/logs/worker-0.0.log", loop->mailbox(),
//                        {.on_drained = ..., .on_warning = ...});
//   if (writer.Append(bytes) > kMuch) PauseTheProducer();

#ifndef CORE_AGENT_NODE_LOG_FILE_WRITER_H_
#define CORE_AGENT_NODE_LOG_FILE_WRITER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/log_counts.h"
#include "core/base/thread.h"

namespace millrace {

// Ownership: owns its thread "log-writer". Thread safety: one caller's thread. Blocking: Flush(),
// and the destructor, which waits for the write in progress (not for those behind it).
class LogFileWriter {
 public:
  // on_drained: the queue fell below kLowBytes after it had been above it.
  // on_warning: a text for people, at most once in the life of the writer: the folder or file
  // cannot be made (nothing is written then), or a write failed (those bytes are lost, later ones
  // are tried). Both are posted to `mailbox`.
  struct Callbacks {
    std::function<void()> on_drained;
    std::function<void(const std::string&)> on_warning;
  };

  static constexpr size_t kLowBytes = size_t{4} << 20;

  // Makes the file (mode 0640) and the folders it is in, from the thread.
  // `counts` (may be null) is told what was written, and what was not.
  LogFileWriter(std::string path, std::shared_ptr<EventLoop::Mailbox> mailbox, Callbacks callbacks,
                std::shared_ptr<LogCounts> counts = nullptr);
  ~LogFileWriter();
  LogFileWriter(const LogFileWriter&) = delete;
  LogFileWriter& operator=(const LogFileWriter&) = delete;

  // Queues `bytes`; returns how many bytes are queued now.
  size_t Append(absl::string_view bytes);

  // Waits until everything queued is written or lost, at most `timeout`. Returns whether it is.
  bool Flush(absl::Duration timeout);

 private:
  struct Shared;
  static void Run(const std::shared_ptr<Shared>& shared);

  const std::shared_ptr<Shared> shared_;
  Thread thread_;
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_LOG_FILE_WRITER_H_
