// File: core/client/ended_cluster.h
//
// What became of the last clusters. A record of each stays when its cluster file is removed, so
// that people can find out afterwards why it failed and where its logs are. No record holds a
// secret.
//
// Defines: EndedCluster, kMaxEndedClusters, RecordEndedCluster(), ListEndedClusters().
//
// The records are files <clusters_dir>/ended/<id>.json, mode 0600 in a folder of mode 0700.
//
// Thread safety: thread-safe. Blocking: disk I/O.

#ifndef CORE_CLIENT_ENDED_CLUSTER_H_
#define CORE_CLIENT_ENDED_CLUSTER_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace millrace {

inline constexpr size_t kMaxEndedClusters = 20;

struct EndedCluster {
  std::string cluster_id;
  std::string name;     // what its driver called it; may be empty
  std::string program;  // of the nodes
  std::string command;  // the same with its arguments; may be empty
  std::string
      log_dir;  // of the nodes, absolute where it is a path of the driver's host; may be empty
  absl::Time started;
  absl::Time ended;
  // "ended", "failed", "stopped" (by an operator), or "lost" (its driver was killed).
  std::string outcome;
  std::string cause;  // of all but "ended": one line
};

// Keeps it, and removes the oldest records beyond kMaxEndedClusters. One of outcome "lost" replaces
// no other of the same cluster.
absl::Status RecordEndedCluster(const std::string& clusters_dir, const EndedCluster& ended);

// The last to end first. Records that cannot be read are left out; no folder: none.
[[nodiscard]] std::vector<EndedCluster> ListEndedClusters(const std::string& clusters_dir);

}  // namespace millrace

#endif  // CORE_CLIENT_ENDED_CLUSTER_H_
