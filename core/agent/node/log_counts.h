// File: core/agent/node/log_counts.h
//
// What became of the output of nodes on its way to their log files.
//
// Defines: LogCounts.

#ifndef CORE_AGENT_NODE_LOG_COUNTS_H_
#define CORE_AGENT_NODE_LOG_COUNTS_H_

#include <atomic>
#include <cstdint>

namespace millrace {

// Only grows. Thread safety: thread-safe; shared by whoever counts and whoever reads.
struct LogCounts {
  std::atomic<uint64_t> written_bytes{0};
  // The disk was too slow, full, or not to be written to.
  std::atomic<uint64_t> lost_bytes{0};
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_LOG_COUNTS_H_
