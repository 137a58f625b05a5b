#include "core/agent/link/gateway_calls.h"

#include <grpcpp/client_context.h>

#include <array>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/client/client_channel.h"
#include "core/net/socket_address.h"
#include "core/proto/feed_gateway.grpc.pb.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(10);
constexpr absl::string_view kWhere = "params";
constexpr size_t kMaxErrorBytes = 2048;
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

// In the order of the protos' numbers, from 1.
constexpr std::array<absl::string_view, 6> kRouteStates = {"starting", "running", "restarting",
                                                           "finished", "failed",  "busy"};
constexpr std::array<absl::string_view, 5> kPartitionStates = {"pending", "feeding", "received",
                                                               "done", "failed"};

template <size_t kSize>
Json StateJson(const std::array<absl::string_view, kSize>& names, int state) {
  if (state < 1 || state > static_cast<int>(kSize)) return Json();
  return std::string(names[static_cast<size_t>(state) - 1]);
}

absl::StatusOr<v1::PartitionState> ParsePartitionState(const std::string& name) {
  for (size_t i = 0; i < kPartitionStates.size(); ++i) {
    if (kPartitionStates[i] == name) return static_cast<v1::PartitionState>(i + 1);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("field \"params.state\" is \"", Ellipsize(EscapeControls(name), 60),
                   "\": must be pending, feeding, received, done or failed"));
}

absl::StatusOr<v1::Movable> ParseMovable(const std::string& name) {
  if (name.empty()) return v1::MOVABLE_UNSPECIFIED;
  if (name == "whole") return v1::MOVABLE_WHOLE;
  if (name == "any_row") return v1::MOVABLE_ANY_ROW;
  return absl::InvalidArgumentError(absl::StrCat("field \"params.movable\" is \"",
                                                 Ellipsize(EscapeControls(name), 60),
                                                 "\": must be whole or any_row"));
}

absl::StatusOr<int> GetExecutorId(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t id,
                            GetIntInRange(params, "executor_id", 0, INT32_MAX, kWhere));
  return static_cast<int>(id);
}

absl::StatusOr<uint64_t> GetCount(const Json& params, absl::string_view key,
                                  absl::string_view where = kWhere, int64_t max = kMaxInt64) {
  if (!params.contains(std::string(key))) return 0;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t value, GetIntInRange(params, key, 0, max, where));
  return static_cast<uint64_t>(value);
}

Json ErrorToJson(bool present, const v1::Error& error) {
  if (!present) return Json();
  return Json{{"code", absl::StatusCodeToString(static_cast<absl::StatusCode>(error.code()))},
              {"message", error.message()}};
}

Json ReportToJson(const v1::ReportReply&) { return Json::object(); }
Json AnnounceToJson(const v1::AnnounceReply&) { return Json::object(); }
Json AgentGoneToJson(const v1::AgentGoneReply& reply) {
  return {{"awaits_agent", reply.awaits_agent()}};
}

}  // namespace

Json LookupToJson(const v1::LookupReply& reply) {
  Json json = {
      {"state", StateJson(kRouteStates, reply.state())},
      {"executor_id", reply.executor_id()},
      {"node", reply.node()},
      {"attempt", reply.attempt()},
      {"host", reply.host()},
      {"resume_row", reply.resume_row()},
      {"partition_state", StateJson(kPartitionStates, reply.partition_state())},
      {"partition_error", ErrorToJson(reply.has_partition_error(), reply.partition_error())},
      {"level", reply.level()},
      {"fewest_rows", reply.fewest_rows()}};
  if (reply.state() == v1::LookupReply::STATE_RUNNING) {
    json["nonce"] = reply.nonce();
    json["endpoint"] = {{"tcp", reply.endpoint().tcp()},
                        {"ipc", reply.endpoint().ipc()},
                        {"key", reply.endpoint().key()},
                        {"curve", reply.endpoint().curve()},
                        {"curve_key", reply.endpoint().curve_key()}};
  }
  return json;
}

Json CauseToJson(const v1::CauseReply& reply) {
  return {{"error", ErrorToJson(reply.has_error(), reply.error())},
          {"first_cause", ErrorToJson(reply.has_first_cause(), reply.first_cause())}};
}

Json PaceToJson(const v1::PaceReply& reply) {
  Json rooms = Json::array();
  for (const v1::FedNodeRoom& room : reply.rooms()) {
    rooms.push_back({{"executor_id", room.executor_id()}, {"rows", room.rows()}});
  }
  Json take_back = Json::array();
  for (const v1::TakenSession& session : reply.take_back()) {
    take_back.push_back({{"feed", session.feed_id()},
                         {"partition", session.partition()},
                         {"feeder_attempt", session.feeder_attempt()}});
  }
  return {{"rooms", std::move(rooms)}, {"take_back", std::move(take_back)}};
}

