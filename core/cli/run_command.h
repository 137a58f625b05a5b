// File: core/cli/run_command.h
//
// `millrace run` and `millrace srun`: any program as a cluster on this machine, on agents that
// listen elsewhere, or on those that Slurm starts.
#ifndef CORE_CLI_RUN_COMMAND_H_
#define CORE_CLI_RUN_COMMAND_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/cli/output/terminal.h"
#include "core/cli/output_relay.h"
#include "core/metrics/metrics_server.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster_options.h"

namespace millrace::cli {

// Agents that listen, in place of this machine.
struct RunOn {
  OrderedJson resolver;  // the description of where they are
  AdoptingLauncherOptions launcher;
  bool shape = false;  // the cluster has as many nodes as the resolver names
  bool ship = false;   // send the program there; otherwise it is there
};

// Agents that Slurm starts in the job in which the command runs.
struct RunInSlurm {
  std::vector<std::string> srun_options;
  std::string driver_host;
  std::string bind_address = "0.0.0.0";
  bool shape = false;  // the cluster has as many nodes as the job has tasks
  bool ship = false;   // as RunOn's
};

struct RunOptions {
  std::optional<RunOn> on;
  std::optional<RunInSlurm> slurm;  // in place of `on`
  // Without what the command itself hears and ends.
  ClusterOptions cluster;
  std::map<std::string, std::string> env;
  OutputMode output = OutputMode::kPrefixed;
  bool timestamp_output = false;
  ColorMode color = ColorMode::kAuto;
  // The node that reads this process's stdin. "none": no node; unset: that of RANK 0, on this
  // machine and unless it is a terminal.
  std::optional<std::string> stdin_node;
  std::optional<MetricsServerOptions> metrics;  // of this cluster, for as long as it runs
  bool quiet = false;
  bool leave_on_sigterm = false;  // to the next driver; only where the cluster can be resumed
  absl::Duration timeout = absl::InfiniteDuration();
  std::vector<std::string> program;  // and its arguments
};

// Runs it until all workers have ended, and then stops ps and evaluator. Returns the exit code that
// kRun (help/help_text.cc) describes; whatever went wrong is on stderr. Blocking. The caller has
// called BlockTerminationSignals(), and there are no threads yet.
int Run(RunOptions options);

}  // namespace millrace::cli

#endif  // CORE_CLI_RUN_COMMAND_H_
