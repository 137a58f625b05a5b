// File: millrace/cluster_server.h
//
// A gRPC server on a node's reserved port, and channels to the servers of other nodes, both ends
// known by certificates that the cluster's coordinator signed. A target of its own: `//:node` does
// without gRPC.
//
// Defines: ClusterServer, ClusterServerOptions, StartClusterServer(), ConnectToNode().
//
//   // on ps:0
//   MILLRACE_ASSIGN_OR_RETURN(auto server, millrace::StartClusterServer(ctx, {&parameters}));
//   ctx.WaitForStop();
//   // on a worker
//   MILLRACE_ASSIGN_OR_RETURN(auto channel, millrace::ConnectToNode(ctx, "ps", 0));
//   auto stub = Parameters::NewStub(channel);
#ifndef MILLRACE_CLUSTER_SERVER_H_
#define MILLRACE_CLUSTER_SERVER_H_

#include <grpcpp/channel.h>
#include <grpcpp/impl/codegen/service_type.h>
#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/node.h"

namespace millrace {

struct ClusterServerOptions {
  // Largest message, in bytes, either way.
  int max_message_bytes = 256 << 20;
};

// A running server.
//
// Thread safety: all methods. Blocking: Shutdown() and the destructor, until every handler has
// returned: a handler that waits must heed its context's IsCancelled(). Lifetime: ends before the
// services and the context it was started with.
class ClusterServer {
 public:
  ClusterServer(std::unique_ptr<grpc::Server> server, int port)
      : server_(std::move(server)), port_(port) {}
  ~ClusterServer();
  ClusterServer(const ClusterServer&) = delete;
  ClusterServer& operator=(const ClusterServer&) = delete;

  [[nodiscard]] int port() const { return port_; }
  // Accepts no more calls, and after `grace` cancels those that are still under way. Idempotent.
  void Shutdown(absl::Duration grace = absl::ZeroDuration());

 private:
  const std::unique_ptr<grpc::Server> server_;
  const int port_;
};

// Serves `services` (not owned) on the node's reserved port with mutual TLS: only nodes of this
// cluster are let in. The reservation is released once the server listens.
//
// Returns UNAVAILABLE if the port was taken meanwhile, FAILED_PRECONDITION if the node has no
// certificate or one that cannot be used, INVALID_ARGUMENT without services or if the context's
// address is no host:port. Blocks for one round trip to the agent.
[[nodiscard]] absl::StatusOr<std::unique_ptr<ClusterServer>> StartClusterServer(
    NodeContext& context, const std::vector<grpc::Service*>& services,
    const ClusterServerOptions& options = {});

// A channel to the server of another node, at that node's current address. It connects on first use
// and again after a loss. Calls fail with UNAVAILABLE if the certificate of the server that answers
// is not that of `job_name`:`task_index` of this cluster.
//
// Returns NOT_FOUND if the cluster has no such task, FAILED_PRECONDITION if this node has no
// certificate. Never blocks.
[[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectToNode(
    const NodeContext& context, absl::string_view job_name, int task_index,
    const ClusterServerOptions& options = {});

}  // namespace millrace

#endif  // MILLRACE_CLUSTER_SERVER_H_
