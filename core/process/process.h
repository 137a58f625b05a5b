// File: core/process/process.h
//
// Facts about processes of this host. A pid alone names nobody, since pids are used again; a pid
// with its start time does.
//
// Defines: ProcessStartTime(), ProcessAlive(), SelfExecutablePath(), EnvOr().
//
//   MILLRACE_ASSIGN_OR_RETURN(uint64_t start, ProcessStartTime(getpid()));   // goes into a file
//   ...
//   if (!ProcessAlive(pid, start)) unlink(path);   // its writer is gone
//
// Thread safety: thread-safe. Blocking: never (procfs).

#ifndef CORE_PROCESS_PROCESS_H_
#define CORE_PROCESS_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace millrace {

// Start time in clock ticks since boot (/proc/<pid>/stat, field 22).
// Returns NOT_FOUND if there is no such process, INVALID_ARGUMENT if pid <= 0.
[[nodiscard]] absl::StatusOr<uint64_t> ProcessStartTime(pid_t pid);

// Whether the process `pid` that began at `start_time` still runs. A zombie does not run. If
// procfs cannot be read, the answer is whether the pid exists.
[[nodiscard]] bool ProcessAlive(pid_t pid, uint64_t start_time);

// Absolute path of the running program. Returns the error of readlink("/proc/self/exe").
[[nodiscard]] absl::StatusOr<std::string> SelfExecutablePath();

// The environment variable `name`, or `fallback` if it is unset or empty.
[[nodiscard]] std::string EnvOr(const char* name, absl::string_view fallback);

namespace process_internal {
// Parses /proc/<pid>/stat; `state` receives field 3. Returns INVALID_ARGUMENT for anything else.
// Exposed for the test.
[[nodiscard]] absl::StatusOr<uint64_t> ParseStat(absl::string_view stat, char* state);
}  // namespace process_internal

}  // namespace millrace

#endif  // CORE_PROCESS_PROCESS_H_
