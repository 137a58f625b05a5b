// File: core/proto/grpc_acceptor.h
//
// A gRPC server behind a ConnectionAcceptor: gRPC's own listener has no bounds for strangers, and
// stops for ever when the process is out of descriptors (CVE-2023-4785).
//
// Defines: AcceptForGrpc().
//
//   MILLRACE_ASSIGN_OR_RETURN(auto acceptor, ConnectionAcceptor::Listen({.address = address}));
//   ConnectionAcceptor::Handler handler = AcceptForGrpc(credentials, &builder);
//   server = builder.BuildAndStart();
//   acceptor->Start(std::move(handler));
//   ...
//   acceptor->Stop();    // before the server: what it gets afterwards it would lose
//   server->Shutdown();

#ifndef CORE_PROTO_GRPC_ACCEPTOR_H_
#define CORE_PROTO_GRPC_ACCEPTOR_H_

#include <memory>

#include "core/net/connection_acceptor.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace millrace {

// Gives the server that `builder` will make a way in for connections, under `credentials`. The
// result is called after BuildAndStart() only, on one thread.
[[nodiscard]] ConnectionAcceptor::Handler AcceptForGrpc(
    const std::shared_ptr<grpc::ServerCredentials>& credentials, grpc::ServerBuilder* builder);

}  // namespace millrace

#endif  // CORE_PROTO_GRPC_ACCEPTOR_H_
