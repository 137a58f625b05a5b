#include "core/agent/node/node_requests.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/peer_version.h"
#include "core/base/status.h"
#include "core/base/text.h"
#include "core/base/version.h"
#include "core/proto/fields_json.h"
#include "core/proto/kv_limits.h"
#include "core/proto/time_proto.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr int64_t kMaxTimeoutMs = int64_t{100} * 365 * 24 * 3600 * 1000;
// The coordinator's limits: what is over them would end the agent's stream.
constexpr size_t kMaxEndpoints = 64;
constexpr size_t kMaxEndpointBytes = 1024;
constexpr size_t kMaxMetricNameBytes = 256;
constexpr size_t kMaxWhyBytes = 1024;
constexpr size_t kMaxGpuClaims = 16;
constexpr size_t kMaxQueues = 64;

absl::StatusOr<std::string> GetBounded(const Json& params, absl::string_view key,
                                       size_t max_bytes) {
  MILLRACE_ASSIGN_OR_RETURN(std::string text, GetString(params, key, "params"));
  if (text.empty() || text.size() > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("field \"params.", key, "\" must have 1 to ",
                                                   max_bytes, " bytes, found ", text.size()));
  }
  return text;
}

absl::Status FromError(const v1::Error& error) {
  if (error.code() < 1 || error.code() > 16) return absl::UnknownError(error.message());
  return absl::Status(static_cast<absl::StatusCode>(error.code()), error.message());
}

absl::StatusOr<google::protobuf::Duration> GetTimeout(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const int64_t timeout_ms,
                            GetIntInRange(params, "timeout_ms", 0, kMaxTimeoutMs, "params"));
  return DurationToProto(absl::Milliseconds(timeout_ms));
}

}  // namespace

void NodeRequests::HandleFrame(const Json& frame) {
  const auto found = frame.find("id");
  const Json id = found == frame.end() ? Json() : *found;
  static const Json kNoParams = Json::object();
  absl::StatusOr<Json> outcome = [&]() -> absl::StatusOr<Json> {
    if (!id.is_null() && !id.is_number_integer() && !id.is_string()) {
      return absl::InvalidArgumentError("field \"id\" must be an integer");
    }
    MILLRACE_ASSIGN_OR_RETURN(const std::string method, GetString(frame, "method"));
    const Json* params = &kNoParams;
    if (frame.contains("params")) {
      MILLRACE_ASSIGN_OR_RETURN(params, GetObject(frame, "params"));
    }
    return Handle(method, *params, id);
  }();
  if (outcome.ok() && outcome->is_null()) return;
  if (id.is_null()) {
    if (!outcome.ok()) {
      MILLRACE_LOG(WARNING) << "a message from the node was refused: "
                            << outcome.status().message();
    }
    return;
  }
  Reply(id, outcome);
}

absl::StatusOr<Json> NodeRequests::Handle(const std::string& method, const Json& params,
                                          const Json& id) {
  const Json done = Json::object();
  if (method == "hello") return Hello(params);
  if (!said_hello_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "\"", Ellipsize(method, 64), "\" came before \"hello\", which must be the first"));
  }
  if (method == "ready") {
    MILLRACE_RETURN_IF_ERROR(Ready(params));
    return done;
  }
  if (method == "kv.set" || method == "kv.get" || method == "kv.add" || method == "kv.delete") {
    MILLRACE_RETURN_IF_ERROR(Kv(method, params, id));
    return Json();
  }
  if (method == "barrier") {
    MILLRACE_RETURN_IF_ERROR(Barrier(params, id));
    return Json();
  }
  if (method == "equal.join") {
    MILLRACE_RETURN_IF_ERROR(JoinEqual(params, id));
    return Json();
  }
  if (method == "equal.rows") {
    MILLRACE_RETURN_IF_ERROR(EqualRows(params));
    return done;
  }
  if (method == "metric") {
    MILLRACE_RETURN_IF_ERROR(Metric(params));
    return done;
  }
  if (method == "sample") {
    MILLRACE_RETURN_IF_ERROR(Sample(params));
    return done;
  }
  if (method == "log") {
    MILLRACE_ASSIGN_OR_RETURN(const std::string level,
                              GetStringOr(params, "level", "info", "params"));
    MILLRACE_ASSIGN_OR_RETURN(const std::string message, GetString(params, "message", "params"));
    hooks_.on_log(level, message);
    return done;
  }
  if (method == "gpu.claim") {
    MILLRACE_RETURN_IF_ERROR(ClaimGpus(params, id));
    return Json();
  }
  if (method == "gpu.release") {
    MILLRACE_ASSIGN_OR_RETURN(const std::vector<std::string> ids,
                              GetStringList(params, "ids", "params"));
    MILLRACE_RETURN_IF_ERROR(hooks_.on_gpu_release(ids));
    return done;
  }
  if (method == "release_port") {
    hooks_.on_release_port();
    return done;
  }
  if (method == "exit") {
    MILLRACE_RETURN_IF_ERROR(Exit(params));
    return done;
  }
  return absl::UnimplementedError(
      absl::StrCat("this agent has no method \"", Ellipsize(method, 64),
                   "\"; the program may be built for a later Millrace than the agent's"));
}

