// File: core/cli/view/cluster_choice.h
//
// Which cluster a command is about, and the way to it.
//
// Defines: ClusterChoice, Purpose, OptionsOf(), ConnectTo().
#ifndef CORE_CLI_VIEW_CLUSTER_CHOICE_H_
#define CORE_CLI_VIEW_CLUSTER_CHOICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/client/raw_cluster_client.h"

namespace millrace::cli {

// What the command line said. All empty: the cluster of this user that runs on this machine. If
// several run, commands that only look take the newest, and commands that act take none.
struct ClusterChoice {
  std::string cluster;  // a cluster's id, the beginning of one, or a cluster file
  // Or host:port, with all three files.
  std::string connect;
  std::string ca_file;
  std::string identity_file;  // a client certificate of the cluster with its key
  std::string token_file;     // an operator's or a viewer's token
};

enum class Purpose {
  kLook,  // shows something: with several clusters a line on stderr says which one
  kAct,   // changes something, or reads what only an operator may
};

// Returns INVALID_ARGUMENT for options that do not go together, and for kAct if nothing was chosen
// and several clusters run, naming them; UNAVAILABLE if nothing was chosen and no cluster runs;
// NOT_FOUND for a cluster or file that is not there. Does not reach out yet. Blocking: disk.
[[nodiscard]] absl::StatusOr<ClusterClientOptions> OptionsOf(const ClusterChoice& choice,
                                                             Purpose purpose);
[[nodiscard]] absl::StatusOr<std::unique_ptr<RawClusterClient>> ConnectTo(
    const ClusterChoice& choice, Purpose purpose);

}  // namespace millrace::cli

#endif  // CORE_CLI_VIEW_CLUSTER_CHOICE_H_
