// File: core/agent/node/node_requests.h
//
// What the node asks for over its control channel (docs/control_protocol.md, section 2): checked,
// answered here or by the coordinator.
//
//   NodeRequests requests(hooks);
//   requests.HandleFrame(frame);                  // from the node
//   requests.HandleKvReply(message.kv());         // from the coordinator
//   requests.OnLost(); requests.OnRegistered();   // the coordinator's stream broke, is back

#ifndef CORE_AGENT_NODE_NODE_REQUESTS_H_
#define CORE_AGENT_NODE_NODE_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/json.h"
#include "core/gpu/gpu_claims.h"
#include "core/proto/coordinator.pb.h"

namespace millrace {

// Requests that wait for the coordinator are kept while its stream is down and sent when it is
// back. A request that was sent on the broken stream is sent again if that is harmless (a repeated
// kv.add is told by its request_id); for kv.delete the node gets UNAVAILABLE: nobody knows whether
// it was done.
//
// Thread safety: the loop's thread only. Blocking: never.
class NodeRequests {
 public:
  static constexpr size_t kMaxPending = 1024;
  static constexpr size_t kMaxPendingBytes = size_t{16} << 20;

  struct Hooks {
    // To the node.
    std::function<void(const Json& frame)> reply;
    // To the coordinator; false: not sent.
    std::function<bool(v1::AgentMessage message, bool droppable)> send;
    std::function<void()> on_hello;
    // `attempt` is not set.
    std::function<void(v1::NodeEndpoints endpoints)> on_ready;
    std::function<void(absl::string_view level, absl::string_view message)> on_log;
    std::function<void()> on_release_port;
    // `done` is called later, on the same thread, unless the claim is dropped; see AgentGpus.
    std::function<void(GpuRequest request,
                       std::function<void(const absl::StatusOr<std::vector<std::string>>&)> done)>
        on_gpu_claim;
    std::function<absl::Status(const std::vector<std::string>& ids)> on_gpu_release;
    // What the node says of its feed at its interval: the members about the feed are set.
    std::function<void(const v1::NodeSample& feed)> on_sample;
    // The program reported a metric of this step.
    std::function<void(int64_t step)> on_step;
    // What RunNode is about to end with; OK too.
    std::function<void(const absl::Status& status)> on_exit;
  };

  explicit NodeRequests(Hooks hooks) : hooks_(std::move(hooks)) {}

  // How often a node that says hello from now on is to say what its feed is like.
  void set_sample_interval(absl::Duration interval) { sample_interval_ = interval; }

  // Any JSON object from the node.
  void HandleFrame(const Json& frame);

  // Replies to requests that are not there (any more) are ignored.
  void HandleKvReply(const v1::KvReply& reply);
  void HandleBarrierReply(const v1::BarrierReply& reply);
  void HandleEqualReply(const v1::EqualReply& reply);
  // Pushed to the node.
  void HandleEqualGrant(const v1::EqualGrant& grant);

  void OnLost();
  void OnRegistered();

  // The channel is closed: nobody waits any more.
  void Forget();

  // The program has said hello, hence is built on the SDK.
  [[nodiscard]] bool said_hello() const { return said_hello_; }

 private:
  struct Pending {
    Json node_id;
    v1::AgentMessage message;
    bool sent = false;
    bool repeatable = false;
    bool wants_value = false;  // the result carries the value
  };

  // The result; null if the coordinator will answer.
  absl::StatusOr<Json> Handle(const std::string& method, const Json& params, const Json& id);
  absl::StatusOr<Json> Hello(const Json& params);
  absl::Status Ready(const Json& params);
  absl::Status Kv(const std::string& method, const Json& params, const Json& id);
  absl::Status Barrier(const Json& params, const Json& id);
  absl::Status JoinEqual(const Json& params, const Json& id);
  absl::Status EqualRows(const Json& params);
  absl::Status Metric(const Json& params);
  absl::Status Sample(const Json& params);
  absl::Status ClaimGpus(const Json& params, const Json& id);
  absl::Status Exit(const Json& params);
  absl::Status Ask(Pending pending);
  void Send(Pending* pending);
  void Finish(uint64_t request_id, const absl::StatusOr<Json>& outcome);
  void Reply(const Json& id, const absl::StatusOr<Json>& outcome);

  const Hooks hooks_;
  bool said_hello_ = false;
  absl::Duration sample_interval_ = absl::Seconds(1);
  uint64_t next_request_id_ = 1;
  // By queue: what the node said last of the rows that it has.
  std::map<std::string, v1::AgentMessage> equal_rows_;
  std::map<uint64_t, Json> gpu_claims_;  // under way: the node's ids
  std::map<uint64_t, Pending> pending_;  // by request_id, hence in the order of asking
  size_t pending_bytes_ = 0;             // of the messages in pending_
};

}  // namespace millrace

#endif  // CORE_AGENT_NODE_NODE_REQUESTS_H_
