// File: core/cli/control_commands.h
//
// The commands that act on a running cluster: kv, stop, restart. They need its operator's token.
#ifndef CORE_CLI_CONTROL_COMMANDS_H_
#define CORE_CLI_CONTROL_COMMANDS_H_

#include <string>

#include "absl/time/time.h"
#include "core/cli/view/cluster_choice.h"

namespace millrace::cli {

struct ControlOptions {
  ClusterChoice choice;
  bool json = false;
  std::string key;                             // kv; of list: a prefix
  std::string value;                           // kv set; "-": what stdin brings
  absl::Duration wait = absl::ZeroDuration();  // kv get: for the key to come
  int limit = 1000;                            // kv list
  std::string node;                            // restart: "worker:1" or an executor id
  std::string reason;                          // stop, restart
  bool now = false;                            // stop
};

// Each returns the exit code (exit_code.h). Blocking: until the coordinator has answered.
int KvGet(const ControlOptions& options);
int KvSet(const ControlOptions& options);
int KvList(const ControlOptions& options);
int KvDelete(const ControlOptions& options);
int StopCluster(const ControlOptions& options);
int RestartNode(const ControlOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_CONTROL_COMMANDS_H_
