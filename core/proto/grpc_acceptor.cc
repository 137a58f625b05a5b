#include "core/proto/grpc_acceptor.h"

#include <utility>

#include "core/base/unique_fd.h"

namespace millrace {

ConnectionAcceptor::Handler AcceptForGrpc(
    const std::shared_ptr<grpc::ServerCredentials>& credentials, grpc::ServerBuilder* builder) {
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  std::shared_ptr<Acceptor> acceptor =
      builder->experimental().AddExternalConnectionAcceptor(Type::FROM_FD, credentials);
  return [acceptor = std::move(acceptor)](int listener_fd, UniqueFd fd) {
    Acceptor::NewConnectionParameters connection;
    connection.listener_fd = listener_fd;
    connection.fd = fd.release();
    acceptor->HandleNewConnection(&connection);
  };
}

}  // namespace millrace
