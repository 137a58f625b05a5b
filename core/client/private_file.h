// File: core/client/private_file.h
//
// Files that only their user may read, in folders that nobody else may enter.
//
// Defines: ReadPrivateFile(), MakePrivateFolders(), CheckPrivateFolder(), NamesInFolder().
//
// Thread safety: thread-safe. Blocking: disk I/O.

#ifndef CORE_CLIENT_PRIVATE_FILE_H_
#define CORE_CLIENT_PRIVATE_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// Returns PERMISSION_DENIED, saying what to do, for a symbolic link, a file of another user, or one
// that others may read; INVALID_ARGUMENT for what is no regular file; RESOURCE_EXHAUSTED over 256
// KiB.
[[nodiscard]] absl::StatusOr<std::string> ReadPrivateFile(const std::string& path);

// Makes the folder and those above it that are not there, each with mode 0700.
[[nodiscard]] absl::Status MakePrivateFolders(const std::string& folder);

// Returns NOT_FOUND if there is no such folder, PERMISSION_DENIED if it is a symbolic link,
// somebody else's or open to others.
[[nodiscard]] absl::Status CheckPrivateFolder(const std::string& folder);

// In order; "." and ".." too.
[[nodiscard]] absl::StatusOr<std::vector<std::string>> NamesInFolder(const std::string& folder);

}  // namespace millrace

#endif  // CORE_CLIENT_PRIVATE_FILE_H_