absl::StatusOr<Json> NodeRequests::Hello(const Json& params) {
  if (said_hello_) return absl::FailedPreconditionError("hello was said before");
  MILLRACE_ASSIGN_OR_RETURN(const int64_t protocol, GetInt(params, "protocol", "params"));
  if (protocol != 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("this agent speaks control protocol 1, the program ", protocol,
                     "; build the program with the Millrace version of the cluster"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const std::string version,
                            GetStringOr(params, "version", "", "params"));
  MILLRACE_RETURN_IF_ERROR(
      CheckVersions({"this agent", kMillraceVersion}, {"the program", version}));
  said_hello_ = true;
  hooks_.on_hello();
  const absl::Duration interval =
      std::clamp(sample_interval_, absl::Milliseconds(1), absl::Hours(24));
  return Json{{"sample_interval_ms", absl::ToInt64Milliseconds(interval)}};
}

absl::Status NodeRequests::Ready(const Json& params) {
  v1::NodeEndpoints endpoints;
  if (params.contains("feed") && !params["feed"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const Json* feed, GetObject(params, "feed", "params"));
    v1::FeedEndpoint* out = endpoints.mutable_feed();
    MILLRACE_ASSIGN_OR_RETURN(*out->mutable_tcp(), GetStringOr(*feed, "tcp", "", "params.feed"));
    MILLRACE_ASSIGN_OR_RETURN(*out->mutable_ipc(), GetStringOr(*feed, "ipc", "", "params.feed"));
    MILLRACE_ASSIGN_OR_RETURN(*out->mutable_key(), GetString(*feed, "key", "params.feed"));
    MILLRACE_ASSIGN_OR_RETURN(*out->mutable_curve(),
                              GetStringOr(*feed, "curve", "", "params.feed"));
    MILLRACE_ASSIGN_OR_RETURN(*out->mutable_curve_key(),
                              GetStringOr(*feed, "curve_key", "", "params.feed"));
    if (out->tcp().empty() && out->ipc().empty()) {
      return absl::InvalidArgumentError("field \"params.feed\" has neither \"tcp\" nor \"ipc\"");
    }
    if (std::max({out->tcp().size(), out->ipc().size(), out->key().size(), out->curve().size(),
                  out->curve_key().size()}) > kMaxEndpointBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a member of field \"params.feed\" has more than ", kMaxEndpointBytes, " bytes"));
    }
  }
  if (params.contains("other") && !params["other"].is_null()) {
    MILLRACE_ASSIGN_OR_RETURN(const Json* other, GetObject(params, "other", "params"));
    if (other->size() > kMaxEndpoints) {
      return absl::InvalidArgumentError(
          absl::StrCat("field \"params.other\" has more than ", kMaxEndpoints, " members"));
    }
    for (const auto& [name, value] : other->items()) {
      MILLRACE_ASSIGN_OR_RETURN(std::string address, GetString(*other, name, "params.other"));
      if (name.size() + address.size() > kMaxEndpointBytes) {
        return absl::InvalidArgumentError("a member of field \"params.other\" is too large");
      }
      (*endpoints.mutable_other())[name] = std::move(address);
    }
  }
  hooks_.on_ready(std::move(endpoints));
  return absl::OkStatus();
}

