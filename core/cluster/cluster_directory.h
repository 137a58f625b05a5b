// File: cluster_directory.h
//
// The feeder's directory (feed/feeder/node_directory.h) over a coordinator of this process.
#ifndef CORE_CLUSTER_CLUSTER_DIRECTORY_H_
#define CORE_CLUSTER_CLUSTER_DIRECTORY_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "feed/feeder/node_directory.h"

namespace millrace {

// Thread safety: all methods. Blocking: never. Lifetime: the coordinator, not owned, outlives it.
class ClusterDirectory : public NodeDirectory {
 public:
  // `roles` by executor id.
  ClusterDirectory(Coordinator* coordinator, const std::vector<NodeRole>& roles);

  [[nodiscard]] std::vector<std::string> fed_nodes() override;
  [[nodiscard]] absl::StatusOr<FeedTarget> Lookup(const std::string& node) override;
  [[nodiscard]] bool IsEqual(const std::string& queue) override;
  [[nodiscard]] std::map<std::string, int64_t> EqualRows(const std::string& feed_id) override;
  [[nodiscard]] absl::Status Cause(const std::string& node) override;

 private:
  absl::StatusOr<int> ExecutorOf(const std::string& node) const;

  Coordinator* const coordinator_;
  std::map<std::string, int> executors_;  // fed nodes by name
};

}  // namespace millrace

#endif  // CORE_CLUSTER_CLUSTER_DIRECTORY_H_
