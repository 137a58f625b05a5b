#include "core/node/model_export.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/random.h"
#include "core/base/status.h"
#include "core/base/status_macros.h"
#include "core/base/unique_fd.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;

absl::Status FileError(absl::string_view what, const fs::path& path, int error) {
  return absl::ErrnoToStatus(error, absl::StrCat("exporting a model: ", what, " ", path.string()));
}

// Data and names of everything below `directory` reach the disk.
absl::Status SyncTree(const fs::path& directory) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end;
       it.increment(error)) {
    if (it->is_symlink()) continue;
    const UniqueFd fd(::open(it->path().c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid() || ::fsync(fd.get()) != 0) return FileError("syncing", it->path(), errno);
  }
  if (error) return FileError("reading", directory, error.value());
  const UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || ::fsync(fd.get()) != 0) return FileError("syncing", directory, errno);
  return absl::OkStatus();
}

// `staged` takes the name `target`; what had it before has the name `staged` then.
absl::Status TakeName(const fs::path& staged, const fs::path& target) {
  if (::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, target.c_str(), RENAME_NOREPLACE) == 0) {
    return absl::OkStatus();
  }
  if (errno == EEXIST &&
      ::renameat2(AT_FDCWD, staged.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  return FileError("naming", target, errno);
}

}  // namespace

absl::Status ExportDirectory(
    const std::string& path,
    const std::function<absl::Status(const std::string& directory)>& write) {
  const fs::path target = std::string(absl::StripSuffix(absl::StripPrefix(path, "file://"), "/"));
  if (absl::StrContains(target.string(), "://") || !target.is_absolute()) {
    return absl::UnimplementedError(absl::StrCat(
        "exporting a model to ", path,
        ": only local file systems can be written; write it in the program, on the chief"));
  }
  const fs::path staged = absl::StrCat(target.string(), ".tmp-", RandomHex(8));
  std::error_code error;
  fs::create_directories(staged, error);
  if (error) return FileError("making", staged, error.value());

  absl::Status status = write(staged.string());
  if (status.ok()) status = SyncTree(staged);
  if (status.ok()) status = TakeName(staged, target);
  // Now `staged` is what was there before, or what could not be used.
  fs::remove_all(staged, error);
  if (status.ok() && error) return FileError("removing the model before,", staged, error.value());
  return status;
}

}  // namespace millrace
