// File: feed/source/tfrecord/byte_input.h
//
// The bytes of a TFRecord file in order, decompressed where the file is compressed.
//
// Defines: ByteInput, kRecordHeaderBytes, IsRecordHeader().

#ifndef FEED_SOURCE_TFRECORD_BYTE_INPUT_H_
#define FEED_SOURCE_TFRECORD_BYTE_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/tf_record.h"

namespace millrace {

// Before each record: its length (u64), and the masked CRC-32C of these eight bytes.
inline constexpr size_t kRecordHeaderBytes = 12;

// Whether `header`, kRecordHeaderBytes of them, has the right checksum.
[[nodiscard]] bool IsRecordHeader(absl::string_view header);

// Thread safety: one thread at a time. Blocking: disk I/O.
class ByteInput {
 public:
  // Its first bytes tell how a file is compressed: not at all, if they are the header of a record.
  // Errors of the system with the path, codes as absl::ErrnoToStatus; INVALID_ARGUMENT if it is no
  // regular file, or begins in no such way.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<ByteInput>> Open(const std::string& path);
  ~ByteInput();

  // Up to `size` (> 0) bytes; 0 at the end. DATA_LOSS with the path, the place in the file and what
  // to do, if it is compressed and damaged or cut short.
  [[nodiscard]] absl::StatusOr<size_t> Read(char* to, size_t size);

  // How many bytes there still are; nullopt if only decompressing them tells.
  [[nodiscard]] std::optional<uint64_t> BytesLeft() const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] TfRecordCompression compression() const { return compression_; }

 private:
  class Inflater;
  class File;
  explicit ByteInput(std::string path);

  const std::string path_;
  std::unique_ptr<File> file_;
  TfRecordCompression compression_ = TfRecordCompression::kNone;
  std::unique_ptr<Inflater> inflater_;  // null: it is not compressed
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_BYTE_INPUT_H_
