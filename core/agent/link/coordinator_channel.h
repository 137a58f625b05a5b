// File: core/agent/link/coordinator_channel.h
//
// How a coordinator is reached: its address, the CA that must have signed its certificate, the
// client certificate that it asks for, and the token of each call.
//
// Defines: CoordinatorEndpoint, ParseCoordinatorAddress(), ParseCoordinatorEndpoint(),
// MakeCoordinatorChannel().
//
// Thread safety: pure functions.

#ifndef CORE_AGENT_LINK_COORDINATOR_CHANNEL_H_
#define CORE_AGENT_LINK_COORDINATOR_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/json.h"
#include "grpcpp/channel.h"

namespace millrace {

struct CoordinatorEndpoint {
  std::string address;       // host:port
  std::string ca_pem;        // the cluster's CA: nothing else is trusted
  std::string identity_pem;  // a client certificate of the cluster with its key; a secret
  std::string token;         // a secret
};

// The "address" (host:port) of an object that errors call `where`. Returns INVALID_ARGUMENT naming
// the field.
[[nodiscard]] absl::StatusOr<std::string> ParseCoordinatorAddress(const Json& object,
                                                                  absl::string_view where);

// params.coordinator of `start`. Returns INVALID_ARGUMENT naming the field. Never quotes the token.
[[nodiscard]] absl::StatusOr<CoordinatorEndpoint> ParseCoordinatorEndpoint(const Json& params);

// A channel with a connection of its own, TLS pinned to the endpoint's CA, under its identity.
[[nodiscard]] std::shared_ptr<grpc::Channel> MakeCoordinatorChannel(
    const CoordinatorEndpoint& endpoint);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_COORDINATOR_CHANNEL_H_
