// File: core/cli/output/answer.h
//
// The answer of a command on its way to stdout, and whether anybody still wants it.
//
// Defines: WriteAnswer(), NobodyReads(), ReaderWatch.
//
//   MILLRACE_RETURN_IF_ERROR(WriteAnswer("worker:1 runs\n"));   // in `millrace ... | head -1` too
#ifndef CORE_CLI_OUTPUT_ANSWER_H_
#define CORE_CLI_OUTPUT_ANSWER_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/thread.h"
#include "core/base/unique_fd.h"

namespace millrace::cli {

// Writes all of `text` to stdout. Returns the Status that NobodyReads() recognises if its reader is
// gone, or the error of the disk. Thread safety: thread-safe. Blocking: as long as stdout does.
[[nodiscard]] absl::Status WriteAnswer(absl::string_view text);

// The Status of a command whose answer nobody reads any more: no error to talk about (exit code
// 141).
[[nodiscard]] absl::Status NobodyReadsError();
[[nodiscard]] bool NobodyReads(const absl::Status& status);

// Calls back when the last reader of stdout has gone, also while there is nothing to write: a pipe
// or a socket that was closed at its other end. Files and terminals never are.
//
// One thread, "cli-reader". Thread safety: single-threaded. Blocking: the destructor waits for a
// callback under way.
class ReaderWatch {
 public:
  // `on_gone` is called once, at most, from the thread.
  explicit ReaderWatch(std::function<void()> on_gone);
  ~ReaderWatch();
  ReaderWatch(const ReaderWatch&) = delete;
  ReaderWatch& operator=(const ReaderWatch&) = delete;

 private:
  void Run();

  const std::function<void()> on_gone_;
  UniqueFd end_;  // eventfd
  Thread thread_;
};

}  // namespace millrace::cli

#endif  // CORE_CLI_OUTPUT_ANSWER_H_
