#include "core/cli/find_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "core/base/text.h"

namespace millrace::cli {
namespace {

constexpr size_t kMaxInterpreterBytes = 256;  // the kernel reads no more

bool IsFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool IsFolder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

// Whether it is a script whose first line ends in CR LF. Linux takes the CR as part of the
// interpreter's name and then reports that there is no such file.
bool HasWindowsLineEnd(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(kMaxInterpreterBytes, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(file.gcount()));
  const size_t end = begin.find('\n');
  return begin.rfind("#!", 0) == 0 && end != std::string::npos && begin[end - 1] == '\r';
}

absl::StatusOr<std::string> Runnable(const std::string& file, const std::string& shown) {
  if (!HasWindowsLineEnd(file)) return file;
  return absl::PermissionDeniedError(
      absl::StrCat(shown,
                   " has Windows line ends (CR LF), and Linux looks for an interpreter with a "
                   "CR in its name: sed -i 's/\\r$//' ",
                   shown));
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
      return absl::NotFoundError(absl::StrCat(
          "there is no program ", shown, name.front() == '/' ? "" : absl::StrCat(" in ", folder)));
    }
    if (::access(file.c_str(), X_OK) != 0) {
      return absl::PermissionDeniedError(
          absl::StrCat(shown, " is not executable; chmod +x it, or name its interpreter first"));
    }
    return Runnable(file, shown);
  }
  for (const absl::string_view entry : absl::StrSplit(path, ':')) {
    const std::string file = JoinPath(JoinPath(folder, entry), name);
    if (IsFile(file) && ::access(file.c_str(), X_OK) == 0) {
      return Runnable(file, EscapeControls(file));
    }
  }
  const bool here = IsFile(JoinPath(folder, name));
  return absl::NotFoundError(
      absl::StrCat("there is no program '", shown, "' in PATH",
                   here ? absl::StrCat("; did you mean ./", shown, "?") : ""));
}

}  // namespace millrace::cli
