// File: core/base/version_line.h
//
// What programs answer to --version.
//
//   std::puts(VersionLine("millrace", "coordinator protocol 2").c_str());
//
// Defines: VersionLine.

#ifndef CORE_BASE_VERSION_LINE_H_
#define CORE_BASE_VERSION_LINE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace millrace {

// "millrace 0.2.0 (commit 5df9ab14, optimised, x86_64; coordinator protocol 2)": only builds with
// --stamp know the commit, and no other is linked again for a new one. `protocols` may be empty.
[[nodiscard]] std::string VersionLine(absl::string_view program, absl::string_view protocols);

}  // namespace millrace

#endif  // CORE_BASE_VERSION_LINE_H_
