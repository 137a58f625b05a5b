// File: core/agent/link/agent_counts.h
//
// What an agent has done since its start, as it tells a parent that keeps count (the event "counts"
// of docs/control_protocol.md, section 1).
//
// Defines: GpuCounts, AgentCounts, AgentCountsJson(), ParseAgentCounts().

#ifndef CORE_AGENT_LINK_AGENT_COUNTS_H_
#define CORE_AGENT_LINK_AGENT_COUNTS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "core/base/json.h"

namespace millrace {

// The host's GPUs that an agent may use.
struct GpuCounts {
  uint64_t own = 0;     // claimed for its node
  uint64_t others = 0;  // claimed by others
  uint64_t free = 0;

  friend bool operator==(const GpuCounts&, const GpuCounts&) = default;
};

struct AgentCounts {
  // Node processes.
  uint64_t started = 0;
  uint64_t restarted = 0;  // of these: another attempt
  // By how they ended.
  uint64_t finished = 0;   // by themselves, with exit code 0
  uint64_t failed = 0;     // by themselves, with another one
  uint64_t killed = 0;     // by a signal that nobody here had sent
  uint64_t stopped = 0;    // as they were asked to
  uint64_t unstarted = 0;  // never ran: no such program, no GPUs

  // Their output. Bytes for the log file:
  uint64_t log_written_bytes = 0;
  uint64_t log_lost_bytes = 0;  // the disk was too slow, full, or not to be written to
  // Lines for the driver:
  uint64_t relayed_lines = 0;
  uint64_t dropped_lines = 0;  // over the rate, or the connection was too slow

  std::optional<GpuCounts> gpus;  // once it has looked: unset before

  friend bool operator==(const AgentCounts&, const AgentCounts&) = default;
};

// The members of the event.
[[nodiscard]] OrderedJson AgentCountsJson(const AgentCounts& counts);

// Members that are not there are 0. Returns INVALID_ARGUMENT for one that is no count.
[[nodiscard]] absl::StatusOr<AgentCounts> ParseAgentCounts(const Json& event);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_AGENT_COUNTS_H_
