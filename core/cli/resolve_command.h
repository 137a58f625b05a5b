// File: core/cli/resolve_command.h
//
// `millrace resolve`: where the members of a cluster are, from any source.
#ifndef CORE_CLI_RESOLVE_COMMAND_H_
#define CORE_CLI_RESOLVE_COMMAND_H_

#include "absl/time/time.h"
#include "core/base/json.h"
#include "millrace/membership.h"

namespace millrace::cli {

enum class ResolveFormat {
  kSpec,      // {"worker": ["h:1"]}
  kTfConfig,  // TF_CONFIG of the task
  kHosts,     // "worker:0 h:1", a line each
  kJson,      // all that is known (docs/cli.md)
};

struct ResolveOptions {
  // What ResolverFromJson() takes (resolver/resolver_from_json.h).
  OrderedJson description = OrderedJson::object();
  ResolveFormat format = ResolveFormat::kSpec;
  bool tensorflow = false;
  bool watch = false;
  absl::Duration poll_interval = WatchOptions().poll_interval;
};

// Prints on stdout, what went wrong on stderr, and returns the exit code (exit_code.h). Blocking;
// with watch until a signal comes or nobody reads. Termination signals are blocked
// (signal_watch.h).
int Resolve(const ResolveOptions& options);

}  // namespace millrace::cli

#endif  // CORE_CLI_RESOLVE_COMMAND_H_
