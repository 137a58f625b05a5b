#include "feed/source/tfrecord/input_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// Of data, as Hadoop and Spark see it, whose _SUCCESS and checksums of files are none.
bool IsData(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);  // npos + 1 is 0
  if (name.empty() || name[0] == '.' || name[0] == '_') return false;
  struct stat status {};
  return stat(std::string(path).c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

absl::StatusOr<std::vector<std::string>> FilesOfFolder(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::string path = JoinPath(folder, it->path().filename().string());
    if (IsData(path)) files.push_back(std::move(path));
  }
  if (error) return absl::ErrnoToStatus(error.value(), absl::StrCat("cannot read ", folder));
  std::sort(files.begin(), files.end());
  if (files.empty()) return absl::NotFoundError(absl::StrCat(folder, " has no file of data"));
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesOfPattern(const std::string& pattern) {
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> freed(&found, globfree);
  const int result = glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  if (result != 0 && result != GLOB_NOMATCH) {
    return absl::ErrnoToStatus(result == GLOB_NOSPACE ? ENOMEM : errno,
                               absl::StrCat("cannot look for ", pattern));
  }
  std::vector<std::string> files;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    if (IsData(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);
  }
  std::sort(files.begin(), files.end());
  if (files.empty()) return absl::NotFoundError(absl::StrCat("no file is named as ", pattern));
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT && path.find_first_of("*?[") != std::string::npos) {
      return FilesOfPattern(path);
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  if (S_ISDIR(status.st_mode)) return FilesOfFolder(path);
  return std::vector<std::string>{path};
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindInputFiles(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<std::string> more, FilesOf(path));
    std::move(more.begin(), more.end(), std::back_inserter(files));
  }
  return files;
}

}  // namespace millrace
