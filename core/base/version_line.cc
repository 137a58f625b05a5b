#include "core/base/version_line.h"

#include "absl/strings/str_cat.h"
#include "core/base/version.h"

namespace millrace {

// In the generated build_commit.cc: empty without --stamp.
extern const char kBuildCommit[];

namespace {

constexpr absl::string_view kMode =
#if defined(MILLRACE_SANITIZER)
    "with sanitizers"
#elif defined(__OPTIMIZE__)
    "optimised"
#else
    "not optimised"
#endif
    ;

constexpr absl::string_view kProcessor =
#if defined(__x86_64__)
    "x86_64"
#elif defined(__aarch64__)
    "aarch64"
#else
    "of an unknown processor"
#endif
    ;

}  // namespace

std::string VersionLine(absl::string_view program, absl::string_view protocols) {
  const absl::string_view commit = kBuildCommit;
  return absl::StrCat(program, " ", kMillraceVersion, " (", commit.empty() ? "" : "commit ", commit,
                      commit.empty() ? "" : ", ", kMode, ", ", kProcessor,
                      protocols.empty() ? "" : "; ", protocols, ")");
}

}  // namespace millrace
