// File: dashboard/source/recording.h
//
// A session on disk: --record FILE writes what a source gives, --replay FILE plays it back.
//
// Defines: RecordingWriter, OpenRecording().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto writer, RecordingWriter::Create("run.mrec"));
//   for (const SourceUpdate& update : updates) writer->Add(update);
//   MILLRACE_ASSIGN_OR_RETURN(auto source, OpenRecording("run.mrec"));
//   source->playback()->Seek(source->playback()->begin() + absl::Minutes(3));
//
// The file: "MRECORD1", then frames, all little-endian: u32 bytes of the payload, u32 bytes of it
// uncompressed, u8 kind (0 update, 1 start, 2 seek point), i64 arrival in microseconds since 1970,
// u32 CRC-32 of the payload, payload: a v1.RecordedUpdate (recording.proto), compressed by zlib.
// Each minute a seek point, which holds all that is known, stands among them, so that any moment is
// reached without reading from the beginning. A file whose end is missing plays up to there and
// says so.

#ifndef DASHBOARD_SOURCE_RECORDING_H_
#define DASHBOARD_SOURCE_RECORDING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dashboard/model/source_update.h"
#include "dashboard/source/update_source.h"

namespace millrace::dashboard {

// Thread safety: not thread-safe. Blocking: disk I/O.
class RecordingWriter {
 public:
  // Creates `path` with mode 0600, or replaces what is in it. Returns FAILED_PRECONDITION if it is
  // no regular file of this user alone (core/base/safe_open.h), or the error of the disk; both name
  // the path.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RecordingWriter>> Create(
      const std::string& path);
  virtual ~RecordingWriter() = default;

  // Returns the error of the disk; then nothing more is written, and later calls return it again.
  virtual absl::Status Add(const SourceUpdate& update) = 0;
  // Writes out what is buffered. The destructor does it too, without a word.
  virtual absl::Status Flush() = 0;
  [[nodiscard]] virtual uint64_t bytes_written() const = 0;
};

// Begins at the beginning, playing at speed 1 from the first Poll() on. Disk I/O happens here and
// in Poll(). Returns NOT_FOUND, FAILED_PRECONDITION if it is no regular file, INVALID_ARGUMENT if
// it is no recording or of a newer version (naming both versions), or DATA_LOSS if it is damaged
// before its first update.
[[nodiscard]] absl::StatusOr<std::unique_ptr<UpdateSource>> OpenRecording(const std::string& path);

}  // namespace millrace::dashboard

#endif  // DASHBOARD_SOURCE_RECORDING_H_
