#include "testing/faults/golden_text.h"

#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/net/socket_address.h"
#include "core/process/process.h"

namespace millrace::faults {

std::string GoldenText(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, absl::MaxSplits('\n', 1));
  std::string line(lines[0]);
  const std::pair<std::string, const char*> names[] = {
      {EnvOr("TMPDIR", ""), "TMP"},
      {EnvOr("TEST_SRCDIR", ""), "RUNFILES"},
      {LocalHostname(), "HOST"},
  };
  for (const auto& [found, name] : names) {
    if (!found.empty()) line = absl::StrReplaceAll(line, {{found, name}});
  }
  static const auto* const patterns = new std::vector<std::pair<std::regex, const char*>>{
      {std::regex("pid \\d+"), "pid PID"},
      {std::regex("127\\.0\\.0\\.1:\\d+"), "ADDRESS"},
      {std::regex("[0-9a-f]{12,}"), "ID"},
      {std::regex("\\d+(\\.\\d+)? s ago"), "T s ago"},
      {std::regex("for \\d+(\\.\\d+)? s"), "for T s"},
      {std::regex("arrive in \\d+(\\.\\d+)? s"), "arrive in T s"},
  };
  for (const auto& [pattern, name] : *patterns) line = std::regex_replace(line, pattern, name);
  return line;
}

}  // namespace millrace::faults
