// Where Bazel puts the files that an example needs at run time.
#ifndef EXAMPLES_RUNFILES_H_
#define EXAMPLES_RUNFILES_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/process/process.h"

namespace millrace::examples {

// `path` is relative to the repository's root: "examples/digits/digits.csv".
inline std::string Runfile(absl::string_view path) {
  std::string root = EnvOr("RUNFILES_DIR", EnvOr("TEST_SRCDIR", ""));
  if (root.empty()) root = absl::StrCat(SelfExecutablePath().value_or(""), ".runfiles");
  return absl::StrCat(root, "/millrace/", path);
}

}  // namespace millrace::examples

#endif  // EXAMPLES_RUNFILES_H_
