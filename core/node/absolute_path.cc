#include "core/node/absolute_path.h"

#include <pwd.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/process/process.h"

namespace millrace {
namespace {

// RFC 3986: a letter, then letters, digits, '+', '-', '.', before ":/".
bool HasScheme(absl::string_view path) {
  const size_t end = path.find(":/");
  if (end == absl::string_view::npos || end == 0 || !absl::ascii_isalpha(path[0])) return false;
  for (const char c : path.substr(0, end)) {
    if (!absl::ascii_isalnum(c) && c != '+' && c != '-' && c != '.') return false;
  }
  return true;
}

// Without a slash at the end, except the two of a bare scheme ("file://").
absl::string_view TrimRoot(absl::string_view default_fs) {
  if (default_fs.empty()) return "file://";
  while (absl::EndsWith(default_fs, "/") && !absl::EndsWith(default_fs, "://")) {
    default_fs.remove_suffix(1);
  }
  return default_fs;
}

absl::string_view TrimSlashes(absl::string_view folder) {
  while (absl::StartsWith(folder, "/")) folder.remove_prefix(1);
  while (absl::EndsWith(folder, "/")) folder.remove_suffix(1);
  return folder;
}

}  // namespace

std::string AbsolutePath(absl::string_view path, absl::string_view default_fs,
                         absl::string_view working_dir, absl::string_view user) {
  if (HasScheme(path)) return std::string(path);
  const absl::string_view root = TrimRoot(default_fs);
  if (absl::StartsWith(path, "/")) return absl::StrCat(root, path);
  if (absl::StartsWith(root, "hdfs://") || absl::StartsWith(root, "viewfs://")) {
    return absl::StrCat(root, "/user/", user, "/", path);
  }
  if (absl::StartsWith(root, "file:")) {
    const absl::string_view folder = TrimSlashes(working_dir);
    return absl::StrCat(root, "/", folder, folder.empty() ? "" : "/", path);
  }
  return absl::StrCat(root, "/", path);
}

std::string PathUser() {
  for (const char* name : {"LOGNAME", "USER", "LNAME", "USERNAME"}) {
    std::string user = EnvOr(name, "");
    if (!user.empty()) return user;
  }
  std::vector<char> buffer(size_t{16} << 10);
  passwd entry = {};
  passwd* found = nullptr;
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) != 0 ||
      found == nullptr) {
    return "nobody";
  }
  return entry.pw_name;
}

}  // namespace millrace
