// File: core/cli/host/limits.h
//
// What this machine must allow before nodes are started on it: otherwise a run would break in the
// middle, far from the cause.
//
// Defines: Limits, ReadLimits(), CheckLimits(), NodesText().
//
//   MILLRACE_RETURN_IF_ERROR(CheckLimits(ReadLimits(), /*num_nodes=*/64));
#ifndef CORE_CLI_HOST_LIMITS_H_
#define CORE_CLI_HOST_LIMITS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"

namespace millrace::cli {

struct Limits {
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  uint64_t file_bytes = kNone;   // of one file: ulimit -f
  uint64_t descriptors = kNone;  // of one process, as far as it may be raised: ulimit -n
  uint64_t processes = kNone;    // processes and threads of this user: ulimit -u; root has none
  uint64_t processes_used = 0;   // of them, now
  bool loopback = true;          // 127.0.0.1 can be reached
};

// Blocking: reads /proc.
[[nodiscard]] Limits ReadLimits();

// Returns FAILED_PRECONDITION, saying which limit is in the way and what to do, if `num_nodes`
// nodes cannot run here however little they need. Thread safety: pure function.
[[nodiscard]] absl::Status CheckLimits(const Limits& limits, int num_nodes);

// "1 node", "4 nodes".
[[nodiscard]] std::string NodesText(int count);

}  // namespace millrace::cli

#endif  // CORE_CLI_HOST_LIMITS_H_
