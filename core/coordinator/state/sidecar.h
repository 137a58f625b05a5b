// File: core/coordinator/state/sidecar.h
//
// The programs beside nodes (millrace/sidecar.h) as agents are told of them.
//
// Defines: AddSidecars().
//
// Thread safety: pure function.

#ifndef CORE_COORDINATOR_STATE_SIDECAR_H_
#define CORE_COORDINATOR_STATE_SIDECAR_H_

#include <vector>

#include "absl/status/status.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/proto/coordinator.pb.h"
#include "millrace/sidecar.h"

namespace millrace {

// Puts `sidecars` into `spec`, each with the role it stands beside. Returns INVALID_ARGUMENT,
// naming the sidecar, for a bad or repeated name, no program, a node that `roles` does not have, or
// bytes that no argument or environment can hold.
[[nodiscard]] absl::Status AddSidecars(const std::vector<Sidecar>& sidecars,
                                       const std::vector<NodeRole>& roles, v1::NodeSpec* spec);

}  // namespace millrace

#endif  // CORE_COORDINATOR_STATE_SIDECAR_H_
