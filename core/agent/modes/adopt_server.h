// File: core/agent/modes/adopt_server.h
//
// The server of an agent that listens: TLS, the token, and Adopt calls handed to the agent's loop.
// core/agent/modes/listen_mode.h says what an adoption means.
//
// Defines: AdoptServer.

#ifndef CORE_AGENT_MODES_ADOPT_SERVER_H_
#define CORE_AGENT_MODES_ADOPT_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/modes/adopt_stream.h"
#include "core/launch/agent_secret.h"
#include "core/net/socket_address.h"
#include "core/proto/adopt.pb.h"

namespace millrace {

// Ownership: owns its port; `callbacks` run on the loop, none after the loop has ended.
// Thread safety: one thread. Blocking: Start binds; the destructor waits for the calls, half a
// second.
class AdoptServer {
 public:
  struct Callbacks {
    // A message of an admitted call, in order. The first one holds Hold, and no later one does.
    std::function<void(const std::shared_ptr<AdoptStream>&, const v1::AdoptRequest&)> on_request;
    // The call is over, for whatever reason. Not called for one that never sent Hold.
    std::function<void(const std::shared_ptr<AdoptStream>&)> on_gone;
    // Somebody was refused: the peer (host:port as gRPC writes it), and why.
    std::function<void(const std::string& peer, const absl::Status& why)> on_refused;
  };

  // `secret` is one that ReadAgentSecret() returned: gRPC notices only in each handshake that a key
  // is not that of its certificate. Returns UNAVAILABLE if the address cannot be bound.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AdoptServer>> Start(
      const HostPort& address, const AgentSecret& secret,
      std::shared_ptr<EventLoop::Mailbox> mailbox, Callbacks callbacks);
  virtual ~AdoptServer() = default;

  [[nodiscard]] virtual int port() const = 0;
};

// "10.0.0.9" of "ipv4:10.0.0.9:4000", "fd00::1" of "ipv6:%5Bfd00::1%5D:4000"; empty for anything
// else.
[[nodiscard]] std::string PeerHost(const std::string& grpc_peer);

}  // namespace millrace

#endif  // CORE_AGENT_MODES_ADOPT_SERVER_H_
