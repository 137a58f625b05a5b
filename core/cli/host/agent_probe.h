// File: core/cli/host/agent_probe.h
//
// Whether agents that listen elsewhere can be adopted: each is held for a moment, and let go.
//
// Defines: AgentAddress, ProbeAgents().
#ifndef CORE_CLI_HOST_AGENT_PROBE_H_
#define CORE_CLI_HOST_AGENT_PROBE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/cli/host/diagnosis.h"
#include "core/launch/agent_secret.h"

namespace millrace::cli {

struct AgentAddress {
  std::string node;     // "worker:1"
  std::string address;  // "h1:7077"
};

// One finding for each agent, in their order: its host, its version and how it sees this driver, or
// why it cannot be had. One that serves a cluster is well, and is left alone. Nothing is started.
// Thread safety: thread-safe. Blocking: `timeout` at most, for all of them together.
[[nodiscard]] std::vector<Finding> ProbeAgents(const std::vector<AgentAddress>& agents,
                                               const AgentSecret& secret, absl::Duration timeout);

}  // namespace millrace::cli

#endif  // CORE_CLI_HOST_AGENT_PROBE_H_
