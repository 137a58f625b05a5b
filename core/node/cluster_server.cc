#include "millrace/cluster_server.h"

#include <arpa/inet.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/unique_fd.h"
#include "core/net/grpc_log.h"
#include "core/net/loopback.h"
#include "core/net/socket_address.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

absl::Status CheckTls(const NodeContext& context) {
  if (!context.tls().certificate.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      context.name(), " has no certificate: its agent did not give it one in the context file"));
}

// A numeric address. Loopback is served on loopback; anything else on all interfaces, since the
// advertised name may be one that only peers know.
HostPort ListenAddress(const HostPort& advertised) {
  const std::string& host = advertised.host;
  if (host == "localhost") return {"127.0.0.1", advertised.port};
  if (IsLoopbackHost(host)) return advertised;
  return {absl::StrContains(host, ":") ? "::" : "0.0.0.0", advertised.port};
}

// 0 if `address` can be listened on by a socket like gRPC's, otherwise errno.
int TryListen(const HostPort& address, bool share) {
  sockaddr_storage storage = {};
  auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
  socklen_t size = sizeof(*v4);
  if (::inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(address.port);
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(address.port);
    size = sizeof(*v6);
  } else {
    return EADDRNOTAVAIL;
  }
  const UniqueFd fd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (!fd.valid() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      (share && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) != 0) ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0 ||
      ::listen(fd.get(), 1) != 0) {
    return errno;
  }
  return 0;
}

// gRPC says only that a server did not start: this looks for the reason.
absl::Status WhyNotServing(const NodeContext& context, const HostPort& address, bool share) {
  const std::string what =
      absl::StrCat(context.name(), " cannot serve on its port ", address.port, ": ");
  const int error = TryListen(address, share);
  if (error == EADDRINUSE) {
    return absl::UnavailableError(absl::StrCat(
        what, "another process has taken it; run the cluster with release_port = false"));
  }
  if (error != 0) return absl::UnavailableError(absl::StrCat(what, std::strerror(error)));
  return absl::FailedPreconditionError(
      absl::StrCat(what, "gRPC does not take the certificate or the key of the context file"));
}

}  // namespace

ClusterServer::~ClusterServer() { Shutdown(); }

void ClusterServer::Shutdown(absl::Duration grace) {
  constexpr absl::Duration kLongest = absl::Hours(24 * 365);  // an infinite one must fit chrono
  server_->Shutdown(std::chrono::system_clock::now() +
                    absl::ToChronoMilliseconds(std::clamp(grace, absl::ZeroDuration(), kLongest)));
  server_->Wait();
}

absl::StatusOr<std::unique_ptr<ClusterServer>> StartClusterServer(
    NodeContext& context, const std::vector<grpc::Service*>& services,
    const ClusterServerOptions& options) {
  if (services.empty()) return absl::InvalidArgumentError("StartClusterServer: no services given");
  MILLRACE_RETURN_IF_ERROR(CheckTls(context));
  MILLRACE_ASSIGN_OR_RETURN(const HostPort advertised, ParseHostPort(context.address()));
  const HostPort address = ListenAddress(advertised);
  LogGrpcHere();
  // The port is shared with the reservation if there is one. Otherwise it must be ours alone: with
  // SO_REUSEPORT the system would distribute connections among all that listen there.
  const bool share = context.port_fd() >= 0;

  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = context.tls().ca;
  tls.pem_key_cert_pairs.push_back({context.tls().key, context.tls().certificate});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(address.ToString(), grpc::SslServerCredentials(tls), &port);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, share ? 1 : 0);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port != address.port) return WhyNotServing(context, address, share);
  const absl::Status released = context.ReleasePort();
  if (!released.ok()) MILLRACE_LOG(WARNING) << "releasing the reserved port: " << released;
  return std::make_unique<ClusterServer>(std::move(server), port);
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToNode(const NodeContext& context,
                                                             absl::string_view job_name,
                                                             int task_index,
                                                             const ClusterServerOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckTls(context));
  MILLRACE_ASSIGN_OR_RETURN(const std::string address,
                            context.cluster_spec().TaskAddress(job_name, task_index));
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = context.tls().ca;
  tls.pem_cert_chain = context.tls().certificate;
  tls.pem_private_key = context.tls().key;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(absl::StrCat(job_name, "-", task_index, ".node.millrace"));
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  // Nodes of a cluster reach each other; a proxy of the host's environment does not reach them.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A peer that is still starting is tried again soon: nodes come up together. (The minimum stays
  // gRPC's own: it is also the time that a connection attempt may take.)
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(tls), arguments);
}

}  // namespace millrace
