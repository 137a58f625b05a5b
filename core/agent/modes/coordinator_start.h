// File: core/agent/modes/coordinator_start.h
//
// The parameters of `start` of `millrace-agent coordinator` (docs/control_protocol.md, section 5):
// the options of a cluster, in the groups of millrace/cluster_options.h, and the coordinator's own.
//
// Thread safety: a pure function.

#ifndef CORE_AGENT_MODES_COORDINATOR_START_H_
#define CORE_AGENT_MODES_COORDINATOR_START_H_

#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "core/coordinator/state/coordinator_options.h"

namespace millrace {

struct CoordinatorStart {
  CoordinatorOptions options;  // without observer
  // Which events the parent wants besides `slot`, `failure` and `relaunch`.
  bool output_events = false;
  bool metric_events = false;
  // Whether dashboard and CLI find the cluster by itself (core/client/cluster_file.h).
  bool cluster_file = false;
};

// Returns INVALID_ARGUMENT naming the field, also for a field that there is not: an option that is
// misspelt, or stands in another group, must not be passed over.
[[nodiscard]] absl::StatusOr<CoordinatorStart> ParseCoordinatorStart(const Json& params);

}  // namespace millrace

#endif  // CORE_AGENT_MODES_COORDINATOR_START_H_
