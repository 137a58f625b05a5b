// File: core/cli/run_command.h
//
// `millrace run`: any program as a cluster on this machine, or on agents that listen elsewhere.
#ifndef CORE_CLI_RUN_COMMAND_H_
#define CORE_CLI_RUN_COMMAND_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/cli/output_relay.h"
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

struct RunOptions {
  std::optional<RunOn> on;
  // Without what the command itself hears and ends.
  ClusterOptions cluster;
  std::map<std::string, std::string> env;
  OutputMode output = OutputMode::kPrefixed;
  bool timestamp_output = false;
  bool quiet = false;
  absl::Duration timeout = absl::InfiniteDuration();
  std::vector<std::string> program;  // and its arguments
};

// Runs it until all workers have ended, and then stops ps and evaluator. Returns the exit code that
// kRunHelp describes; whatever went wrong is on stderr. Blocking. The caller has called
// BlockTerminationSignals(), and there are no threads yet.
int Run(RunOptions options);

}  // namespace millrace::cli

#endif  // CORE_CLI_RUN_COMMAND_H_
