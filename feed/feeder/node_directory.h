// File: feed/feeder/node_directory.h
//
// Where a feeder finds the nodes it feeds: what docs/feed_protocol.md section 6 calls lookup. The
// cluster implements it over its coordinator; tests use feed/feeder/fake_node_directory.h.
//
// Defines: FeedTarget, NodeDirectory.
//
//   MILLRACE_ASSIGN_OR_RETURN(FeedTarget target, directory->Lookup("worker:1"));
//   if (target.state == FeedTarget::State::kFailed) return directory->Cause("worker:1");

#ifndef FEED_FEEDER_NODE_DIRECTORY_H_
#define FEED_FEEDER_NODE_DIRECTORY_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace millrace {

// One node at one moment.
struct FeedTarget {
  enum class State {
    kRunning,     // the endpoints are those of a living process
    kRestarting,  // the process is gone, another attempt follows; endpoints mean nothing
    kFinished,    // exited with 0
    kFailed,      // will not come back
  };

  std::string node;  // "worker:1"
  int executor_id = -1;
  int attempt = 0;
  std::string nonce;  // of the attempt
  // Where the node receives rows; any of them may be empty. ipc is for feeders of the network
  // namespace that its name tells (feed/wire/local_name.h): in another one it may be somebody
  // else's. All others, and those whom the ipc endpoint fails, come by CURVE, or by tcp to a node
  // without it.
  std::string ipc_endpoint;
  std::string tcp_endpoint;    // loopback
  std::string curve_endpoint;  // the advertised address
  std::string key;             // what logins at ipc and tcp prove to know, both ways; secret
  std::string curve_key;       // Z85, public: the server's at curve_endpoint, and the node's own
  State state = State::kRunning;
};

// Thread safety: implementations are thread-safe. Blocking: for a round trip to the coordinator at
// most.
class NodeDirectory {
 public:
  virtual ~NodeDirectory() = default;

  // The nodes that take part in feeding, by name; the same during one job.
  [[nodiscard]] virtual std::vector<std::string> fed_nodes() = 0;

  // The present state of a node. A node that has not opened its endpoints yet is kRestarting.
  // Returns NOT_FOUND for a name that is no fed node, UNAVAILABLE if the coordinator cannot be
  // asked.
  [[nodiscard]] virtual absl::StatusOr<FeedTarget> Lookup(const std::string& node) = 0;

  // Why a node failed: the first cause, with exit code or signal and the last lines of its log.
  // Never OK for a node that is kFailed.
  [[nodiscard]] virtual absl::Status Cause(const std::string& node) = 0;
};

}  // namespace millrace

#endif  // FEED_FEEDER_NODE_DIRECTORY_H_
