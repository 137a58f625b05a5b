#include "core/base/line_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {

void LineReader::Append(absl::string_view bytes) {
  if (!error_.ok()) return;
  if (start_ > 0) {
    buffer_.erase(0, start_);
    scanned_ -= start_;
    start_ = 0;
  }
  buffer_.append(bytes.data(), bytes.size());
}

absl::StatusOr<std::optional<absl::string_view>> LineReader::Next() {
  if (!error_.ok()) return error_;
  const size_t end = buffer_.find('\n', scanned_);
  scanned_ = end == std::string::npos ? buffer_.size() : end;
  absl::string_view line = absl::string_view(buffer_).substr(start_, scanned_ - start_);
  // Within the limit only together with its line end, an unfinished line may still hold a '\r'.
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.size() > max_line_bytes_) {
    error_ =
        absl::ResourceExhaustedError(absl::StrCat("line of more than ", max_line_bytes_, " bytes"));
    buffer_ = std::string();  // gives the memory back
    start_ = scanned_ = 0;
    return error_;
  }
  if (end == std::string::npos) return std::nullopt;
  start_ = scanned_ = end + 1;
  return line;
}

std::string LineReader::TakePartial() {
  std::string rest = buffer_.substr(start_);
  buffer_.clear();
  start_ = scanned_ = 0;
  return rest;
}

}  // namespace millrace
