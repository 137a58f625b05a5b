// File: core/coordinator/state/sidecar.h
//
// Programs beside nodes: TensorBoard, an exporter, a profiler.
//
// Defines: Sidecar, TensorBoardSidecar(), AddSidecars().
//
// Thread safety: ordinary values and pure functions.

#ifndef CORE_COORDINATOR_STATE_SIDECAR_H_
#define CORE_COORDINATOR_STATE_SIDECAR_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// A program beside one node, in a process group of its own: started by the node's agent once the
// node runs, killed with it, started again with its next attempt. Its URL is published among the
// node's endpoints under `name` as soon as its port takes connections. How it ends is no failure.
struct Sidecar {
  std::string name;     // 1 to 40 of a-z 0-9 -
  std::string node;     // "worker:0". Empty: the chief or master; worker:0 in clusters without
  std::string program;  // a path on the agent's host, or a name that is looked up in PATH there
  // After argv[0]. "{host}", "{port}" (reserved for it) and "{log_dir}" are replaced.
  std::vector<std::string> args;
  std::map<std::string, std::string> env;  // added to the agent's environment
};

// TensorBoard on the cluster's log_dir, as "tensorboard": `tensorboard` of the host's PATH, or else
// python3's module. A host with neither says so in one line and goes on without.
[[nodiscard]] Sidecar TensorBoardSidecar();

// Puts `sidecars` into `spec`, each with the role it stands beside. Returns INVALID_ARGUMENT,
// naming the sidecar, for a bad or repeated name, no program, a node that `roles` does not have, or
// bytes that no argument or environment can hold.
[[nodiscard]] absl::Status AddSidecars(const std::vector<Sidecar>& sidecars,
                                       const std::vector<NodeRole>& roles, v1::NodeSpec* spec);

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_SIDECAR_H_
