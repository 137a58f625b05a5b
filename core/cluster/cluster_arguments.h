// File: core/cluster/cluster_arguments.h
//
// What a driver asks of a cluster, checked before anything is started.
//
// Defines: AbsolutePathHere(), ResolvePaths(), CheckDuration(), CheckProgram(), CheckOptions(),
// CheckResumeOptions().
//
// Thread safety: pure functions, but for the working directory that they read.

#ifndef CORE_CLUSTER_CLUSTER_ARGUMENTS_H_
#define CORE_CLUSTER_CLUSTER_ARGUMENTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/cluster_options.h"
#include "millrace/launcher.h"
#include "millrace/node_program.h"

namespace millrace {

// The working directory for an empty path.
[[nodiscard]] std::string AbsolutePathHere(const std::string& path);

// Paths that mean something on this host become absolute: nodes run elsewhere. Returns the errors
// of LogFolder().
[[nodiscard]] absl::Status ResolvePaths(const Launcher& launcher, ClusterOptions* options);

// Returns INVALID_ARGUMENT, naming `name`, if it is not greater than zero.
[[nodiscard]] absl::Status CheckDuration(absl::string_view name, absl::Duration value);

// These return INVALID_ARGUMENT, saying what is wrong.
[[nodiscard]] absl::Status CheckProgram(const NodeProgram& program);
[[nodiscard]] absl::Status CheckOptions(const ClusterOptions& options);

// Returns INVALID_ARGUMENT, or why a cluster of these agents, in this mode, cannot be resumed:
// FAILED_PRECONDITION or UNIMPLEMENTED.
[[nodiscard]] absl::Status CheckResumeOptions(const ClusterOptions& options,
                                              const Launcher& launcher);

}  // namespace millrace

#endif  // CORE_CLUSTER_CLUSTER_ARGUMENTS_H_
