// File: feed/source/tfrecord/record_writer.h
//
// Writes the records of one TFRecord file, with their checksums, compressed if that is wanted. The
// file is there once it is complete.
//
// Defines: RecordWriter.

#ifndef FEED_SOURCE_TFRECORD_RECORD_WRITER_H_
#define FEED_SOURCE_TFRECORD_RECORD_WRITER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/unique_fd.h"
#include "millrace/tf_record.h"

namespace millrace {

// Thread safety: one thread at a time. Blocking: disk I/O. After an error it must not be used.
class RecordWriter {
 public:
  // Makes a temporary file in the folder of `path`, ".<name>.tmp.XXXXXX", with the permissions that
  // the umask leaves. Returns the system's errors, with the path.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(
      std::string path, TfRecordCompression compression);
  // Removes the temporary file, unless it has become `path`.
  ~RecordWriter();

  // Appends a record. Returns INVALID_ARGUMENT if it has more than kMaxRecordBytes, otherwise the
  // system's errors.
  [[nodiscard]] absl::Status Append(absl::string_view record);

  // Completes the file, brings it to the disk and to its name.
  [[nodiscard]] absl::Status Finish();

 private:
  class Deflater;
  RecordWriter(std::string path, std::string temporary, UniqueFd fd);

  absl::Status Put(absl::string_view bytes);
  absl::Status Flush();
  absl::Status WriteOut(absl::string_view bytes);

  const std::string path_;
  std::string temporary_;  // empty: it has become path_
  UniqueFd fd_;
  std::string pending_;                 // bytes of records that are to be compressed or written
  std::unique_ptr<Deflater> deflater_;  // null: nothing is compressed
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_RECORD_WRITER_H_
