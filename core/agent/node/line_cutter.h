// File: core/agent/node/line_cutter.h
//
// Lines of a node's output for people: each at most so long, valid UTF-8. Unlike LineReader, which
// refuses a line that is too long, this cuts it into parts and goes on: nothing is lost.
//
//   LineCutter cutter(2048, LineCutter::Return::kOverwrites);
//   cutter.Append(bytes, [](std::string line) { Show(line); });

#ifndef CORE_AGENT_NODE_LINE_CUTTER_H_
#define CORE_AGENT_NODE_LINE_CUTTER_H_

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
  // What a "\r" does that is not part of a line's end, as programs write them for progress bars.
  enum class Return {
    kOverwrites,  // what follows takes the place of the line so far, as on a terminal
    kEndsLine,    // the line so far is one, unless it is blank
  };

  // A longer line comes in parts of at most `max_line_bytes` (at least 4), as if they were lines.
  // No part ends within a character.
  LineCutter(size_t max_line_bytes, Return on_return)
      : max_line_bytes_(max_line_bytes), on_return_(on_return) {}

  // Calls `line` for each line that `bytes` completes, without its "\n" or "\r\n".
  void Append(absl::string_view bytes, absl::FunctionRef<void(std::string)> line);
  // Calls `line` with what stands after the last line end, if anything.
  void Finish(absl::FunctionRef<void(std::string)> line);

  // The line so far, valid UTF-8; of a long one the last part.
  [[nodiscard]] std::string Unfinished() const;

 private:
  void AppendPiece(absl::string_view piece, absl::FunctionRef<void(std::string)> line);
  void AppendText(absl::string_view text, absl::FunctionRef<void(std::string)> line);
  void EmitPart(absl::FunctionRef<void(std::string)> line);
  void EmitEnd(absl::FunctionRef<void(std::string)> line);
  void Emit(absl::string_view text, absl::FunctionRef<void(std::string)> line) const;

  const size_t max_line_bytes_;
  const Return on_return_;
  std::string partial_;     // at most max_line_bytes_
  bool continued_ = false;  // partial_ is not the first part of its line
  bool returned_ = false;   // the last byte was "\r"
  bool ended_ = false;      // and it has ended a line
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_LINE_CUTTER_H_
