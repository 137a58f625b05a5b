// File: core/agent/link/gateway_calls.h
//
// What a process that feeds asks of the coordinator, through its node's agent or `millrace-agent
// gateway`: the methods of docs/control_protocol.md, section 6, as calls of the FeedGateway
// service.
//
//   GatewayCalls gateway(&loop, token, [&] { return link.channel(); });
//   if (GatewayCalls::Knows(method)) gateway.Start(method, params, [&](auto& outcome) { ... });

#ifndef CORE_AGENT_LINK_GATEWAY_CALLS_H_
#define CORE_AGENT_LINK_GATEWAY_CALLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/agent/loop/event_loop.h"
#include "core/base/json.h"
#include "core/proto/feed_gateway.pb.h"
#include "grpcpp/channel.h"

namespace millrace {

// Ownership: the loop must outlive it. Thread safety: the loop's thread only. Blocking: never.
class GatewayCalls {
 public:
  // The channel of the moment; null while there is none.
  using ChannelSource = std::function<std::shared_ptr<grpc::Channel>()>;
  using Done = std::function<void(const absl::StatusOr<Json>&)>;

  GatewayCalls(EventLoop* loop, std::string token, ChannelSource channel);
  GatewayCalls(const GatewayCalls&) = delete;
  GatewayCalls& operator=(const GatewayCalls&) = delete;

  [[nodiscard]] static bool Knows(absl::string_view method);

  // Checks `params` and makes the call; `done` runs on the loop's thread, later or at once, and not
  // when this object is gone. Errors: INVALID_ARGUMENT, UNAVAILABLE without a coordinator (also
  // after 10 s without an answer), or the service's own.
  void Start(const std::string& method, const Json& params, Done done);

 private:
  template <typename Request, typename Reply, typename Method>
  void Call(Request request, Method method, Json (*to_json)(const Reply&), Done done);

  EventLoop* const loop_;
  const std::string token_;
  const ChannelSource channel_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for posted closures
};

// The wire's words for a LookupReply: the result of `lookup` in every mode.
[[nodiscard]] Json LookupToJson(const v1::LookupReply& reply);
[[nodiscard]] Json CauseToJson(const v1::CauseReply& reply);

[[nodiscard]] Json PaceToJson(const v1::PaceReply& reply);

// Parameters of `lookup`, `cause`, `report`, `announce`, `pace` and `agent_gone`. Return
// INVALID_ARGUMENT naming the field.
[[nodiscard]] absl::StatusOr<v1::LookupRequest> ParseLookup(const Json& params);
[[nodiscard]] absl::StatusOr<v1::CauseRequest> ParseCause(const Json& params);
[[nodiscard]] absl::StatusOr<v1::ReportRequest> ParseReport(const Json& params);
[[nodiscard]] absl::StatusOr<v1::AnnounceRequest> ParseAnnounce(const Json& params);
[[nodiscard]] absl::StatusOr<v1::PaceRequest> ParsePace(const Json& params);
[[nodiscard]] absl::StatusOr<v1::AgentGoneRequest> ParseAgentGone(const Json& params);

}  // namespace millrace

#endif  // CORE_AGENT_LINK_GATEWAY_CALLS_H_