absl::Status NodeRequests::Kv(const std::string& method, const Json& params, const Json& id) {
  Pending pending{.node_id = id};
  v1::KvRequest* kv = pending.message.mutable_kv();
  MILLRACE_ASSIGN_OR_RETURN(*kv->mutable_key(), GetBounded(params, "key", kMaxKvKeyBytes));
  if (method == "kv.set") {
    MILLRACE_ASSIGN_OR_RETURN(const std::string text, GetString(params, "value", "params"));
    std::string value;
    if (!absl::Base64Unescape(text, &value)) {
      return absl::InvalidArgumentError("field \"params.value\" is no base64");
    }
    if (value.size() > kMaxKvValueBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a value may have ", kMaxKvValueBytes, " bytes, found ", value.size()));
    }
    kv->set_set(std::move(value));
    pending.repeatable = true;
  } else if (method == "kv.get") {
    MILLRACE_ASSIGN_OR_RETURN(*kv->mutable_get(), GetTimeout(params));
    pending.repeatable = pending.wants_value = true;
  } else if (method == "kv.add") {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t delta, GetInt(params, "delta", "params"));
    kv->set_add(delta);
    // The coordinator remembers by request_id what it has added.
    pending.repeatable = pending.wants_value = true;
  } else {
    kv->set_delete_(true);
    pending.wants_value = true;
  }
  return Ask(std::move(pending));
}

absl::Status NodeRequests::Barrier(const Json& params, const Json& id) {
  Pending pending{.node_id = id, .repeatable = true};
  v1::BarrierRequest* barrier = pending.message.mutable_barrier();
  MILLRACE_ASSIGN_OR_RETURN(*barrier->mutable_name(), GetBounded(params, "name", kMaxKvKeyBytes));
  MILLRACE_ASSIGN_OR_RETURN(*barrier->mutable_timeout(), GetTimeout(params));
  return Ask(std::move(pending));
}

absl::Status NodeRequests::JoinEqual(const Json& params, const Json& id) {
  Pending pending{.node_id = id, .repeatable = true};
  v1::EqualJoin* join = pending.message.mutable_equal_join();
  MILLRACE_ASSIGN_OR_RETURN(*join->mutable_queue(),
                            GetBounded(params, "queue", kMaxMetricNameBytes));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t batch_rows, GetInt(params, "batch_rows", "params"));
  MILLRACE_ASSIGN_OR_RETURN(const bool pad, GetBoolOr(params, "pad", false, "params"));
  join->set_batch_rows(batch_rows);
  join->set_pad(pad);
  return Ask(std::move(pending));
}

absl::Status NodeRequests::EqualRows(const Json& params) {
  const auto count = [&params](absl::string_view key) {
    return GetIntInRange(params, key, 0, std::numeric_limits<int64_t>::max(), "params");
  };
  v1::AgentMessage message;
  v1::EqualRows* rows = message.mutable_equal_rows();
  MILLRACE_ASSIGN_OR_RETURN(*rows->mutable_queue(),
                            GetBounded(params, "queue", kMaxMetricNameBytes));
  MILLRACE_ASSIGN_OR_RETURN(*rows->mutable_feed_id(),
                            GetBounded(params, "feed_id", kMaxMetricNameBytes));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t generation, count("generation"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t answer, count("answer"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t held, count("rows"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t dropped, count("dropped"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t repeated, count("repeated"));
  MILLRACE_ASSIGN_OR_RETURN(const bool can_repeat,
                            GetBoolOr(params, "can_repeat", false, "params"));
  if (equal_rows_.size() >= kMaxQueues && equal_rows_.count(rows->queue()) == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this node has told of the rows of ", kMaxQueues, " queues already"));
  }
  rows->set_generation(static_cast<uint64_t>(generation));
  rows->set_answer(static_cast<uint64_t>(answer));
  rows->set_rows(held);
  rows->set_dropped(dropped);
  rows->set_repeated(repeated);
  rows->set_can_repeat(can_repeat);
  equal_rows_[rows->queue()] = message;
  hooks_.send(std::move(message), /*droppable=*/false);
  return absl::OkStatus();
}

absl::Status NodeRequests::Metric(const Json& params) {
  v1::AgentMessage message;
  v1::MetricReport* metric = message.mutable_metric();
  MILLRACE_ASSIGN_OR_RETURN(*metric->mutable_name(),
                            GetBounded(params, "name", kMaxMetricNameBytes));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t step, GetInt(params, "step", "params"));
  MILLRACE_ASSIGN_OR_RETURN(const double value, GetDouble(params, "value", "params"));
  metric->set_step(step);
  metric->set_value(value);
  *metric->mutable_time() = TimeToProto(RealClock()->Now());
  hooks_.send(std::move(message), /*droppable=*/true);
  hooks_.on_step(step);
  return absl::OkStatus();
}

absl::Status NodeRequests::Sample(const Json& params) {
  const auto count = [](const Json& object, absl::string_view key, absl::string_view where) {
    return GetIntInRange(object, key, 0, std::numeric_limits<int64_t>::max(), where);
  };
  v1::NodeSample sample;
  MILLRACE_ASSIGN_OR_RETURN(const int64_t budget, count(params, "budget_bytes", "params"));
  MILLRACE_ASSIGN_OR_RETURN(const int64_t held, count(params, "held_bytes", "params"));
  sample.set_feed_budget_bytes(static_cast<uint64_t>(budget));
  sample.set_feed_held_bytes(static_cast<uint64_t>(held));
  MILLRACE_ASSIGN_OR_RETURN(const std::string why,
                            GetStringOr(params, "why_not_shared", "", "params"));
  sample.set_why_not_shared(Ellipsize(why, kMaxWhyBytes));
  MILLRACE_ASSIGN_OR_RETURN(const Json* queues, GetArray(params, "queues", "params"));
  if (queues->size() > kMaxQueues) {
    return absl::InvalidArgumentError(
        absl::StrCat("field \"params.queues\" has more than ", kMaxQueues, " members"));
  }
  for (const Json& queue : *queues) {
    const std::string where = absl::StrCat("params.queues[", sample.queues_size(), "]");
    if (!queue.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", where, "\" must be an object"));
    }
    v1::QueueSample* out = sample.add_queues();
    MILLRACE_ASSIGN_OR_RETURN(const std::string name, GetString(queue, "queue", where));
    if (name.size() > kMaxMetricNameBytes) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", where, ".queue\" is too long"));
    }
    MILLRACE_RETURN_IF_ERROR(ReadFields(queue, where, out));
  }
  hooks_.on_sample(sample);
  return absl::OkStatus();
}

