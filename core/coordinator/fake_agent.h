// File: core/coordinator/fake_agent.h
//
// Simulated agents on real TLS streams, without a process or a node behind them. Test only.
//
// Defines: FakeAgentOptions, MakePublicKey(), FakeAgent, FakeAgentGroup.
//
//   FakeAgentOptions options = FakeAgentOptions::For(*coordinator);
//   FakeAgentGroup agents(options, /*count=*/300);  // each takes any free slot
//   EXPECT_THAT(coordinator->WaitRunning(), IsOk());
//   coordinator->Stop(NodeFilter::kAll, "done");       // they exit as asked

#ifndef CORE_COORDINATOR_FAKE_AGENT_H_
#define CORE_COORDINATOR_FAKE_AGENT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/coordinator/coordinator.h"
#include "core/process/exit_status.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "millrace/cluster_spec.h"

namespace millrace {

// That of a fresh P-256 key, as agents send it.
[[nodiscard]] std::string MakePublicKey();

struct FakeAgentOptions {
  std::string address;  // of the coordinator
  std::string ca_pem;
  std::string identity_pem;
  std::string token;
  std::string agent_id;            // empty: random
  std::optional<int> executor_id;  // nullopt: any slot
  std::string node_address = "127.0.0.1:1";
  std::string public_key;  // empty: a fresh one
  uint32_t protocol = 2;
  // Plays a good node: ready and running when the whole spec arrives (with a feed endpoint if the
  // cluster is fed), exits as asked on Stop. Otherwise only what the test sends is sent.
  bool plays_along = true;
  bool reads = true;  // false: never reads after Registered

  [[nodiscard]] static FakeAgentOptions For(const Coordinator& coordinator);
};

// A channel with TLS that trusts `ca_pem` only, expects the coordinator's name and shows the
// certificate of `identity_pem` ("": none); never shared.
[[nodiscard]] std::shared_ptr<grpc::Channel> MakeAgentChannel(const std::string& address,
                                                              const std::string& ca_pem,
                                                              const std::string& identity_pem);

// One stream, dialled on construction. Thread safety: thread-safe. Blocking: the Wait functions and
// the destructor, which cancels the stream.
class FakeAgent final : private grpc::ClientBidiReactor<v1::AgentMessage, v1::CoordinatorMessage> {
 public:
  explicit FakeAgent(FakeAgentOptions options);
  ~FakeAgent() override;

  void Send(const v1::AgentMessage& message);
  void SendHeartbeat();
  void SendNode(v1::NodeState state, uint32_t attempt = 0);
  void SendExit(const ExitStatus& exit, const std::vector<std::string>& stderr_tail = {},
                bool as_asked = false);
  void HalfClose();  // after what was sent before
  void Cancel();     // the stream breaks

  // Waits until `condition` holds for this agent, at most `timeout`.
  [[nodiscard]] bool WaitUntil(absl::FunctionRef<bool(const FakeAgent&)> condition,
                               absl::Duration timeout = absl::Seconds(30));
  // Waits until the coordinator has registered it.
  [[nodiscard]] bool WaitRegistered(absl::Duration timeout = absl::Seconds(30));
  // Waits for the end of the stream; DEADLINE_EXCEEDED from here after `timeout`.
  [[nodiscard]] absl::Status WaitStatus(absl::Duration timeout = absl::Seconds(30));

  // What arrived so far. Callable inside of a condition and outside.
  [[nodiscard]] bool ended() const;
  [[nodiscard]] std::optional<v1::Registered> registered() const;
  [[nodiscard]] uint64_t epoch() const;
  [[nodiscard]] ClusterSpec spec() const;
  [[nodiscard]] std::vector<v1::CoordinatorMessage> received() const;  // all but specs

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

  void WriteNext() ABSL_LOCKS_EXCLUDED(mu_);
  void Take(const v1::CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PlayAlong(const v1::CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const FakeAgentOptions options_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  grpc::ClientContext context_;
  v1::CoordinatorMessage incoming_;

  mutable Mutex state_mu_;  // what the getters read; taken inside of mu_, never around it
  Mutex mu_;
  CondVar changed_;
  std::deque<v1::AgentMessage> queue_ ABSL_GUARDED_BY(mu_);
  // Unchanged while writing_; a fresh object for each write (see AttachReactor).
  std::unique_ptr<v1::AgentMessage> outgoing_ ABSL_GUARDED_BY(mu_);
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool half_close_ ABSL_GUARDED_BY(mu_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(state_mu_);
  std::optional<v1::Registered> registered_ ABSL_GUARDED_BY(state_mu_);
  uint64_t epoch_ ABSL_GUARDED_BY(state_mu_) = 0;
  ClusterSpec spec_ ABSL_GUARDED_BY(state_mu_);
  std::vector<v1::CoordinatorMessage> received_ ABSL_GUARDED_BY(state_mu_);
};

// Many agents, and one thread that sends their heartbeats.
class FakeAgentGroup {
 public:
  FakeAgentGroup(const FakeAgentOptions& options, int count,
                 absl::Duration heartbeat_interval = absl::Milliseconds(500));
  ~FakeAgentGroup();

  [[nodiscard]] int size() const { return static_cast<int>(agents_.size()); }
  [[nodiscard]] FakeAgent& agent(int i) { return *agents_[i]; }

 private:
  std::vector<std::unique_ptr<FakeAgent>> agents_;
  Notification stop_;
  Thread heart_;  // last: joined first
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_FAKE_AGENT_H_
