// File: millrace/node_role.h
//
// Which task of a cluster a node is.
//
// Defines: NodeRole.

#ifndef MILLRACE_NODE_ROLE_H_
#define MILLRACE_NODE_ROLE_H_

#include <string>

namespace millrace {

// One task of the cluster: "worker:1".
struct NodeRole {
  std::string job_name;
  int task_index = 0;

  [[nodiscard]] std::string ToString() const;
  friend bool operator==(const NodeRole&, const NodeRole&) = default;
};

}  // namespace millrace

#endif  // MILLRACE_NODE_ROLE_H_
