// File: millrace/cluster_file.h
//
// The file by which dashboard and CLI find a running cluster: its driver writes it when everything
// is reachable and removes it at the end.
//
// Defines: ClusterFile, ClustersDir(), ReadClusterFile(), ClusterOwnerGone(), ClusterFileList,
// ListClusterFiles(), NewestClusterFile(), FindClusterFile().
//
//   MILLRACE_ASSIGN_OR_RETURN(ClusterFile cluster, FindClusterFile(""));   // the newest
//   MILLRACE_ASSIGN_OR_RETURN(
//       auto client, ClusterClient::Connect(ClusterClientOptionsFrom(cluster)));
//
// In ClustersDir(), mode 0700, two files of mode 0600:
//   <id>.json       address, CA, client certificate with its key, viewer token: enough to look.
//                   May be given to people who only look.
//   <id>.operator   the operator token: stop nodes, read and write the key-value store. May not.
// Both are replaced atomically. A symbolic link, another owner than this user, or a mode that lets
// others in is refused: PERMISSION_DENIED, saying what to do.
//
// Thread safety: thread-safe. Blocking: disk I/O.

#ifndef MILLRACE_CLUSTER_FILE_H_
#define MILLRACE_CLUSTER_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

struct ClusterFile {
  std::string cluster_id;  // 1 to 128 of A-Z a-z 0-9 . _ -
  std::string address;     // of the coordinator, host:port
  std::string ca_pem;
  std::string identity_pem;    // a client certificate of the cluster with its key; a secret
  std::string viewer_token;    // a secret
  std::string operator_token;  // a secret; empty: there is no <id>.operator beside the file
  // The process that runs the coordinator.
  std::string host;
  int64_t pid = 0;
  uint64_t pid_started = 0;   // clock ticks from boot to its start
  std::string pid_namespace;  // pids mean something in this one only
  absl::Time started;
  std::string name;     // what the driver calls the cluster; may be empty
  std::string program;  // of the nodes, for people
  std::string command;  // the same with its arguments, without the program's folder; may be empty
  std::string log_dir;  // of the driver; empty: a temporary one
  std::string path;     // of <id>.json; not stored
};

// $MILLRACE_CLUSTERS_DIR, else ~/.millrace/clusters. Returns FAILED_PRECONDITION if neither that
// variable nor HOME is set.
[[nodiscard]] absl::StatusOr<std::string> ClustersDir();

// Reads <id>.json, and <id>.operator where it stands beside it. Returns NOT_FOUND, the refusals
// above, or INVALID_ARGUMENT naming the field if it is no cluster file.
[[nodiscard]] absl::StatusOr<ClusterFile> ReadClusterFile(const std::string& path);

// Whether the owner was a process of this host and has ended. False if that is not known.
[[nodiscard]] bool ClusterOwnerGone(const ClusterFile& cluster);

struct ClusterFileList {
  std::vector<ClusterFile> clusters;   // newest first
  std::vector<absl::Status> problems;  // files that were refused, each naming its path
};

// Of the clusters that run. Files whose owner is gone are removed. No folder: no clusters.
[[nodiscard]] absl::StatusOr<ClusterFileList> ListClusterFiles();

// The cluster that was started last. Returns NOT_FOUND if none runs, naming what was refused.
[[nodiscard]] absl::StatusOr<ClusterFile> NewestClusterFile();

// `which` is a path (holds a slash or ends in ".json"), a cluster id, the unambiguous beginning of
// one, or empty for the newest. Returns NOT_FOUND naming those that run, or INVALID_ARGUMENT if
// several begin so.
[[nodiscard]] absl::StatusOr<ClusterFile> FindClusterFile(absl::string_view which);

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_FILE_H_
