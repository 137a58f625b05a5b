// File: core/gpu/gpu_helper.h
//
// Where millrace-gpu is.
//
// Defines: kGpuHelperVariable, FindGpuHelper().
#ifndef CORE_GPU_GPU_HELPER_H_
#define CORE_GPU_GPU_HELPER_H_

#include <string>

#include "absl/status/statusor.h"

namespace millrace {

inline constexpr char kGpuHelperVariable[] = "MILLRACE_GPU_HELPER";

// The millrace-gpu to run: `named`, the value of that variable, or if it is empty the one beside
// `agent`, the path of millrace-agent, or where Bazel has it. Returns NOT_FOUND, saying where it
// was looked for. Thread safety: thread-safe. Blocking: disk I/O.
[[nodiscard]] absl::StatusOr<std::string> FindGpuHelper(const std::string& named,
                                                        const std::string& agent);

}  // namespace millrace

#endif  // CORE_GPU_GPU_HELPER_H_
