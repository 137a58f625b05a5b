// File: core/node/node_context.h
//
// What stands behind a NodeContext (millrace/node.h), and what only RunNode does with one.
//
// Defines: OpenNode(), FinishNode(), CreateNodeContext(), internal::NodeContextImpl.

#ifndef CORE_NODE_NODE_CONTEXT_H_
#define CORE_NODE_NODE_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "core/node/control_client.h"
#include "core/node/node_config.h"
#include "feed/receiver/receiver.h"
#include "millrace/cluster_spec.h"
#include "millrace/data_feed.h"
#include "millrace/node.h"

namespace millrace {

// The agent is gone, or breaks the protocol. Runs on the channel's thread, at most once, and not
// after FinishNode().
using AgentGoneFn = std::function<void(const absl::Status& why)>;

// Takes the place that `config` describes, the node's end of the channel, and the descriptor of the
// reserved port if the config has one. Announces the node (hello), starts its receiver if it is
// fed, and publishes where it can be fed (ready). Returns FAILED_PRECONDITION if a descriptor is
// not what it should be, DEADLINE_EXCEEDED or UNAVAILABLE if the agent does not answer, its error,
// or the receiver's (which the agent is told).
[[nodiscard]] absl::StatusOr<std::unique_ptr<NodeContext>> CreateNodeContext(
    NodeConfig config, UniqueFd control_fd, AgentGoneFn on_agent_gone);

// Does what RunNode does before its body, for programs that stay in a main function of their own,
// as those in other languages do. It prints no error; the caller ends with FinishNode and exits
// with the code that RunNode would return. Once in a process. Returns the errors of
// CreateNodeContext, and what was wrong with the environment: FAILED_PRECONDITION if no agent has
// started this process.
[[nodiscard]] absl::StatusOr<std::unique_ptr<NodeContext>> OpenNode();

// The program's outcome, told to feeders and agent: the last call. Returns what the node ends with:
// `outcome`, or FAILED_PRECONDITION if that is OK but inference rows were left without results.
// From here on the agent may go. Blocks a few seconds at most; does nothing the second time.
absl::Status FinishNode(NodeContext& context, const absl::Status& outcome);

namespace internal {

// How long the agent may take for what needs no other host.
inline constexpr absl::Duration kAgentTimeout = absl::Seconds(30);
// What a call that waits at the coordinator may take beyond its own timeout.
inline constexpr absl::Duration kRoundTrip = absl::Seconds(30);

// The data of a NodeContext, whose methods work on it, with its connection to the agent. Thread
// safety: as the members say.
class NodeContextImpl {
 public:
  using MembershipFn = NodeContext::MembershipFn;

  // As CreateNodeContext and FinishNode.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<NodeContext>> Create(
      NodeConfig config, UniqueFd control_fd, AgentGoneFn on_agent_gone);
  absl::Status Finish(const absl::Status& outcome);
  [[nodiscard]] static NodeContextImpl& Of(NodeContext& context) { return *context.impl_; }

  ~NodeContextImpl();
  NodeContextImpl(const NodeContextImpl&) = delete;
  NodeContextImpl& operator=(const NodeContextImpl&) = delete;

 private:
  friend class millrace::NodeContext;
  friend class millrace::NodeKeyValue;

  NodeContextImpl(NodeConfig config, AgentGoneFn on_agent_gone);
  [[nodiscard]] std::string name() const;
  [[nodiscard]] absl::Status StartReceiver();
  [[nodiscard]] absl::Status Connect(UniqueFd control_fd);
  [[nodiscard]] absl::StatusOr<std::vector<std::string>> Claim(const Json& params);
  // Tells the coordinator that this node reads a queue so that ranks end together.
  [[nodiscard]] absl::Status JoinEqual(const DataFeedOptions& options);
  void TellRows(const ReceiverRows& rows);

  // On the channel's thread.
  void OnPush(ControlClient& control, const Json& frame);
  [[nodiscard]] absl::Status OnSpec(const Json& frame);
  [[nodiscard]] absl::Status OnFeedEnd(const Json& frame);
  [[nodiscard]] absl::Status OnEndFeed(const Json& frame);
  [[nodiscard]] absl::Status OnFeederKeys(const Json& frame);
  [[nodiscard]] absl::Status OnEqual(const Json& frame);
  void SendSample(ControlClient& control);

  const NodeConfig config_;
  const std::string user_;  // whose home relative paths lie in
  const AgentGoneFn on_agent_gone_;
  std::unique_ptr<FeedReceiver> receiver_;  // null if this node is not fed; set once, in Create
  Notification stop_;
  std::atomic<bool> finished_{false};
  std::atomic<bool> warned_of_metric_{false};
  Mutex mu_;
  CondVar epoch_changed_;
  ClusterSpec cluster_spec_ ABSL_GUARDED_BY(mu_);
  uint64_t epoch_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> gpus_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<const MembershipFn> membership_fn_ ABSL_GUARDED_BY(mu_);  // null: none
  bool port_held_ ABSL_GUARDED_BY(mu_);  // by the agent too, as far as is known here
  UniqueFd port_fd_ ABSL_GUARDED_BY(mu_);
  // After everything that its thread uses: closed first. Never reset() before: callbacks of the
  // program on that thread may still use it (ReportMetric) while it ends.
  std::unique_ptr<ControlClient> control_;  // never null once there is a NodeContext
  NodeKeyValue kv_{this};
};

}  // namespace internal
}  // namespace millrace

#endif  // CORE_NODE_NODE_CONTEXT_H_
