#include "core/client/private_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/unique_fd.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 10;

absl::Status CheckMine(const struct stat& info, const std::string& path, const char* mode) {
  if (info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " belongs to user ", info.st_uid, ", not to you (", geteuid(),
                     "): it is not read. Make a copy of your own if you trust who wrote it"));
  }
  if ((info.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " is open to other users: chmod ", mode, " ", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadPrivateFile(const std::string& path) {
  // O_NONBLOCK: a pipe put there must not hold us.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) {
    if (errno == ELOOP) {
      return absl::PermissionDeniedError(
          absl::StrCat(path, " is a symbolic link, which is not followed; name the file itself"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", path));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is no regular file"));
  }
  MILLRACE_RETURN_IF_ERROR(CheckMine(info, path, "600"));
  // The file that was looked at, whatever the name means by now.
  absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat("/proc/self/fd/", fd.get()), kMaxFileBytes);
  if (!text.ok()) return absl::Status(text.status().code(), absl::StrCat("cannot read ", path));
  return text;
}

absl::Status MakePrivateFolders(const std::string& folder) {
  for (size_t slash = folder.find('/', 1); slash != std::string::npos;
       slash = folder.find('/', slash + 1)) {
    const std::string part = folder.substr(0, slash);
    if (mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", part));
    }
  }
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", folder));
  }
  return absl::OkStatus();
}

absl::Status CheckPrivateFolder(const std::string& folder) {
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", folder));
  }
  if (!S_ISDIR(info.st_mode)) {
    return absl::PermissionDeniedError(
        absl::StrCat(folder, " is no folder (a symbolic link is not followed)"));
  }
  return CheckMine(info, folder, "700");
}

absl::StatusOr<std::vector<std::string>> NamesInFolder(const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(folder.c_str()), closedir);
  if (dir == nullptr) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", folder));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir.get())) names.emplace_back(entry->d_name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace
