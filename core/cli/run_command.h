// File: core/cli/run_command.h
//
// `millrace run`: any program as a cluster on this machine.
#ifndef CORE_CLI_RUN_COMMAND_H_
#define CORE_CLI_RUN_COMMAND_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/cli/output_relay.h"

namespace millrace::cli {

struct RunOptions {
  int num_executors = 1;
  int num_ps = 0;
  std::string master_node;
  bool eval_node = false;
  std::map<std::string, std::string> env;
  std::string working_dir;  // empty: here
  std::string log_dir;      // empty: output is not kept
  int restarts = 0;
  int gpus_per_node = 0;
  bool tensorboard = false;
  bool release_port = true;
  OutputMode output = OutputMode::kPrefixed;
  bool quiet = false;
  absl::Duration reservation_timeout = absl::Minutes(10);
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Duration stop_grace = absl::Seconds(5);
  std::vector<std::string> program;  // and its arguments
};

// Runs it until all workers have ended, and then stops ps and evaluator. Returns the exit code that
// kRunHelp describes; whatever went wrong is on stderr. Blocking. The caller has called
// BlockTerminationSignals().
int Run(const RunOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_RUN_COMMAND_H_
