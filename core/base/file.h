// File: core/base/file.h
//
// Small files, whole: read with a bound, written atomically.
//
// Defines: ReadFile(), WriteFileAtomic(), TempDir, JoinPath().
//
//   MILLRACE_ASSIGN_OR_RETURN(TempDir dir, TempDir::Create("agent"));
//   const std::string path = JoinPath(dir.path(), "context.json");
//   MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(path, contents));   // mode 0600
//
// Errors carry the path and map errno as absl::ErrnoToStatus does: NOT_FOUND for ENOENT,
// PERMISSION_DENIED for EACCES, RESOURCE_EXHAUSTED for EMFILE and ENOSPC, ...
// Thread safety: thread-safe. Blocking: disk I/O.

#ifndef CORE_BASE_FILE_H_
#define CORE_BASE_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// The contents of `path`, also of files that do not know their size (/proc).
// Returns RESOURCE_EXHAUSTED if it holds more than `max_bytes`; nothing more is read then.
[[nodiscard]] absl::StatusOr<std::string> ReadFile(const std::string& path,
                                                   size_t max_bytes = size_t{64} << 20);

// Replaces `path` by a file with `contents` and exactly `mode` (whatever the umask), so that a
// reader or a crash sees the old file or the new one, never a part: temporary file beside it,
// fsync, rename, fsync of the folder. On error `path` is untouched and the temporary file is gone.
// (After SIGKILL a "<path>.tmp.XXXXXX" may stay.)
[[nodiscard]] absl::Status WriteFileAtomic(const std::string& path, absl::string_view contents,
                                           mode_t mode = 0600);

// "a/b" from "a" and "b", with one slash between. An absolute `b` is returned as it is, as in
// Python's os.path.join; an empty part adds nothing.
[[nodiscard]] std::string JoinPath(absl::string_view a, absl::string_view b);

// A fresh folder with mode 0700 under $TMPDIR (/tmp if unset), removed with its contents by the
// destructor (symbolic links are removed, not followed). Movable.
class [[nodiscard]] TempDir {
 public:
  // `prefix` begins the folder's name and must hold no slash (INVALID_ARGUMENT).
  [[nodiscard]] static absl::StatusOr<TempDir> Create(absl::string_view prefix = "millrace");

  TempDir(TempDir&& other) noexcept;
  TempDir& operator=(TempDir&& other) noexcept;
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  // Absolute if $TMPDIR is. Empty after a move from here or Release().
  [[nodiscard]] const std::string& path() const { return path_; }

  // Keeps the folder: the caller removes it.
  [[nodiscard]] std::string Release();

 private:
  explicit TempDir(std::string path) : path_(std::move(path)) {}
  void Remove();

  std::string path_;
};

}  // namespace millrace

#endif  // CORE_BASE_FILE_H_
