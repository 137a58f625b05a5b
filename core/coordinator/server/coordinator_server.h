// File: core/coordinator/server/coordinator_server.h
//
// The gRPC server of a coordinator: TLS, tokens, and its services (view_service.h has those for
// readers, operators and feeders).
//
// Defines: ServerOptions, CoordinatorServer.

#ifndef CORE_COORDINATOR_SERVER_COORDINATOR_SERVER_H_
#define CORE_COORDINATOR_SERVER_COORDINATOR_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/coordinator/server/access_tokens.h"
#include "core/coordinator/server/certificate_authority.h"
#include "core/coordinator/server/control_plane.h"
#include "core/coordinator/server/program_source.h"
#include "core/coordinator/stream/attach_reactor.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/watch_hub.h"

namespace millrace {

struct ServerOptions {
  std::string bind_address;
  int port = 0;
  AttachLimits limits;
  // Pointers are not owned and outlive the server.
  const CertificateAuthority* ca = nullptr;
  std::string client_certificates_pem;  // whose holders get through the TLS handshake
  const AccessTokens* tokens = nullptr;
  ControlPlane* plane = nullptr;
  ViewStore* view = nullptr;
  WatchHub* hub = nullptr;
  ClusterRecorder* recorder = nullptr;
  ProgramSource* program = nullptr;  // null: nothing is shipped
};

// Threads: gRPC's own, and one that accepts (core/net/connection_acceptor.h). Thread safety:
// Shutdown() may be called from any thread, once or more often.
class CoordinatorServer {
 public:
  // Returns UNAVAILABLE, naming the address, if it cannot be bound; INTERNAL if OpenSSL fails.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(
      const ServerOptions& options);
  virtual ~CoordinatorServer() = default;

  [[nodiscard]] virtual int port() const = 0;

  // OK, or RESOURCE_EXHAUSTED if connections were turned away for want of file descriptors.
  [[nodiscard]] virtual absl::Status Shortage() const = 0;

  // Takes no calls any more, ends those in progress (streams are given a moment to hear why) and
  // returns when gRPC holds nothing of ours. Blocks for at most a few seconds. Idempotent.
  virtual void Shutdown() = 0;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_COORDINATOR_SERVER_H_
