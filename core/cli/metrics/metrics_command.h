// File: core/cli/metrics/metrics_command.h
//
// `millrace metrics`: clusters in numbers, once on stdout, or for whoever asks at a port.
#ifndef CORE_CLI_METRICS_METRICS_COMMAND_H_
#define CORE_CLI_METRICS_METRICS_COMMAND_H_

#include <optional>

#include "core/cli/view/cluster_choice.h"
#include "core/metrics/metrics_server.h"

namespace millrace::cli {

struct MetricsOptions {
  ClusterChoice choice;  // nothing chosen: all clusters of this user on this machine
  bool nodes = false;
  std::optional<MetricsServerOptions> serve;
};

// Returns the exit code. Blocking: with `serve` until the process is ended.
int Metrics(const MetricsOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_METRICS_METRICS_COMMAND_H_
