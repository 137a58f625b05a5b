#include "core/process/process_usage.h"

#include <dirent.h>
#include <unistd.h>

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"

namespace millrace {
std::optional<std::vector<pid_t>> NumbersIn(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return std::nullopt;
  std::vector<pid_t> numbers;
  while (const dirent* entry = readdir(dir)) {
    pid_t number = 0;
    if (absl::SimpleAtoi(entry->d_name, &number)) numbers.push_back(number);
  }
  closedir(dir);
  return numbers;
}

std::optional<ProcessUsage> ReadProcessUsage(pid_t pid, const std::string& proc) {
  static const auto ticks_per_second = static_cast<int64_t>(sysconf(_SC_CLK_TCK));
  static const auto page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  if (pid <= 0) return std::nullopt;
  const std::string folder = absl::StrCat(proc, "/", pid);
  const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat(folder, "/stat"));
  if (!stat.ok()) return std::nullopt;
  // The name, in parentheses, may hold anything.
  const size_t name_end = stat->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(*stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  constexpr size_t kFirst = 3;  // number of fields[0], as proc(5) counts
  if (fields.size() < 24 - kFirst + 1) return std::nullopt;
  const auto number = [&](size_t field) {
    uint64_t value = 0;
    return absl::SimpleAtoi(fields[field - kFirst], &value) ? value : 0;
  };
  const auto time = [&](uint64_t ticks) {
    return absl::Seconds(static_cast<int64_t>(ticks)) / ticks_per_second;
  };
  ProcessUsage usage;
  usage.cpu = time(number(14) + number(15));
  usage.children_cpu = time(number(16) + number(17));
  usage.threads = number(20);
  usage.resident_bytes = number(24) * page_bytes;
  if (const auto files = NumbersIn(absl::StrCat(folder, "/fd")); files.has_value()) {
    usage.open_files = files->size();
  }
  return usage;
}

std::optional<uint64_t> ReadOpenFilesLimit(pid_t pid, const std::string& proc) {
  constexpr absl::string_view kName = "Max open files";
  const absl::StatusOr<std::string> limits = ReadFile(absl::StrCat(proc, "/", pid, "/limits"));
  if (!limits.ok()) return std::nullopt;
  for (const absl::string_view line : absl::StrSplit(*limits, '\n')) {
    if (!absl::StartsWith(line, kName)) continue;
    const std::vector<absl::string_view> values =
        absl::StrSplit(line.substr(kName.size()), ' ', absl::SkipEmpty());
    uint64_t soft = 0;
    if (!values.empty() && absl::SimpleAtoi(values[0], &soft)) return soft;
  }
  return std::nullopt;
}

}  // namespace millrace
