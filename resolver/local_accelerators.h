// File: resolver/local_accelerators.h
//
// The GPUs that this process may use on its host: what ClusterResolver::num_accelerators() answers
// for the task itself.
//
// Defines: LocalAcceleratorsOptions, LocalAccelerators().
//
//   MILLRACE_ASSIGN_OR_RETURN(const auto accelerators, LocalAccelerators());   // {"GPU": 2}

#ifndef RESOLVER_LOCAL_ACCELERATORS_H_
#define RESOLVER_LOCAL_ACCELERATORS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millrace {

struct LocalAcceleratorsOptions {
  // The millrace-gpu to run. Empty: what MILLRACE_GPU_HELPER names, as for the agent; else the one
  // beside this program, where Bazel has it, or in PATH.
  std::string helper;
  // Asked where NVML cannot be used; a path, or a name in PATH.
  std::string nvidia_smi = "nvidia-smi";
  // For both together. Drivers load slowly the first time.
  absl::Duration timeout = absl::Seconds(30);
};

// {"GPU": n}, or {} on a host without GPUs, without an NVIDIA driver, or where CUDA_VISIBLE_DEVICES
// shows none: that variable counts as it does for CUDA. A GPU in MIG mode counts as its instances.
//
// Returns NOT_FOUND if there is no millrace-gpu, saying where it was looked for; DEADLINE_EXCEEDED
// naming the driver call that hangs; UNAVAILABLE if there is a driver that does not answer
// properly.
//
// Thread safety: thread-safe. Blocking: for at most options.timeout; a child process runs
// meanwhile.
[[nodiscard]] absl::StatusOr<std::map<std::string, int>> LocalAccelerators(
    const LocalAcceleratorsOptions& options = {});

}  // namespace millrace

#endif  // RESOLVER_LOCAL_ACCELERATORS_H_
