// File: core/agent/link/start_params.h
//
// The parameters of `start` (docs/control_protocol.md, section 1), checked.

#ifndef CORE_AGENT_LINK_START_PARAMS_H_
#define CORE_AGENT_LINK_START_PARAMS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/agent/link/coordinator_link.h"
#include "core/base/json.h"
#include "core/gpu/gpu_claims.h"
#include "core/net/port_range.h"

namespace millrace {

struct StartParams {
  CoordinatorEndpoint coordinator;
  std::optional<int> executor_id;
  std::string runtime_dir;  // empty: the agent makes one
  std::string working_dir;  // empty: the agent's own
  std::string log_dir;      // empty: the cluster's
  std::string advertise;    // host, address, interface or network; empty: found out
  PortRange port_range;
  std::map<std::string, std::string> env;
  // In place of what the cluster asks for. A count of 0 without ids: none, and the node sees none.
  std::optional<GpuRequest> gpus;
  bool node_stdin = false;     // descriptor 3 is the node's stdin; otherwise that is empty
  bool output_events = false;  // the parent is told what the node writes
  bool count_events = false;   // and what the agent has done
  absl::Duration connect_timeout = absl::Seconds(60);
  bool share_connection = false;  // with other agents of this host that are told so
  // The node's soft limit of file descriptors; 0: that with which the agent was started.
  int64_t descriptor_limit = 0;
};

// `params` with what `from_environment` says: {"executor_id": NAME, "coordinator_host": NAME} sets
// those two to the values of variables of this process ("NAME=value" in `environment`), for a
// parent whose one line reaches several agents. Returns INVALID_ARGUMENT for another member and a
// value that is none, FAILED_PRECONDITION for a variable that is not set. Thread safety: pure
// function.
[[nodiscard]] absl::StatusOr<Json> ParamsFromEnvironment(
    Json params, const std::vector<std::string>& environment);

// Returns INVALID_ARGUMENT, naming the field, for a missing or malformed one. Never quotes the
// token. Unknown fields are ignored: a later parent may know more. Thread safety: pure function.
[[nodiscard]] absl::StatusOr<StartParams> ParseStartParams(const Json& params);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_START_PARAMS_H_
