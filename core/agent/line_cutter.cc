#include "core/agent/line_cutter.h"

#include <algorithm>
#include <utility>

#include "core/base/text.h"

namespace millrace {

std::string ReplaceInvalidUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const size_t size = Utf8SequenceLength(text);
    if (size == 0) {
      valid.append("\xEF\xBF\xBD");
      text.remove_prefix(1);
    } else {
      valid.append(text.data(), size);
      text.remove_prefix(size);
    }
  }
  return valid;
}

void LineCutter::Append(absl::string_view bytes, absl::FunctionRef<void(std::string)> line) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const absl::string_view piece = bytes.substr(0, end);
    const size_t room = max_line_bytes_ + 1 - partial_.size();
    partial_.append(piece.data(), std::min(piece.size(), room));
    if (end == absl::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    Emit(line);
  }
}

void LineCutter::Finish(absl::FunctionRef<void(std::string)> line) {
  if (!partial_.empty()) Emit(line);
}

void LineCutter::Emit(absl::FunctionRef<void(std::string)> line) {
  std::string text = std::exchange(partial_, "");
  if (text.size() <= max_line_bytes_ && !text.empty() && text.back() == '\r') text.pop_back();
  // A replacement is longer than what it replaces, so cut afterwards.
  line(Ellipsize(ReplaceInvalidUtf8(text), max_line_bytes_));
}

}  // namespace millrace
