// Where Bazel puts the files that an example needs at run time, or whoever installs it beside it.
#ifndef EXAMPLES_RUNFILES_H_
#define EXAMPLES_RUNFILES_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace millrace::examples {

// `path` is relative to the repository's root: "examples/digits/digits.csv".
inline std::string Runfile(absl::string_view path) {
  for (const char* variable : {"RUNFILES_DIR", "TEST_SRCDIR"}) {
    const char* root = std::getenv(variable);
    if (root != nullptr && *root != '\0') return absl::StrCat(root, "/millrace/", path);
  }
  std::error_code error;  // if there is no /proc, the file is not found
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside =
      self.parent_path() / std::filesystem::path(std::string(path)).filename();
  if (std::filesystem::exists(beside, error)) return beside.string();
  return absl::StrCat(self.string(), ".runfiles/millrace/", path);
}

}  // namespace millrace::examples

#endif  // EXAMPLES_RUNFILES_H_