absl::StatusOr<v1::LookupRequest> ParseLookup(const Json& params) {
  v1::LookupRequest request;
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_feed_id(), GetString(params, "feed", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t partition,
                            GetIntInRange(params, "partition", 0, kMaxInt64, kWhere));
  request.set_partition(partition);
  if (params.contains("executor_id") && !params["executor_id"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const int id, GetExecutorId(params));
    request.set_executor_id(id);
  }
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_host(),
                            GetStringOr(params, "host", LocalHostname(), kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const bool patient, GetBoolOr(params, "patient", false, kWhere));
  request.set_patient(patient);
  return request;
}

absl::StatusOr<v1::CauseRequest> ParseCause(const Json& params) {
  v1::CauseRequest request;
  MILLRACE_ASSIGN_OR_RETURN(const int id, GetExecutorId(params));
  request.set_executor_id(id);
  return request;
}

absl::StatusOr<v1::ReportRequest> ParseReport(const Json& params) {
  v1::ReportRequest request;
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_feed_id(), GetString(params, "feed", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t partition,
                            GetIntInRange(params, "partition", 0, kMaxInt64, kWhere));
  request.set_partition(partition);
  MILLRACE_ASSIGN_OR_RETURN(const std::string state, GetString(params, "state", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const v1::PartitionState parsed, ParsePartitionState(state));
  request.set_state(parsed);
  request.set_executor_id(-1);
  if (params.contains("executor_id") && !params["executor_id"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t id,
                              GetIntInRange(params, "executor_id", -1, INT32_MAX, kWhere));
    request.set_executor_id(static_cast<int>(id));
  }
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t node_attempt, GetCount(params, "node_attempt"));
  if (node_attempt > UINT32_MAX) {
    return absl::InvalidArgumentError("field \"params.node_attempt\" is over 2^32-1");
  }
  request.set_node_attempt(static_cast<uint32_t>(node_attempt));
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t feeder_attempt, GetCount(params, "feeder_attempt"));
  request.set_feeder_attempt(feeder_attempt);
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t received, GetCount(params, "rows_received"));
  request.set_rows_received(received);
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t acked, GetCount(params, "rows_acked"));
  request.set_rows_acked(acked);
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t returned, GetCount(params, "rows_returned"));
  request.set_rows_returned(returned);
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t first_row, GetCount(params, "first_row"));
  request.set_first_row(first_row);
  MILLRACE_ASSIGN_OR_RETURN(const uint64_t rows_before, GetCount(params, "rows_before"));
  request.set_rows_before(rows_before);
  const std::pair<const char*, void (v1::FeederStages::*)(uint64_t)> stages[] = {
      {"source_us", &v1::FeederStages::set_source_us},
      {"encode_us", &v1::FeederStages::set_encode_us},
      {"credit_us", &v1::FeederStages::set_credit_us},
      {"wire_us", &v1::FeederStages::set_wire_us},
  };
  for (const auto& [name, set] : stages) {
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t value, GetCount(params, name));
    (request.mutable_stages()->*set)(value);
  }
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_refed_reason(),
                            GetStringOr(params, "refed_reason", "", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const std::string movable, GetStringOr(params, "movable", "", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const v1::Movable parsed_movable, ParseMovable(movable));
  request.set_movable(parsed_movable);
  if (params.contains("error") && !params["error"].is_null()) {
    constexpr absl::string_view kError = "params.error";
    MILLRACE_ASSIGN_OR_RETURN(const Json* error, GetObject(params, "error", kWhere));
    MILLRACE_ASSIGN_OR_RETURN(const std::string code, GetString(*error, "code", kError));
    MILLRACE_ASSIGN_OR_RETURN(const std::string message, GetString(*error, "message", kError));
    request.mutable_error()->set_code(static_cast<int>(StatusCodeFromName(code)));
    request.mutable_error()->set_message(Ellipsize(message, kMaxErrorBytes));
  }
  return request;
}

absl::StatusOr<v1::AnnounceRequest> ParseAnnounce(const Json& params) {
  v1::AnnounceRequest request;
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_principal(), GetString(params, "principal", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_curve_key(), GetString(params, "curve_key", kWhere));
  return request;
}

absl::StatusOr<v1::PaceRequest> ParsePace(const Json& params) {
  constexpr absl::string_view kNodes = "params.nodes";
  v1::PaceRequest request;
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_feeder(), GetString(params, "feeder", kWhere));
  MILLRACE_ASSIGN_OR_RETURN(const Json* nodes, GetArray(params, "nodes", kWhere));
  for (const Json& json : *nodes) {
    v1::FedNode& node = *request.add_nodes();
    MILLRACE_ASSIGN_OR_RETURN(const int64_t id,
                              GetIntInRange(json, "executor_id", 0, INT32_MAX, kNodes));
    node.set_executor_id(static_cast<int>(id));
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t attempt,
                              GetCount(json, "node_attempt", kNodes, UINT32_MAX));
    node.set_node_attempt(static_cast<uint32_t>(attempt));
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t acked, GetCount(json, "rows_acked", kNodes));
    node.set_rows_acked(acked);
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t unread, GetCount(json, "rows_unread", kNodes));
    node.set_rows_unread(unread);
    MILLRACE_ASSIGN_OR_RETURN(const uint64_t partitions,
                              GetCount(json, "partitions", kNodes, UINT32_MAX));
    node.set_partitions(static_cast<uint32_t>(partitions));
  }
  return request;
}

