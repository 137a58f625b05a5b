#include "core/process/process.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/file.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

struct Stat {
  char state = '?';
  uint64_t start_time = 0;
};

absl::StatusOr<Stat> ReadStat(pid_t pid) {
  if (pid <= 0)
    return absl::InvalidArgumentError(absl::StrCat("pid must be positive, found ", pid));
  absl::StatusOr<std::string> text = ReadFile(absl::StrCat("/proc/", pid, "/stat"), 64 << 10);
  if (!text.ok()) {
    // ESRCH (mapped to NOT_FOUND too) if it ends between open and read.
    if (absl::IsNotFound(text.status())) {
      return absl::NotFoundError(absl::StrCat("no process with pid ", pid));
    }
    return text.status();
  }
  Stat stat;
  MILLRACE_ASSIGN_OR_RETURN(stat.start_time, process_internal::ParseStat(*text, &stat.state));
  return stat;
}

}  // namespace

namespace process_internal {

absl::StatusOr<uint64_t> ParseStat(absl::string_view stat, char* state) {
  // Field 2 is the program's name in parentheses and may hold anything, also ") R 1"; the fields
  // after the last parenthesis cannot.
  const absl::Status malformed = absl::InvalidArgumentError("malformed /proc/<pid>/stat");
  const size_t end_of_name = stat.rfind(')');
  if (end_of_name == absl::string_view::npos) return malformed;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(stat.substr(end_of_name + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  constexpr size_t kState = 3 - 3;  // the first field here is field 3
  constexpr size_t kStartTime = 22 - 3;
  uint64_t start_time = 0;
  if (fields.size() <= kStartTime || fields[kState].size() != 1 ||
      !absl::SimpleAtoi(fields[kStartTime], &start_time)) {
    return malformed;
  }
  *state = fields[kState].front();
  return start_time;
}

}  // namespace process_internal

absl::StatusOr<uint64_t> ProcessStartTime(pid_t pid) {
  MILLRACE_ASSIGN_OR_RETURN(const Stat stat, ReadStat(pid));
  return stat.start_time;
}

bool ProcessAlive(pid_t pid, uint64_t start_time) {
  const absl::StatusOr<Stat> stat = ReadStat(pid);
  if (stat.ok()) {
    return stat->start_time == start_time && stat->state != 'Z' && stat->state != 'X';
  }
  if (pid <= 0) return false;
  return kill(pid, 0) == 0 || errno == EPERM;
}

absl::StatusOr<std::string> SelfExecutablePath() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  if (size < 0) return absl::ErrnoToStatus(errno, "cannot read /proc/self/exe");
  path.resize(static_cast<size_t>(size));
  return path;
}

std::string EnvOr(const char* name, absl::string_view fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::string(fallback) : std::string(value);
}

}  // namespace millrace
