// File: core/cli/top/top_command.h
//
// `millrace top`: the window's sentences and tables in a terminal.
#ifndef CORE_CLI_TOP_TOP_COMMAND_H_
#define CORE_CLI_TOP_TOP_COMMAND_H_

#include "absl/time/time.h"
#include "core/cli/view/cluster_choice.h"
#include "millrace/client.h"

namespace millrace::cli {

struct TopOptions {
  ClusterChoice choice;
  absl::Duration interval = ClusterWatchOptions().interval;
  bool once = false;       // prints it and ends
  bool json = false;       // the same as an object
  bool no_colour = false;  // as NO_COLOR
};

// Returns the exit code. Called before there are threads: it blocks signals, which then come to its
// loop. Blocking: until a key or a signal ends it; `once` and `json`: for two intervals.
int Top(const TopOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_TOP_TOP_COMMAND_H_
