#include "core/node/cluster_server.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/socket_address.h"
#include "core/base/status_macros.h"

namespace millrace {
namespace {

absl::Status CheckTls(const NodeContext& context) {
  if (!context.tls().certificate.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      context.name(), " has no certificate: its agent did not give it one in the context file"));
}

// Loopback addresses are served on themselves; any other on all interfaces, since the advertised name
// may be one that only peers know.
std::string ListenAddress(const HostPort& advertised) {
  const bool loopback = advertised.host == "localhost" || advertised.host == "::1" ||
                        absl::StartsWith(advertised.host, "127.");
  return FormatHostPort(loopback ? advertised.host : "0.0.0.0", advertised.port);
}

}  // namespace

ClusterServer::~ClusterServer() { Shutdown(); }

void ClusterServer::Shutdown(absl::Duration grace) {
  server_->Shutdown(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(grace));
  server_->Wait();
}

absl::StatusOr<std::unique_ptr<ClusterServer>> StartClusterServer(
    NodeContext& context, const std::vector<grpc::Service*>& services,
    const ClusterServerOptions& options) {
  if (options.rdma) return absl::UnimplementedError("StartClusterServer: there is no RDMA transport");
  if (services.empty()) return absl::InvalidArgumentError("StartClusterServer: no services given");
  MILLRACE_RETURN_IF_ERROR(CheckTls(context));
  MILLRACE_ASSIGN_OR_RETURN(const HostPort advertised, ParseHostPort(context.address()));

  grpc::SslServerCredentialsOptions tls(
      GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = context.tls().ca;
  tls.pem_key_cert_pairs.push_back({context.tls().key, context.tls().certificate});
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(ListenAddress(advertised), grpc::SslServerCredentials(tls), &port);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port != advertised.port) {
    return absl::UnavailableError(absl::StrCat(
        context.name(), " cannot serve on its port ", advertised.port,
        ": another process has taken it; run the cluster with release_port = false"));
  }
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
                            context.cluster_spec().task_address(job_name, task_index));
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = context.tls().ca;
  tls.pem_cert_chain = context.tls().certificate;
  tls.pem_private_key = context.tls().key;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(absl::StrCat(job_name, "-", task_index, ".node.millrace"));
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetMaxSendMessageSize(options.max_message_bytes);
  // A peer that is still starting is tried again soon: nodes come up together.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  return grpc::CreateCustomChannel(address, grpc::SslCredentials(tls), arguments);
}

}  // namespace millrace
