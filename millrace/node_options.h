// File: millrace/node_options.h
//
// The groups of a cluster's options that are about its nodes.
//
// Defines: NodeOptions, FeedOptions, FailureOptions.

#ifndef MILLRACE_NODE_OPTIONS_H_
#define MILLRACE_NODE_OPTIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "millrace/option_defaults.h"
#include "millrace/restart_policy.h"
#include "millrace/sidecar.h"

namespace millrace {

// What every node gets, and what runs beside it. Its program, arguments and environment are a
// NodeProgram.
struct NodeOptions {
  // Where nodes run. Empty: the driver's working directory, or, where agents were adopted, theirs.
  std::string working_dir;
  // Default file system of AbsolutePath.
  std::string default_fs = "file://";
  // Close a node's reserved port just before it starts. Otherwise it inherits the socket.
  bool release_port = true;
  // GPUs that are claimed for each node, so that no two nodes of a host share one (docs/gpus.md). A
  // ps gets none. With 0 and no gpus_by_job GPUs are left alone.
  int gpus_per_node = 0;
  // Other numbers for some jobs: {{"evaluator", 1}, {"ps", 0}}. A node with 0 sees no GPU.
  std::map<std::string, int> gpus_by_job;
  // How many bytes of its output each node may send to on_output per second; log_dir has all of it.
  // At least 1.
  int64_t log_bytes_per_second = int64_t{64} << 10;
  // Programs beside nodes.
  std::vector<Sidecar> sidecars;
};

// InputMode kFeed: how nodes are fed.
struct FeedOptions {
  // Names that Train, Inference and GetDataFeed may use.
  std::vector<std::string> queues = {kDefaultQueue, "output", "error"};
  // "9000-9100": ports of the TCP endpoints where nodes are fed, two a node. Empty: any.
  std::string port_range;
  // What one node may hold of the feed.
  int64_t budget_bytes = kDefaultFeedBudgetBytes;
  // Feed nodes of this host over CURVE too, as those of other hosts are (docs/security.md). Slower.
  bool curve_only = false;
  // Feeders on a node's host write rows into memory of the node, where the system lets them;
  // otherwise rows go through sockets, as they do to other hosts (docs/feed_protocol.md, section
  // 10).
  bool shared_memory = true;
};

// What becomes of nodes that fail, and how long one may take to end (docs/failures.md).
struct FailureOptions {
  // How often a node that failed, or whose agent was lost, is started again before the cluster
  // fails: by default never. One policy for every role, and others for the jobs that differ
  // ("worker").
  RestartPolicy restart;
  std::map<std::string, RestartPolicy> restart_by_job;
  QuarantinePolicy quarantine;
  // How long a node that was asked to stop may take.
  absl::Duration stop_grace = absl::Seconds(5);
  // How long a node may stay stopped by a signal before it counts as failed.
  absl::Duration stop_timeout = absl::Seconds(10);
};

}  // namespace millrace

#endif  // MILLRACE_NODE_OPTIONS_H_