absl::Status NodeRequests::ClaimGpus(const Json& params, const Json& id) {
  GpuRequest request;
  if (params.contains("ids")) {
    MILLRACE_ASSIGN_OR_RETURN(request.ids, GetStringList(params, "ids", "params"));
  }
  if (params.contains("count")) {
    MILLRACE_ASSIGN_OR_RETURN(const int64_t count,
                              GetIntInRange(params, "count", 1, 1024, "params"));
    request.count = static_cast<int>(count);
  }
  if (request.ids.empty() == (request.count == 0)) {
    return absl::InvalidArgumentError("\"params\" must have either \"count\" or \"ids\"");
  }
  if (gpu_claims_.size() >= kMaxGpuClaims) {
    return absl::ResourceExhaustedError(
        absl::StrCat(gpu_claims_.size(), " claims of GPUs of this node are under way already"));
  }
  const uint64_t claim = next_request_id_++;
  gpu_claims_[claim] = id;
  // Answered later, unless the channel was closed meanwhile.
  hooks_.on_gpu_claim(std::move(request),
                      [this, claim](const absl::StatusOr<std::vector<std::string>>& ids) {
                        const auto found = gpu_claims_.find(claim);
                        if (found == gpu_claims_.end()) return;
                        const Json node_id = std::move(found->second);
                        gpu_claims_.erase(found);
                        if (node_id.is_null()) return;
                        if (ids.ok()) {
                          Reply(node_id, Json{{"ids", *ids}});
                        } else {
                          Reply(node_id, ids.status());
                        }
                      });
  return absl::OkStatus();
}

absl::Status NodeRequests::Exit(const Json& params) {
  MILLRACE_ASSIGN_OR_RETURN(const std::string code, GetString(params, "code", "params"));
  MILLRACE_ASSIGN_OR_RETURN(const std::string message,
                            GetStringOr(params, "message", "", "params"));
  hooks_.on_exit(code == "OK" ? absl::OkStatus()
                              : absl::Status(StatusCodeFromName(code), Ellipsize(message, 8192)));
  return absl::OkStatus();
}

