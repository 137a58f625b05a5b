// File: feed/source/csv_text.h
//
// Cuts comma-separated text into records and fields, from any place, in bounded memory. Private to
// feed/csv_source.
//
// Defines: CsvText (a file or text in memory), CsvRecord, CsvRecordReader.

#ifndef FEED_SOURCE_CSV_TEXT_H_
#define FEED_SOURCE_CSV_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Longest record, so that a missing quote does not take all memory.
inline constexpr size_t kMaxCsvRecordBytes = size_t{16} << 20;

// What a CsvText is when it was first seen. Equal for text in memory.
struct CsvFingerprint {
  int64_t size = 0;
  int64_t mtime_ns = 0;

  friend bool operator==(const CsvFingerprint&, const CsvFingerprint&) = default;
};

// An open text. Thread safety: one thread at a time. Blocking: disk I/O.
class CsvText {
 public:
  // Errors carry the path, codes as absl::ErrnoToStatus; INVALID_ARGUMENT if it is no regular file.
  [[nodiscard]] static absl::StatusOr<CsvText> OpenFile(const std::string& path);
  [[nodiscard]] static CsvText FromMemory(std::string name,
                                          std::shared_ptr<const std::string> text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const CsvFingerprint& fingerprint() const { return fingerprint_; }

  // Up to `size` bytes from `offset`; 0 at the end.
  [[nodiscard]] absl::StatusOr<size_t> Read(int64_t offset, char* to, size_t size) const;

 private:
  std::string name_;
  CsvFingerprint fingerprint_;
  UniqueFd fd_;                              // a file, or
  std::shared_ptr<const std::string> text_;  // text in memory
};

struct CsvRecord {
  int64_t offset = 0;  // of its first byte in the text
  int64_t line = 0;    // of its first byte, from 1
  int64_t bytes = 0;   // with its line end
  // Without quotes; valid until the next record is read.
  std::vector<absl::string_view> fields;
};

// Thread safety: one thread at a time.
class CsvRecordReader {
 public:
  // Reads from `offset`, where a record or an empty line begins; that is on line `line`.
  CsvRecordReader(CsvText text, char delimiter, int64_t offset = 0, int64_t line = 1)
      : text_(std::move(text)), delimiter_(delimiter), offset_(offset), line_(line) {}

  // False at the end. Empty lines are skipped, and a byte order mark at offset 0.
  // Returns INVALID_ARGUMENT with the place for a quote that does not end, text behind a quoted
  // field, and a record over kMaxCsvRecordBytes; otherwise what reading returns.
  [[nodiscard]] absl::StatusOr<bool> Next(CsvRecord* record);

  [[nodiscard]] const CsvText& text() const { return text_; }

 private:
  // Where a field lies, from the beginning of the record.
  struct Extent {
    size_t begin = 0;
    size_t end = 0;
    bool escapes = false;  // holds doubled quotes
  };
  enum class State { kFieldStart, kPlain, kQuoted, kQuoteInQuoted, kDone };

  absl::StatusOr<bool> Fill();
  absl::StatusOr<bool> SkipToRecord();
  absl::Status Scan();
  void SkipQuoted();
  bool Step(char c);
  void EndField(size_t end);
  void EndOfText();
  void Unescape(Extent* extent);
  absl::Status Error(absl::string_view message) const;

  CsvText text_;
  const char delimiter_;
  int64_t offset_;      // of buffer_[begin_] in the text
  int64_t line_;        // of buffer_[begin_]
  std::string buffer_;  // read and not yet consumed: [begin_, end_)
  size_t begin_ = 0;
  size_t end_ = 0;
  bool at_end_ = false;  // of the text: nothing follows end_

  // Of the record being scanned, which begins at begin_.
  State state_ = State::kFieldStart;
  size_t scanned_ = 0;  // bytes of it that have been seen
  int64_t lines_ = 0;   // line ends among them
  Extent field_;
  std::vector<Extent> fields_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_CSV_TEXT_H_
