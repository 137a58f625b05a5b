#include "core/cli/find_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/text.h"

namespace millrace::cli {
namespace {

bool IsFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& name, const std::string& folder,
                                        const std::string& path) {
  const std::string shown = EscapeControls(name);
  if (name.find('/') != std::string::npos) {
    const std::string file = JoinPath(folder, name);
    if (IsFolder(file)) {
      return absl::PermissionDeniedError(
          absl::StrCat(shown, " is a folder; name the program in it"));
    }
    if (!IsFile(file)) {
      return absl::NotFoundError(absl::StrCat("there is no program ", shown,
                                              name.front() == '/' ? "" : absl::StrCat(" in ", folder)));
    }
    if (::access(file.c_str(), X_OK) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat(shown, " is not executable; chmod +x it, or name its interpreter first"));
    }
    return file;
  }
  for (const absl::string_view entry : absl::StrSplit(path, ':')) {
    const std::string file = JoinPath(JoinPath(folder, entry), name);
    if (IsFile(file) && ::access(file.c_str(), X_OK) == 0) return file;
  }
  const bool here = IsFile(JoinPath(folder, name));
  return absl::NotFoundError(absl::StrCat("there is no program '", shown, "' in PATH",
                                          here ? absl::StrCat("; did you mean ./", shown, "?") : ""));
}

}  // namespace millrace::cli
