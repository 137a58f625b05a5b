// File: core/cli/view/view_commands.h
//
// The commands that look at a cluster: status, nodes, events, logs, clusters.
#ifndef CORE_CLI_VIEW_VIEW_COMMANDS_H_
#define CORE_CLI_VIEW_VIEW_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/cli/view/cluster_choice.h"
#include "millrace/client.h"

namespace millrace::cli {

struct ViewOptions {
  ClusterChoice choice;
  bool json = false;
  bool watch = false;                                        // status, nodes
  absl::Duration interval = ClusterWatchOptions().interval;  // of watch
  bool follow = false;                                       // events, logs
  bool raw = false;                // logs: control characters, also on a terminal
  int lines = 0;                   // events, logs: how many to begin with
  std::vector<std::string> nodes;  // logs: "worker:1" or executor ids; empty: all
};

// Each prints on stdout, what went wrong on stderr, and returns the exit code (exit_code.h).
// Blocking; watch and follow until the cluster is gone or a signal ends the process.
int ShowStatus(const ViewOptions& options);
int ShowNodes(const ViewOptions& options);
int ShowEvents(const ViewOptions& options);
int ShowLogs(const ViewOptions& options);
int ShowClusters(const ViewOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_VIEW_VIEW_COMMANDS_H_
