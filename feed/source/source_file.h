// File: feed/source/source_file.h
//
// A regular file that a source reads. Internal to feed/source.
//
// Defines: SourceFile.

#ifndef FEED_SOURCE_SOURCE_FILE_H_
#define FEED_SOURCE_SOURCE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Thread safety: const methods may be called at the same time. Blocking: disk I/O.
class SourceFile {
 public:
  // Errors carry the path, codes as absl::ErrnoToStatus; INVALID_ARGUMENT for what is no regular
  // file.
  [[nodiscard]] static absl::StatusOr<SourceFile> Open(std::string path);

  // Up to `size` bytes from `offset` on; 0 at the end.
  [[nodiscard]] absl::StatusOr<size_t> ReadAt(uint64_t offset, char* to, size_t size) const;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] uint64_t size() const { return size_; }  // when it was opened

 private:
  SourceFile(std::string path, UniqueFd fd, uint64_t size)
      : path_(std::move(path)), fd_(std::move(fd)), size_(size) {}

  std::string path_;
  UniqueFd fd_;
  uint64_t size_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_SOURCE_FILE_H_
