// File: core/base/line_reader.h
//
// Cuts a stream of bytes (JSON Lines from a pipe) into lines with bounded memory. Does no I/O.
//
//   LineReader lines;
//   while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
//     lines.Append({buffer, static_cast<size_t>(n)});
//     for (;;) {
//       MILLRACE_ASSIGN_OR_RETURN(auto line, lines.Next());
//       if (!line.has_value()) break;
//       Handle(*line);
//     }
//   }
//   if (lines.partial_bytes() > 0) ...  // the peer died within a line

#ifndef CORE_BASE_LINE_READER_H_
#define CORE_BASE_LINE_READER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Memory: at most one line plus what was appended since Next() last returned nullopt.
// Thread safety: not thread-safe.
class LineReader {
 public:
  static constexpr size_t kDefaultMaxLineBytes = size_t{1} << 20;

  // `max_line_bytes` does not count the line end.
  explicit LineReader(size_t max_line_bytes = kDefaultMaxLineBytes)
      : max_line_bytes_(max_line_bytes) {}

  // Takes the next bytes of the stream. Invalidates lines returned before. After an error the bytes
  // are dropped.
  void Append(absl::string_view bytes);

  // The next complete line without its "\n" or "\r\n", or nullopt if none is complete. The view is
  // valid until the next call of Append() or TakePartial(). Empty lines are returned as such.
  //
  // Returns RESOURCE_EXHAUSTED once a line is longer than the limit, and from then on: there is no
  // way to find the next message safely.
  [[nodiscard]] absl::StatusOr<std::optional<absl::string_view>> Next();

  // Bytes that were not returned as lines yet.
  [[nodiscard]] size_t partial_bytes() const { return buffer_.size() - start_; }

  // The bytes after the last line end, for use at the end of the stream; empties the reader.
  [[nodiscard]] std::string TakePartial();

 private:
  const size_t max_line_bytes_;
  std::string buffer_;
  size_t start_ = 0;    // of the first line not returned yet; start_ <= scanned_ <= buffer_.size()
  size_t scanned_ = 0;  // [start_, scanned_) holds no line end
  absl::Status error_;
};

}  // namespace millrace

#endif  // CORE_BASE_LINE_READER_H_
