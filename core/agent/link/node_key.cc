#include "core/agent/link/node_key.h"

#include <string>
#include <utility>

#include "core/net/certificate.h"
#include "core/net/openssl.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::StatusOr<NodeKey> MakeNodeKey() {
  MILLRACE_ASSIGN_OR_RETURN(const UniqueKey key, MakeP256Key());
  MILLRACE_ASSIGN_OR_RETURN(std::string key_pem, PrivateKeyPem(key.get()));
  MILLRACE_ASSIGN_OR_RETURN(std::string public_key, PublicKeyPoint(key.get()));
  return NodeKey{std::move(key_pem), std::move(public_key)};
}

}  // namespace millrace
