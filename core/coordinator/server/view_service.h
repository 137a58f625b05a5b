// File: core/coordinator/server/view_service.h
//
// The gRPC services for those who look at a cluster, steer it, or feed it from outside:
// ClusterView, ClusterControl and FeedGateway of core/proto.
//
// Defines: ServiceParts, ViewService, ControlService, GatewayService.

#ifndef CORE_COORDINATOR_SERVER_VIEW_SERVICE_H_
#define CORE_COORDINATOR_SERVER_VIEW_SERVICE_H_

#include "core/coordinator/server/call_gate.h"
#include "core/coordinator/server/control_plane.h"
#include "core/coordinator/server/live_calls.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/watch_hub.h"
#include "core/proto/feed_gateway.grpc.pb.h"
#include "core/proto/operator.grpc.pb.h"
#include "core/proto/watch.grpc.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {

// What the services work with; nothing is owned, everything outlives the server.
struct ServiceParts {
  const CallGate* gate = nullptr;
  ControlPlane* plane = nullptr;
  ViewStore* view = nullptr;
  WatchHub* hub = nullptr;
  LiveCalls* calls = nullptr;
};

using ViewServiceBase = v1::ClusterView::WithRawCallbackMethod_Watch<
    v1::ClusterView::WithRawCallbackMethod_ReadLogs<v1::ClusterView::Service>>;

// Thread safety of all three: thread-safe. Blocking: never.
class ViewService final : public ViewServiceBase {
 public:
  // The generated overloads for the synchronous API, not meant to be called.
  using ViewServiceBase::ReadLogs;
  using ViewServiceBase::Watch;

  explicit ViewService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadLogs(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;

 private:
  const ServiceParts parts_;
};

using ControlServiceBase = v1::ClusterControl::CallbackService;

class ControlService final : public ControlServiceBase {
 public:
  using ControlServiceBase::Kv;
  using ControlServiceBase::ListKeys;
  using ControlServiceBase::RestartNode;
  using ControlServiceBase::StopCluster;

  explicit ControlService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* StopCluster(grpc::CallbackServerContext* context,
                                        const v1::StopClusterRequest* request,
                                        v1::StopClusterReply* reply) override;
  grpc::ServerUnaryReactor* RestartNode(grpc::CallbackServerContext* context,
                                        const v1::RestartNodeRequest* request,
                                        v1::RestartNodeReply* reply) override;
  grpc::ServerUnaryReactor* Kv(grpc::CallbackServerContext* context, const v1::KvRequest* request,
                               v1::KvReply* reply) override;
  grpc::ServerUnaryReactor* ListKeys(grpc::CallbackServerContext* context,
                                     const v1::ListKeysRequest* request,
                                     v1::ListKeysReply* reply) override;

 private:
  const ServiceParts parts_;
};

using GatewayServiceBase = v1::FeedGateway::CallbackService;

class GatewayService final : public GatewayServiceBase {
 public:
  using GatewayServiceBase::AgentGone;
  using GatewayServiceBase::Announce;
  using GatewayServiceBase::Cause;
  using GatewayServiceBase::Lookup;
  using GatewayServiceBase::Pace;
  using GatewayServiceBase::Report;

  explicit GatewayService(const ServiceParts& parts) : parts_(parts) {}

  grpc::ServerUnaryReactor* Lookup(grpc::CallbackServerContext* context,
                                   const v1::LookupRequest* request,
                                   v1::LookupReply* reply) override;
  grpc::ServerUnaryReactor* Cause(grpc::CallbackServerContext* context,
                                  const v1::CauseRequest* request, v1::CauseReply* reply) override;
  grpc::ServerUnaryReactor* Report(grpc::CallbackServerContext* context,
                                   const v1::ReportRequest* request,
                                   v1::ReportReply* reply) override;
  grpc::ServerUnaryReactor* Announce(grpc::CallbackServerContext* context,
                                     const v1::AnnounceRequest* request,
                                     v1::AnnounceReply* reply) override;
  grpc::ServerUnaryReactor* Pace(grpc::CallbackServerContext* context,
                                 const v1::PaceRequest* request, v1::PaceReply* reply) override;
  grpc::ServerUnaryReactor* AgentGone(grpc::CallbackServerContext* context,
                                      const v1::AgentGoneRequest* request,
                                      v1::AgentGoneReply* reply) override;

 private:
  const ServiceParts parts_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_VIEW_SERVICE_H_
