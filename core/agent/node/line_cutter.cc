#include "core/agent/node/line_cutter.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "core/base/text.h"

namespace millrace {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// How many bytes at the end of `text` begin a UTF-8 sequence that goes on after it.
size_t UnfinishedBytes(absl::string_view text) {
  for (size_t back = 1; back <= 3 && back < text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte < 0xC0) continue;
    const size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

bool IsBlank(absl::string_view text) { return absl::StripAsciiWhitespace(text).empty(); }

}  // namespace

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
    AppendPiece(bytes.substr(0, end), line);
    if (end == absl::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    returned_ = false;
    if (!std::exchange(ended_, false)) EmitEnd(line);
  }
}

void LineCutter::AppendPiece(absl::string_view piece, absl::FunctionRef<void(std::string)> line) {
  while (!piece.empty()) {
    if (piece.front() == '\r') {
      piece.remove_prefix(1);
      returned_ = true;
      if (on_return_ == Return::kOverwrites || IsBlank(partial_)) continue;
      EmitEnd(line);
      ended_ = true;
      continue;
    }
    if (std::exchange(returned_, false)) {
      partial_.clear();
      continued_ = ended_ = false;
    }
    const absl::string_view text = piece.substr(0, piece.find('\r'));
    AppendText(text, line);
    piece.remove_prefix(text.size());
  }
}

void LineCutter::AppendText(absl::string_view text, absl::FunctionRef<void(std::string)> line) {
  while (partial_.size() + text.size() > max_line_bytes_) {
    const size_t room = max_line_bytes_ - partial_.size();
    partial_.append(text.data(), room);
    text.remove_prefix(room);
    EmitPart(line);
  }
  partial_.append(text.data(), text.size());
}

std::string LineCutter::Unfinished() const {
  const absl::string_view partial = partial_;
  return ReplaceInvalidUtf8(partial.substr(0, partial.size() - UnfinishedBytes(partial)));
}

void LineCutter::Finish(absl::FunctionRef<void(std::string)> line) {
  if (!partial_.empty()) EmitEnd(line);
}

void LineCutter::EmitPart(absl::FunctionRef<void(std::string)> line) {
  const size_t whole = partial_.size() - UnfinishedBytes(partial_);
  Emit(absl::string_view(partial_).substr(0, whole), line);
  partial_.erase(0, whole);
  continued_ = true;
}

void LineCutter::EmitEnd(absl::FunctionRef<void(std::string)> line) {
  const std::string text = std::exchange(partial_, "");
  if (std::exchange(continued_, false) && text.empty()) return;
  Emit(text, line);
}

void LineCutter::Emit(absl::string_view text, absl::FunctionRef<void(std::string)> line) const {
  // A replacement is longer than what it replaces.
  const std::string valid = ReplaceInvalidUtf8(text);
  absl::string_view rest = valid;
  while (rest.size() > max_line_bytes_) {
    size_t end = max_line_bytes_;
    while (IsContinuation(rest[end])) --end;
    line(std::string(rest.substr(0, end)));
    rest.remove_prefix(end);
  }
  line(std::string(rest));
}

}  // namespace millrace
