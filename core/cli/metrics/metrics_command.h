// File: core/cli/metrics/metrics_command.h
//
// `millrace metrics`: clusters in numbers, once on stdout, or for whoever asks at a port.
#ifndef CORE_CLI_METRICS_METRICS_COMMAND_H_
#define CORE_CLI_METRICS_METRICS_COMMAND_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/cli/metrics/metrics_server.h"
#include "core/cli/view/cluster_choice.h"

namespace millrace::cli {

struct MetricsOptions {
  ClusterChoice choice;  // nothing chosen: all clusters of this user on this machine
  bool nodes = false;
  std::optional<MetricsServerOptions> serve;
};

// Whether this may be served: INVALID_ARGUMENT for an address that other machines reach, without
// TLS, or without a token or certificates of callers. `prefix`: how the options that it names
// begin.
[[nodiscard]] absl::Status CheckServed(const MetricsServerOptions& options,
                                       absl::string_view prefix = "--");

// Returns the exit code. Blocking: with `serve` until the process is ended.
int Metrics(const MetricsOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_METRICS_METRICS_COMMAND_H_
