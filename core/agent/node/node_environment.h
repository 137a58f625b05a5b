// File: core/agent/node/node_environment.h
//
// What a node finds when it starts: the context file and its environment
// (docs/control_protocol.md, sections 3 and 4).
//
// Defines: NodeEnvironmentInputs, NodeEnvironment, MakeNodeEnvironment(), IsNodeVariable().
//
//   MILLRACE_ASSIGN_OR_RETURN(NodeEnvironment made, MakeNodeEnvironment(inputs));
//   MILLRACE_RETURN_IF_ERROR(WriteFileAtomic(inputs.context_path, made.context_json, 0600));
//   Launch(..., made.variables);

#ifndef CORE_AGENT_NODE_NODE_ENVIRONMENT_H_
#define CORE_AGENT_NODE_NODE_ENVIRONMENT_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// One environment string of 128 KiB fails exec; MILLRACE_CONTEXT and TF_CONFIG are left out from
// this size on, and a warning says so.
inline constexpr size_t kMaxInlineBytes = size_t{96} << 10;

struct NodeEnvironmentInputs {
  v1::Registered registered;
  uint64_t epoch = 0;
  ClusterSpec cluster_spec;
  std::string address;  // host:port of the reserved port, as in the spec
  int port = 0;
  std::optional<int> port_fd;  // number in the node; unset if it was released
  int control_fd = 0;          // number in the node
  std::string working_dir;
  std::string log_dir;
  std::string ca_pem;
  std::string key_pem;       // of registered.certificate_pem
  std::string context_path;  // where context_json will be
  // UUIDs of the GPUs that were claimed for the node: all that it sees. Unset: GPUs are left alone.
  std::optional<std::vector<std::string>> gpus;
  // From weakest to strongest: the agent's own environment ("NAME=value"), NodeSpec.env, and what
  // the parent gave for this host. Millrace's variables win over all of them.
  std::vector<std::string> inherited;
  std::map<std::string, std::string> host_env;
};

struct NodeEnvironment {
  std::string context_json;            // for the file; holds the node's key
  std::vector<std::string> variables;  // "NAME=value", sorted by name
  std::vector<std::string> left_out;   // names that were too large
};

// Whether Millrace alone sets this variable of a node (RANK, TF_CONFIG, MILLRACE_CONTEXT_FILE,
// ...), so that a value from anywhere else is ignored. Thread safety: pure function.
[[nodiscard]] bool IsNodeVariable(absl::string_view name);

// The host of a task's address; the whole text if it has no port.
[[nodiscard]] std::string HostOf(const std::string& address);

// Returns INVALID_ARGUMENT, naming the variable, if a name is empty or holds "=", or a name or
// value holds a zero byte; or if the job or task index makes no sense. Thread safety: pure
// function.
[[nodiscard]] absl::StatusOr<NodeEnvironment> MakeNodeEnvironment(
    const NodeEnvironmentInputs& inputs);

}  // namespace millrace

#endif  // CORE_AGENT_NODE_NODE_ENVIRONMENT_H_
