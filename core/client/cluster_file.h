// File: core/client/cluster_file.h
//
// The driver's side of the cluster files, which millrace/cluster_file.h describes.
//
// Defines: WriteClusterFile(), RemoveClusterFile(), ClusterNames().
//
// Thread safety: thread-safe. Blocking: disk I/O.

#ifndef CORE_CLIENT_CLUSTER_FILE_H_
#define CORE_CLIENT_CLUSTER_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/cluster_file.h"

namespace millrace {

// Writes both files (the second one if there is an operator token) for this process as the owner,
// and removes those of clusters whose owner is gone. Returns the path of <id>.json.
// Returns INVALID_ARGUMENT for a cluster_id that is none, PERMISSION_DENIED if the folder is
// somebody else's or open to others, or the error of the disk.
[[nodiscard]] absl::StatusOr<std::string> WriteClusterFile(const ClusterFile& cluster);

// Removes the files of a cluster, and ~/.millrace/clusters and ~/.millrace if nothing else is in
// them. `path` is that of <id>.json; what is not there is no error.
void RemoveClusterFile(const std::string& path);

// "3fa4c1 (pid 712, python3), 80cd2e (pid 699, ./train)", for a message: at most 1,000 bytes.
[[nodiscard]] std::string ClusterNames(const std::vector<ClusterFile>& clusters);

}  // namespace millrace

#endif  // CORE_CLIENT_CLUSTER_FILE_H_
