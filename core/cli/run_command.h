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
#include "core/coordinator/state/restart_policy.h"
#include "core/launch/agent_secret.h"

namespace millrace::cli {

// Agents that listen, in place of this machine.
struct RunOn {
  OrderedJson resolver;        // the description of where they are
  bool fixed_members = false;  // that never changes
  bool shape = false;          // the cluster has as many nodes as the resolver names
  SecretPlace secret;
  std::string driver_host;  // empty: found out
  std::string bind_address = "0.0.0.0";
  absl::Duration poll_interval = absl::Seconds(5);
  bool ship = false;  // send the program there; otherwise it is there
};

struct RunOptions {
  std::optional<RunOn> on;
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
  absl::Duration stop_timeout = absl::Seconds(10);
  absl::Duration backoff = absl::Seconds(1);
  absl::Duration max_backoff = absl::Seconds(30);
  QuarantinePolicy quarantine;
  std::vector<std::string> program;  // and its arguments
};

// Runs it until all workers have ended, and then stops ps and evaluator. Returns the exit code that
// kRunHelp describes; whatever went wrong is on stderr. Blocking. The caller has called
// BlockTerminationSignals(), and there are no threads yet.
int Run(RunOptions options);

}  // namespace millrace::cli

#endif  // CORE_CLI_RUN_COMMAND_H_
