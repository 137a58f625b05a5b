// File: core/node/node_config.h
//
// What the agent wrote down for its node: the context file of docs/control_protocol.md, section 3.
//
// Defines: NodeConfig, IsFedJob(), ParseNodeConfig(), ReadNodeConfigFromEnvironment().
#ifndef CORE_NODE_NODE_CONFIG_H_
#define CORE_NODE_NODE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/net/port_range.h"
#include "millrace/cluster_spec.h"
#include "millrace/node.h"

namespace millrace {

struct NodeConfig {
  std::string cluster_id;
  int executor_id = 0;
  std::string job_name;
  int task_index = 0;
  int attempt = 0;
  std::string nonce;  // 16 hex digits; names this attempt to feeders
  uint64_t epoch = 0;
  ClusterSpec cluster_spec;
  int num_workers = 0;
  std::optional<int> rank;        // set for fed roles
  std::optional<int> local_rank;  // set for fed roles
  bool input_feed = false;        // InputMode FEED
  std::vector<std::string> queues;
  std::string default_fs;
  std::string working_dir;
  std::string log_dir;
  std::vector<std::string> gpus;
  std::string address;  // host:port of the reserved port, as in cluster_spec
  int port = 0;
  std::optional<int> port_fd;  // the reserved port's socket, bound and not listening, where held
  int64_t feed_budget_bytes = 0;
  bool feed_shared_memory = false;
  PortRange feed_ports;  // for the TCP endpoint of the feed; {0, 0}: any
  NodeTls tls;
};

// Chief or master and workers: what is fed, ranked, and counted in num_workers.
[[nodiscard]] bool IsFedJob(absl::string_view job_name);

// Members that are not known are ignored. Absent ones that may be: nonce, tls (only the file has
// them), default_fs ("file://"), working_dir, log_dir, gpus, port_fd, feed_shared_memory (false),
// and rank and local_rank of what is not fed. Returns INVALID_ARGUMENT naming the member that is
// absent or wrong (never its value, should that be a secret), RESOURCE_EXHAUSTED over 64 MiB,
// UNIMPLEMENTED for another protocol version.
[[nodiscard]] absl::StatusOr<NodeConfig> ParseNodeConfig(absl::string_view json);

// Reads MILLRACE_CONTEXT_FILE. Returns FAILED_PRECONDITION if this process was not started by an
// agent, otherwise what reading the file or ParseNodeConfig returned, with the file's name.
// Blocking: disk I/O.
[[nodiscard]] absl::StatusOr<NodeConfig> ReadNodeConfigFromEnvironment();

}  // namespace millrace

#endif  // CORE_NODE_NODE_CONFIG_H_
