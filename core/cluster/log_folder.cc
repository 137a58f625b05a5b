#include "core/cluster/log_folder.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/text.h"

namespace millrace {

absl::StatusOr<std::string> LogFolder(absl::string_view name, absl::string_view folder) {
  absl::string_view path = folder;
  const bool url = absl::ConsumePrefix(&path, "file://");
  if (!absl::StrContains(path, "://") && (!url || absl::StartsWith(path, "/"))) {
    return std::string(path);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(name, " ", EscapeControls(folder),
                   ": logs are files of the nodes' hosts: write a path, or file:///PATH"));
}

}  // namespace millrace
