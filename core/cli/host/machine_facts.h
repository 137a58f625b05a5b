// File: core/cli/host/machine_facts.h
//
// What can be known of this machine before anything is started on it: `millrace doctor`.
//
// Defines: MachineFacts, ReadMachineFacts(), ParseMemoryBytes(), ParseCpuQuota().
//
//   const std::vector<Finding> findings = DiagnoseMachine(ReadMachineFacts(), /*num_nodes=*/4);
#ifndef CORE_CLI_HOST_MACHINE_FACTS_H_
#define CORE_CLI_HOST_MACHINE_FACTS_H_

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/cli/host/limits.h"

namespace millrace::cli {

struct MachineFacts {
  static constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();

  Limits limits;
  double processors = 1;             // that this process may use at once
  double processor_quota = 0;        // of its control groups, in processors; 0: none
  uint64_t memory_bytes = kUnknown;  // that is left: of the machine, or of a control group
  std::string memory_group;          // the group that leaves least; empty: the machine does
  bool shared_memory = true;         // memfd_create works
  std::string folder;                // for agents' files: $TMPDIR
  absl::Status folder_status;        // whether files can be made there
  uint64_t folder_bytes = kUnknown;  // that are free there
  absl::StatusOr<std::string> clusters = "";  // the folder of cluster files, or why there is none
  bool clock_synchronized = true;             // as the kernel has been told
  absl::StatusOr<std::string> agent = "";  // "0.2.0", of the millrace-agent that would be started
  absl::StatusOr<std::string> gpus = "";   // "2 GPUs, driver 550.54.15", or why none is known
};

// Blocking: runs millrace-agent and millrace-gpu, which take a second, and ten if the driver of the
// GPUs hangs.
[[nodiscard]] MachineFacts ReadMachineFacts();

// "max" or bytes, as memory.max has them; kUnknown for anything that is no number. "50000 100000"
// as cpu.max has it: 0.5; 0 for "max 100000" and what makes no sense. Exposed for the test. Thread
// safety: pure functions.
[[nodiscard]] uint64_t ParseMemoryBytes(absl::string_view text);
[[nodiscard]] double ParseCpuQuota(absl::string_view text);

}  // namespace millrace::cli

#endif  // CORE_CLI_HOST_MACHINE_FACTS_H_