absl::Status NodeRequests::Ask(Pending pending) {
  const size_t bytes = pending.message.ByteSizeLong();
  if (pending_.size() >= kMaxPending || pending_bytes_ + bytes > kMaxPendingBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(pending_.size(), " requests of this node wait for the coordinator already"));
  }
  const uint64_t request_id = next_request_id_++;
  if (pending.message.has_kv()) pending.message.mutable_kv()->set_request_id(request_id);
  if (pending.message.has_barrier()) pending.message.mutable_barrier()->set_request_id(request_id);
  if (pending.message.has_equal_join()) {
    pending.message.mutable_equal_join()->set_request_id(request_id);
  }
  pending_bytes_ += pending.message.ByteSizeLong();
  Send(&pending_.emplace(request_id, std::move(pending)).first->second);
  return absl::OkStatus();
}

void NodeRequests::Send(Pending* pending) {
  pending->sent = hooks_.send(pending->message, /*droppable=*/false);
}

void NodeRequests::HandleKvReply(const v1::KvReply& reply) {
  const auto found = pending_.find(reply.request_id());
  if (found == pending_.end()) return;
  if (reply.has_error()) {
    Finish(reply.request_id(), FromError(reply.error()));
    return;
  }
  Json result = Json::object();
  if (found->second.wants_value) {
    // A counter is an integer here, everything else bytes.
    int64_t counter = 0;
    if (!found->second.message.kv().has_add()) {
      result["value"] = absl::Base64Escape(reply.value());
    } else if (absl::SimpleAtoi(reply.value(), &counter)) {
      result["value"] = counter;
    } else {
      Finish(reply.request_id(), absl::InternalError("the coordinator's counter is no decimal"));
      return;
    }
  }
  Finish(reply.request_id(), std::move(result));
}

void NodeRequests::HandleBarrierReply(const v1::BarrierReply& reply) {
  if (reply.has_error()) {
    Finish(reply.request_id(), FromError(reply.error()));
  } else {
    Finish(reply.request_id(), Json::object());
  }
}

void NodeRequests::HandleEqualReply(const v1::EqualReply& reply) {
  if (reply.has_error()) {
    Finish(reply.request_id(), FromError(reply.error()));
  } else {
    Finish(reply.request_id(), Json::object());
  }
}

void NodeRequests::HandleEqualGrant(const v1::EqualGrant& grant) {
  Json frame{{"push", "equal"},
             {"queue", grant.queue()},
             {"feed_id", grant.feed_id()},
             {"generation", grant.generation()},
             {"steps", grant.steps()},
             {"last", grant.last()},
             {"question", grant.question()}};
  if (grant.has_error()) {
    const absl::Status error = FromError(grant.error());
    frame["error"] = Json{{"code", absl::StatusCodeToString(error.code())},
                          {"message", std::string(error.message())}};
    frame["fatal"] = grant.fatal();
  }
  hooks_.reply(frame);
}

void NodeRequests::OnLost() {
  std::vector<uint64_t> unknown;
  for (auto& [request_id, pending] : pending_) {
    if (pending.sent && !pending.repeatable) unknown.push_back(request_id);
    pending.sent = false;
  }
  for (const uint64_t request_id : unknown) {
    Finish(request_id, absl::UnavailableError(
                           "the coordinator was lost before it answered; whether the request took "
                           "effect is unknown"));
  }
}

void NodeRequests::OnRegistered() {
  for (auto& [request_id, pending] : pending_) {
    if (!pending.sent) Send(&pending);
  }
  for (const auto& [queue, rows] : equal_rows_) hooks_.send(rows, /*droppable=*/false);
}

void NodeRequests::Forget() {
  gpu_claims_.clear();
  equal_rows_.clear();
  pending_.clear();
  pending_bytes_ = 0;
}

void NodeRequests::Finish(uint64_t request_id, const absl::StatusOr<Json>& outcome) {
  const auto found = pending_.find(request_id);
  if (found == pending_.end()) return;
  const Json id = std::move(found->second.node_id);
  pending_bytes_ -= found->second.message.ByteSizeLong();
  pending_.erase(found);
  if (!id.is_null()) Reply(id, outcome);
}

void NodeRequests::Reply(const Json& id, const absl::StatusOr<Json>& outcome) {
  if (outcome.ok()) {
    hooks_.reply(Json{{"id", id}, {"result", *outcome}});
  } else {
    hooks_.reply(Json{{"id", id},
                      {"error",
                       {{"code", absl::StatusCodeToString(outcome.status().code())},
                        {"message", std::string(outcome.status().message())}}}});
  }
}

}  // namespace millrace
