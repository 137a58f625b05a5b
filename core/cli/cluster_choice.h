// File: core/cli/cluster_choice.h
//
// Which cluster a command is about, and the way to it.
//
// Defines: ClusterChoice, ConnectTo().
#ifndef CORE_CLI_CLUSTER_CHOICE_H_
#define CORE_CLI_CLUSTER_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/client/cluster_client.h"

namespace millrace::cli {

// What the command line said. All empty: the newest cluster of this user on this machine.
struct ClusterChoice {
  std::string cluster;  // a cluster's id, the beginning of one, or a cluster file
  // Or host:port, with both files.
  std::string connect;
  std::string ca_file;
  std::string token_file;  // an operator's or a viewer's token
};

// Returns INVALID_ARGUMENT for options that do not go together, UNAVAILABLE if nothing was chosen and
// no cluster runs, NOT_FOUND for a cluster or file that is not there. Does not reach out yet.
// Blocking: disk.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterClient>> ConnectTo(const ClusterChoice& choice);

}  // namespace millrace::cli

#endif  // CORE_CLI_CLUSTER_CHOICE_H_
