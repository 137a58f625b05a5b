// File: core/cli/doctor_command.h
//
// `millrace doctor`: what is in the way of clusters here, and at the agents that a source names.
#ifndef CORE_CLI_DOCTOR_COMMAND_H_
#define CORE_CLI_DOCTOR_COMMAND_H_

#include <optional>

#include "absl/time/time.h"
#include "core/base/json.h"
#include "millrace/secret_place.h"

namespace millrace::cli {

struct DoctorOptions {
  // Agents elsewhere.
  struct On {
    OrderedJson resolver;  // what ResolverFromJson() takes (resolver/resolver_from_json.h)
    SecretPlace secret;
    absl::Duration timeout = absl::Seconds(10);
  };
  int num_nodes = 1;  // on this machine; with `on` it only drives
  bool json = false;
  std::optional<On> on;
};

// Prints on stdout, a line for each finding, and returns the exit code: kExitFailed if any is a
// problem. Blocking: runs programs of this machine, and waits for the agents.
int Doctor(const DoctorOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_DOCTOR_COMMAND_H_
