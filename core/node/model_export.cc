#include "core/node/model_export.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "core/base/log.h"
#include "core/base/random.h"
#include "core/base/unique_fd.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(absl::string_view what, const fs::path& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("exporting a model: ", what, " ", path.string()));
}

absl::StatusOr<fs::path> LocalTarget(const std::string& path) {
  absl::string_view local = path;
  if (!absl::ConsumePrefix(&local, "file://")) absl::ConsumePrefix(&local, "file:");
  if (!absl::StartsWith(local, "/")) {
    return absl::UnimplementedError(absl::StrCat(
        "exporting a model to ", path,
        ": only local file systems can be written; write it in the program, on the chief"));
  }
  fs::path target = fs::path(std::string(local)).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "/a/" is "/a"
  if (!target.has_filename()) {
    return absl::InvalidArgumentError(
        absl::StrCat("exporting a model to ", path, ": the root cannot be replaced"));
  }
  return target;
}

absl::Status Sync(const fs::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // EINVAL: this file system has nothing to sync.
  if (fd.valid() && (::fsync(fd.get()) == 0 || errno == EINVAL)) return absl::OkStatus();
  return FileError("syncing", path, errno);
}

// Data and names of everything below `directory` reach the disk.
absl::Status SyncTree(const fs::path& directory) {
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (const fs::recursive_directory_iterator end; !error && it != end; it.increment(error)) {
    const fs::file_type type = it->symlink_status(error).type();
    if (error) break;
    // A pipe or a device would block or has nothing to sync.
    if (type != fs::file_type::regular && type != fs::file_type::directory) continue;
    MILLRACE_RETURN_IF_ERROR(Sync(it->path()));
  }
  if (error) return FileError("reading", directory, error.value());
  return Sync(directory);
}

}  // namespace

namespace model_export_internal {

absl::Status TakeName(const std::string& staged, const std::string& target) {
  constexpr int kTries = 3;  // somebody else may make or remove `target` between the two calls
  for (int i = 0; i < kTries; ++i) {
    for (const unsigned flag : {RENAME_NOREPLACE, RENAME_EXCHANGE}) {
      if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, target.c_str(), flag) == 0) {
        return absl::OkStatus();
      }
      if (errno == EINVAL || errno == ENOSYS) return TakeNameByRename(staged, target);
      if (errno != (flag == RENAME_NOREPLACE ? EEXIST : ENOENT)) break;
    }
    if (errno != ENOENT) break;
  }
  return FileError("naming", target, errno);
}

absl::Status TakeNameByRename(const std::string& staged, const std::string& target) {
  // Enough where there is nothing yet, or an empty directory.
  if (::rename(staged.c_str(), target.c_str()) == 0) return absl::OkStatus();
  if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) {
    return FileError("naming", target, errno);
  }
  const std::string aside = absl::StrCat(staged, "-old");
  if (::rename(target.c_str(), aside.c_str()) != 0) return FileError("moving", target, errno);
  if (::rename(staged.c_str(), target.c_str()) != 0) {
    const absl::Status status = FileError("naming", target, errno);
    if (::rename(aside.c_str(), target.c_str()) != 0) {
      MILLRACE_LOG(ERROR) << "what was at " << target << " is at " << aside << " now";
    }
    return status;
  }
  if (::rename(aside.c_str(), staged.c_str()) != 0) return FileError("moving", aside, errno);
  return absl::OkStatus();
}

}  // namespace model_export_internal

absl::Status ExportDirectory(
    const std::string& path,
    const std::function<absl::Status(const std::string& directory)>& write) {
  MILLRACE_ASSIGN_OR_RETURN(const fs::path target, LocalTarget(path));
  const fs::path staged = absl::StrCat(target.string(), ".tmp-", RandomHex(8));
  std::error_code error;
  fs::create_directories(staged, error);
  if (error) return FileError("making", staged, error.value());

  absl::Status status = write(staged.string());
  if (status.ok()) status = SyncTree(staged);
  if (status.ok()) status = model_export_internal::TakeName(staged.string(), target.string());
  if (status.ok()) {
    // The model is there; only a crash of the host right now could still undo its name.
    const absl::Status synced = Sync(target.parent_path());
    if (!synced.ok()) MILLRACE_LOG(WARNING) << synced;
  }
  // Now `staged` is what was there before, or what could not be used.
  fs::remove_all(staged, error);
  if (error) {
    MILLRACE_LOG(WARNING) << "exporting a model: " << staged.string()
                          << " cannot be removed: " << error.message();
  }
  return status;
}

}  // namespace millrace
