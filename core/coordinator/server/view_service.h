// File: core/coordinator/server/view_service.h
//
// The gRPC services for those who look at a cluster, steer it, or feed it from outside:
// ClusterView, ClusterControl and FeedGateway of core/proto.
//
// Defines: ViewService, ControlService, GatewayService. Pointers that they are given are not owned
// and outlive the server.

#ifndef CORE_COORDINATOR_SERVER_VIEW_SERVICE_H_
#define CORE_COORDINATOR_SERVER_VIEW_SERVICE_H_

#include "core/coordinator/server/agent_control.h"
#include "core/coordinator/server/call_gate.h"
#include "core/coordinator/server/feed_control.h"
#include "core/coordinator/server/operator_control.h"
#include "core/coordinator/stream/live_calls.h"
#include "core/coordinator/view/view_store.h"
#include "core/coordinator/view/watch_hub.h"
#include "core/proto/feed_gateway.grpc.pb.h"
#include "core/proto/operator.grpc.pb.h"
#include "core/proto/watch.grpc.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace millrace {

using ViewServiceBase = v1::ClusterView::WithRawCallbackMethod_Watch<
    v1::ClusterView::WithRawCallbackMethod_ReadLogs<v1::ClusterView::Service>>;

// Thread safety of all three: thread-safe. Blocking: never.
class ViewService final : public ViewServiceBase {
 public:
  // The generated overloads for the synchronous API, not meant to be called.
  using ViewServiceBase::ReadLogs;
  using ViewServiceBase::Watch;

  ViewService(const CallGate* gate, ViewStore* view, WatchHub* hub, LiveCalls* calls)
      : gate_(gate), view_(view), hub_(hub), calls_(calls) {}

  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* ReadLogs(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request) override;

 private:
  const CallGate* const gate_;
  ViewStore* const view_;
  WatchHub* const hub_;
  LiveCalls* const calls_;
};

using ControlServiceBase = v1::ClusterControl::CallbackService;

class ControlService final : public ControlServiceBase {
 public:
  using ControlServiceBase::Kv;
  using ControlServiceBase::ListKeys;
  using ControlServiceBase::RestartNode;
  using ControlServiceBase::StopCluster;

  ControlService(const CallGate* gate, OperatorControl* operators, LiveCalls* calls)
      : gate_(gate), operators_(operators), calls_(calls) {}

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
  const CallGate* const gate_;
  OperatorControl* const operators_;
  LiveCalls* const calls_;
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

  GatewayService(const CallGate* gate, FeedControl* feeds, AgentControl* agents)
      : gate_(gate), feeds_(feeds), agents_(agents) {}

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
  const CallGate* const gate_;
  FeedControl* const feeds_;
  AgentControl* const agents_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_VIEW_SERVICE_H_
