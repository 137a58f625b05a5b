// File: testing/compatibility/cluster.h
//
// The coordinator of the cluster that is recorded, and whose recording is played again.
//
// Defines: RecordedClusterOptions(), ReaderOptions().

#ifndef TESTING_COMPATIBILITY_CLUSTER_H_
#define TESTING_COMPATIBILITY_CLUSTER_H_

#include <string>

#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "millrace/client.h"
#include "testing/compatibility/conversation.h"

namespace millrace::compatibility {

// One worker that is fed; its program is shipped.
[[nodiscard]] inline CoordinatorOptions RecordedClusterOptions(const std::string& program) {
  CoordinatorOptions options;
  options.cluster_id = "recorded";
  options.name = "recorded";
  options.roles = *DealRoles({.num_executors = 1});
  options.program.path = program;
  options.program.shipped = true;
  options.input_mode = InputMode::kFeed;
  options.failure.restart.max_restarts = 1;
  options.lost_after = absl::Seconds(60);  // a busy machine is not a lost host
  return options;
}

// For viewers and operators, by way of `address`.
[[nodiscard]] inline ClusterClientOptions ReaderOptions(const Coordinator& coordinator,
                                                        const std::string& address,
                                                        const std::string& ca_pem) {
  ClusterClientOptions options;
  options.address = address;
  options.ca_pem = ca_pem;
  options.identity_pem = coordinator.viewer_identity_pem();
  options.viewer_token = coordinator.tokens().viewer;
  options.operator_token = coordinator.tokens().operator_token;
  return options;
}

}  // namespace millrace::compatibility

#endif  // TESTING_COMPATIBILITY_CLUSTER_H_
