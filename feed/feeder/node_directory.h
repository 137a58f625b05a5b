// File: feed/feeder/node_directory.h
//
// Where a feeder finds the nodes it feeds: what docs/feed_protocol.md section 6 calls lookup. The
// cluster implements it over its coordinator; tests use feed/feeder/fake_node_directory.h.
//
// Defines: NodeDirectory.
//
//   MILLRACE_ASSIGN_OR_RETURN(FeedTarget target, directory->Lookup("worker:1"));
//   if (target.state == FeedTarget::State::kFailed) return directory->Cause("worker:1");

#ifndef FEED_FEEDER_NODE_DIRECTORY_H_
#define FEED_FEEDER_NODE_DIRECTORY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/balance/feed_target.h"

namespace millrace {

// Thread safety: implementations are thread-safe. Blocking: for a round trip to the coordinator at
// most.
class NodeDirectory {
 public:
  virtual ~NodeDirectory() = default;

  // The nodes that take part in feeding, by name; the same during one job.
  [[nodiscard]] virtual std::vector<std::string> fed_nodes() = 0;

  // The present state of a node.
  // Returns NOT_FOUND for a name that is no fed node, UNAVAILABLE if the coordinator cannot be
  // asked.
  [[nodiscard]] virtual absl::StatusOr<FeedTarget> Lookup(const std::string& node) = 0;

  // Some program reads the queue so that all nodes get equally many batches (docs/feed_protocol.md,
  // section 11). Known before the node accepts a session; from then on it stays so.
  [[nodiscard]] virtual bool IsEqual(const std::string& queue) = 0;

  // Where they do: the rows that each node has of this Train call, as it has told. Those of whom it
  // is not known are left out.
  [[nodiscard]] virtual std::map<std::string, int64_t> EqualRows(const std::string& /*feed_id*/) {
    return {};
  }

  // Why a node failed: the first cause, with exit code or signal and the last lines of its log.
  // Never OK for a node that is kFailed.
  [[nodiscard]] virtual absl::Status Cause(const std::string& node) = 0;
};

}  // namespace millrace

#endif  // FEED_FEEDER_NODE_DIRECTORY_H_
