// File: feed/source/tfrecord/record_reader.h
//
// The records of one TFRecord file, their checksums compared.
//
// Defines: RecordReader, kMaxRecordBytes.

#ifndef FEED_SOURCE_TFRECORD_RECORD_READER_H_
#define FEED_SOURCE_TFRECORD_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/source/tfrecord/byte_input.h"

namespace millrace {

// Longest record: that of a message of Protobuf, and of a column of text.
inline constexpr uint64_t kMaxRecordBytes = (uint64_t{1} << 31) - 1;

// Thread safety: one thread at a time. Blocking: disk I/O. Memory: the longest record, at least
// 256 KiB or all of the file; for a record that is not there, twice what is there.
class RecordReader {
 public:
  // Errors as ByteInput::Open().
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordReader>> Open(const std::string& path);

  // The next record, valid until the next call; nullopt at the end, then and whenever asked again.
  // Returns DATA_LOSS with the place and what to do if a checksum is wrong or the file ends within
  // a record; INVALID_ARGUMENT if it does not begin as a TFRecord file does, or a record has more
  // than kMaxRecordBytes; otherwise as ByteInput::Read(). After an error it must not be used.
  [[nodiscard]] absl::StatusOr<std::optional<absl::string_view>> Next();

  // "train.tfrecord, record 17 (byte 5120)": the record that Next() gave, or failed at, last. Bytes
  // and records count from 0; of compressed files it says that they are those of the data.
  [[nodiscard]] std::string Place() const;

 private:
  explicit RecordReader(std::unique_ptr<ByteInput> input) : input_(std::move(input)) {}

  absl::StatusOr<size_t> Fill(size_t wanted);
  void Grow(size_t bytes);
  absl::Status Damaged(absl::string_view why) const;
  absl::Status NoRecords() const;
  absl::Status CutShort(uint64_t wanted, uint64_t there) const;

  const std::unique_ptr<ByteInput> input_;
  std::unique_ptr<char[]> buffer_;  // read and not yet given out: [begin_, end_)
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t next_offset_ = 0;  // of buffer_[begin_] in the data
  uint64_t offset_ = 0;       // of the record in hand
  int64_t record_ = -1;       // the same, counted
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_RECORD_READER_H_
