#include "core/node/absolute_path.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace millrace {
namespace {

// RFC 3986: a letter, then letters, digits, '+', '-', '.', before "://".
bool HasScheme(absl::string_view path) {
  const size_t end = path.find("://");
  if (end == absl::string_view::npos || end == 0 || !absl::ascii_isalpha(path[0])) return false;
  for (const char c : path.substr(0, end)) {
    if (!absl::ascii_isalnum(c) && c != '+' && c != '-' && c != '.') return false;
  }
  return true;
}

// Without a slash at the end, except the two of a bare scheme ("file://").
absl::string_view TrimRoot(absl::string_view default_fs) {
  while (absl::EndsWith(default_fs, "/") && !absl::EndsWith(default_fs, "://")) {
    default_fs.remove_suffix(1);
  }
  return default_fs;
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
  if (absl::StartsWith(root, "file://")) {
    return absl::StrCat(root, "/", absl::StripSuffix(absl::StripPrefix(working_dir, "/"), "/"), "/",
                        path);
  }
  return absl::StrCat(root, "/", path);
}

}  // namespace millrace
