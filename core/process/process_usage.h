// File: core/process/process_usage.h
//
// What one process uses, as procfs counts it.
//
// Defines: ProcessUsage, ReadProcessUsage(), ReadOpenFilesLimit(), NumbersIn().
//
//   if (const auto usage = ReadProcessUsage(getpid())) Show(usage->resident_bytes);
//
// Thread safety: thread-safe. Blocking: never (procfs).

#ifndef CORE_PROCESS_PROCESS_USAGE_H_
#define CORE_PROCESS_PROCESS_USAGE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace millrace {

struct ProcessUsage {
  absl::Duration cpu;           // user and system time of the process itself
  absl::Duration children_cpu;  // of children that it has waited for, and of theirs
  uint64_t threads = 0;
  uint64_t resident_bytes = 0;
  // Descriptors; unset: another user's process, which may not be looked at so closely.
  std::optional<uint64_t> open_files;
};

// Nullopt if there is no such process. `proc` is for tests.
[[nodiscard]] std::optional<ProcessUsage> ReadProcessUsage(pid_t pid,
                                                           const std::string& proc = "/proc");

// The most descriptors that it may have open (the soft limit); nullopt as above, and where there is
// no limit.
[[nodiscard]] std::optional<uint64_t> ReadOpenFilesLimit(pid_t pid,
                                                         const std::string& proc = "/proc");

// The numeric names in a folder, as of processes, threads and descriptors in procfs; nullopt if it
// cannot be read.
[[nodiscard]] std::optional<std::vector<pid_t>> NumbersIn(const std::string& folder);

}  // namespace millrace

#endif  // CORE_PROCESS_PROCESS_USAGE_H_
