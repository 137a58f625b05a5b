// File: core/agent/line_cutter.h
//
// Lines of a node's output for people: each at most so long, valid UTF-8. Unlike LineReader, which
// refuses a line that is too long, this cuts it and goes on.
//
//   LineCutter cutter(2048);
//   cutter.Append(bytes, [](std::string line) { Show(line); });

#ifndef CORE_AGENT_LINE_CUTTER_H_
#define CORE_AGENT_LINE_CUTTER_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace millrace {

// `text` with every byte that is no UTF-8 replaced by U+FFFD.
[[nodiscard]] std::string ReplaceInvalidUtf8(absl::string_view text);

// Memory: one line of max_line_bytes. Thread safety: not thread-safe.
class LineCutter {
 public:
  // A longer line is cut to `max_line_bytes`, "..." at its end included.
  explicit LineCutter(size_t max_line_bytes) : max_line_bytes_(max_line_bytes) {}

  // Calls `line` for each line that `bytes` completes, without its "\n" or "\r\n".
  void Append(absl::string_view bytes, absl::FunctionRef<void(std::string)> line);
  // Calls `line` with what stands after the last line end, if anything.
  void Finish(absl::FunctionRef<void(std::string)> line);

 private:
  void Emit(absl::FunctionRef<void(std::string)> line);

  const size_t max_line_bytes_;
  std::string partial_;  // at most max_line_bytes_ + 1 bytes: one more says that the line was longer
};

}  // namespace millrace

#endif  // CORE_AGENT_LINE_CUTTER_H_
