// File: core/agent/link/node_key.h
//
// The node's key. The private one never leaves this host: the coordinator sees the public one only.
//
//   MILLRACE_ASSIGN_OR_RETURN(NodeKey key, MakeNodeKey());
//   register.set_public_key(key.public_key);

#ifndef CORE_AGENT_LINK_NODE_KEY_H_
#define CORE_AGENT_LINK_NODE_KEY_H_

#include <string>

#include "absl/status/statusor.h"

namespace millrace {

struct NodeKey {
  std::string key_pem;     // PKCS#8, a secret: into the context file, never into logs or messages
  std::string public_key;  // as core/net/certificate.h encodes it
};

// A fresh P-256 key. Returns INTERNAL, with OpenSSL's reason, if it cannot be made.
// Thread safety: thread-safe. Blocking: well under a millisecond.
[[nodiscard]] absl::StatusOr<NodeKey> MakeNodeKey();

}  // namespace millrace

#endif  // CORE_AGENT_LINK_NODE_KEY_H_
