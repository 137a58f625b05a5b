#include "core/cli/output/node_line.h"

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/text.h"

namespace millrace::cli {

std::string HarmlessLine(absl::string_view line) {
  return absl::StrJoin(
      absl::StrSplit(line, '\t'), "\t",
      [](std::string* out, absl::string_view part) { out->append(EscapeControls(part)); });
}

}  // namespace millrace::cli
