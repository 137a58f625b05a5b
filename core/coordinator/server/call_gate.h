// File: core/coordinator/server/call_gate.h
//
// The check that every call passes first: its token, and the version of its caller. One that is
// turned away is reported as an event; the connection of one that is admitted no longer counts as a
// stranger's (core/net/connection_acceptor.h).
//
// Defines: CallGate.

#ifndef CORE_COORDINATOR_SERVER_CALL_GATE_H_
#define CORE_COORDINATOR_SERVER_CALL_GATE_H_

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/coordinator/server/access_tokens.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/net/connection_acceptor.h"
#include "grpcpp/server_context.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: never.
class CallGate {
 public:
  // None is owned.
  CallGate(const AccessTokens* tokens, ClusterRecorder* recorder, ConnectionAcceptor* acceptor)
      : tokens_(tokens), recorder_(recorder), acceptor_(acceptor) {}

  // Returns as AccessTokens::Check(), or as CheckVersions().
  [[nodiscard]] absl::Status Admit(const grpc::CallbackServerContext& context,
                                   absl::string_view method,
                                   std::initializer_list<TokenKind> allowed) const;

 private:
  const AccessTokens* const tokens_;
  ClusterRecorder* const recorder_;
  ConnectionAcceptor* const acceptor_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_CALL_GATE_H_
