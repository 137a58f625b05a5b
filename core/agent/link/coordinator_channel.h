// File: core/agent/link/coordinator_channel.h
//
// How a coordinator is reached: its address, the CA that must have signed its certificate, the
// client certificate that it asks for, and the token of each call.
//
// Defines: CoordinatorEndpoint, ParseCoordinatorAddress(), ParseCoordinatorEndpoint(),
// MakeCoordinatorChannel(), MakeRelayChannel(), kMaxDial, WaitConnected().
//
// Thread safety: thread-safe. Blocking: WaitConnected().

#ifndef CORE_AGENT_LINK_COORDINATOR_CHANNEL_H_
#define CORE_AGENT_LINK_COORDINATOR_CHANNEL_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/unique_fd.h"
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

// A channel over a connection to this host's relay (relay_socket.h), without TLS.
[[nodiscard]] std::shared_ptr<grpc::Channel> MakeRelayChannel(UniqueFd connection);

// How long a connection may take.
inline constexpr absl::Duration kMaxDial = absl::Seconds(20);

// Waits until the channel is connected or has failed to connect, at most kMaxDial, or soon after
// `cancelled` is set. Returns whether it is connected.
[[nodiscard]] bool WaitConnected(grpc::Channel* channel, const std::atomic<bool>& cancelled);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_COORDINATOR_CHANNEL_H_