absl::StatusOr<v1::AgentGoneRequest> ParseAgentGone(const Json& params) {
  v1::AgentGoneRequest request;
  MILLRACE_ASSIGN_OR_RETURN(const int id, GetExecutorId(params));
  request.set_executor_id(id);
  MILLRACE_ASSIGN_OR_RETURN(*request.mutable_agent_id(), GetString(params, "agent_id", kWhere));
  if (params.contains("signal")) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t signal,
                              GetIntInRange(params, "signal", 1, 127, kWhere));
    request.set_signal(static_cast<int>(signal));
  } else {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t code,
                              GetIntInRange(params, "exit_code", 0, 255, kWhere));
    request.set_exit_code(static_cast<int>(code));
  }
  return request;
}

GatewayCalls::GatewayCalls(EventLoop* loop, std::string token, ChannelSource channel)
    : loop_(loop), token_(std::move(token)), channel_(std::move(channel)) {}

bool GatewayCalls::Knows(absl::string_view method) {
  return method == "lookup" || method == "cause" || method == "report" || method == "announce" ||
         method == "pace" || method == "agent_gone";
}

template <typename Request, typename Reply, typename Method>
void GatewayCalls::Call(Request request, Method method, Json (*to_json)(const Reply&), Done done) {
  const std::shared_ptr<grpc::Channel> channel = channel_();
  if (channel == nullptr) {
    done(absl::UnavailableError("there is no connection to the coordinator yet; ask again"));
    return;
  }
  struct State {
    grpc::ClientContext context;
    Request request;
    Reply reply;
    std::unique_ptr<v1::FeedGateway::Stub> stub;
  };
  auto state = std::make_shared<State>();
  state->request = std::move(request);
  state->stub = v1::FeedGateway::NewStub(channel);
  PrepareCall(token_, kDeadline, &state->context);
  auto finish = [state, to_json, done = std::move(done), mailbox = loop_->mailbox(),
                 alive = std::weak_ptr<bool>(alive_)](const grpc::Status& status) {
    // On a thread of gRPC.
    mailbox->Post([state, to_json, done, alive, status] {
      if (alive.expired()) return;
      if (status.ok()) {
        done(to_json(state->reply));
        return;
      }
      const bool silent = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
      done(absl::Status(silent ? absl::StatusCode::kUnavailable
                               : static_cast<absl::StatusCode>(status.error_code()),
                        silent ? "the coordinator did not answer within 10 s"
                               : Ellipsize(EscapeControls(status.error_message()), 1000)));
    });
  };
  ((state->stub->async())->*method)(&state->context, &state->request, &state->reply,
                                    std::move(finish));
}

void GatewayCalls::Start(const std::string& method, const Json& params, Done done) {
  using Async = v1::FeedGateway::StubInterface::async_interface;
  using Finish = std::function<void(grpc::Status)>;
  const auto call = [&](auto request, auto rpc, auto* to_json) {
    if (!request.ok()) {
      done(request.status());
      return;
    }
    Call(*std::move(request), rpc, to_json, std::move(done));
  };
  if (method == "lookup") {
    call(ParseLookup(params),
         static_cast<void (Async::*)(grpc::ClientContext*, const v1::LookupRequest*,
                                     v1::LookupReply*, Finish)>(&Async::Lookup),
         &LookupToJson);
  } else if (method == "cause") {
    call(ParseCause(params),
         static_cast<void (Async::*)(grpc::ClientContext*, const v1::CauseRequest*, v1::CauseReply*,
                                     Finish)>(&Async::Cause),
         &CauseToJson);
  } else if (method == "announce") {
    call(ParseAnnounce(params),
         static_cast<void (Async::*)(grpc::ClientContext*, const v1::AnnounceRequest*,
                                     v1::AnnounceReply*, Finish)>(&Async::Announce),
         &AnnounceToJson);
  } else if (method == "pace") {
    call(ParsePace(params),
         static_cast<void (Async::*)(grpc::ClientContext*, const v1::PaceRequest*, v1::PaceReply*,
                                     Finish)>(&Async::Pace),
         &PaceToJson);
  } else if (method == "agent_gone") {
    call(ParseAgentGone(params),
         static_cast<void (Async::*)(grpc::ClientContext*, const v1::AgentGoneRequest*,
                                     v1::AgentGoneReply*, Finish)>(&Async::AgentGone),
         &AgentGoneToJson);
  } else {
    call(ParseReport(params),
         static_cast<void (Async::*)(grpc::ClientContext*, const v1::ReportRequest*,
                                     v1::ReportReply*, Finish)>(&Async::Report),
         &ReportToJson);
  }
}

}  // namespace millrace
