// File: core/base/safe_open.h
//
// Files in folders that other users may write to. There a name may stand for a symbolic link, a
// FIFO or somebody else's file by the time that it is opened.
//
// Defines: OpenForAppend(), OpenForRead(), CheckOnlyOwnerCanChange().
//
//   MILLRACE_ASSIGN_OR_RETURN(UniqueFd log, OpenForAppend("/shared/logs/worker-0.0.log", 0640));
//
// Thread safety: thread-safe. Blocking: disk I/O; never for a FIFO or a device.

#ifndef CORE_BASE_SAFE_OPEN_H_
#define CORE_BASE_SAFE_OPEN_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/unique_fd.h"

namespace millrace {

// Opens `path` to append to it; makes it with `mode` (less the umask) if it is not there.
// Returns FAILED_PRECONDITION if it is there and is a symbolic link, no regular file, another
// user's, or has a second name (a hard link, which may be somebody's way to make us write to
// another file of ours); otherwise the system's error.
[[nodiscard]] absl::StatusOr<UniqueFd> OpenForAppend(const std::string& path, mode_t mode);

// Opens a regular file to read it; symbolic links are followed. Returns FAILED_PRECONDITION if it
// is anything else, otherwise the system's error.
[[nodiscard]] absl::StatusOr<UniqueFd> OpenForRead(const std::string& path);

// OK if nobody but this process's user and root can change to what the absolute `path` leads or, if
// that is a file, what is in it: every folder and symbolic link on the way, and the file, belong to
// one of them, and others (the group is others) may not write to any. A folder with the sticky bit,
// such as /tmp, may be writable: nobody can replace what is theirs there. FUSE is never trusted,
// since whoever mounts such a file system makes up its owners and modes. Returns
// FAILED_PRECONDITION naming the first part that others can change, or the system's error.
[[nodiscard]] absl::Status CheckOnlyOwnerCanChange(const std::string& path);

}  // namespace millrace

#endif  // CORE_BASE_SAFE_OPEN_H_
