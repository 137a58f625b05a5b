// File: core/coordinator/server/agent_control.h
//
// The control plane's part for agents: what their streams say, and how their processes fare.
//
// Defines: NodeKeySigner, AgentControl.

#ifndef CORE_COORDINATOR_SERVER_AGENT_CONTROL_H_
#define CORE_COORDINATOR_SERVER_AGENT_CONTROL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/coordinator/server/control_state.h"
#include "core/coordinator/server/feed_control.h"
#include "core/coordinator/server/request_control.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/view_store.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/feed_gateway.pb.h"
#include "core/proto/sample.pb.h"
#include "millrace/agent_exit.h"

namespace millrace {

// Signs a node's public key under its name; returns the certificate, PEM. Thread-safe.
using NodeKeySigner = std::function<absl::StatusOr<std::string>(absl::string_view public_key,
                                                                absl::string_view name)>;

// Thread safety: thread-safe. Blocking: never.
class AgentControl final : public AttachHandler {
 public:
  // Pointers are not owned.
  AgentControl(ControlState* state, RequestControl* requests, FeedControl* feeds,
               v1::NodeSpec node_spec, NodeKeySigner signer, ViewStore* view);

  AgentControl(const AgentControl&) = delete;
  AgentControl& operator=(const AgentControl&) = delete;

  // ---- for streams ----

  // Registers the agent behind `stream`, which has then been sent Registered and what follows.
  // Returns the id for the calls below, or the status to end the stream with (see Attach in
  // coordinator.proto).
  absl::StatusOr<uint64_t> Register(const std::shared_ptr<AttachStream>& stream,
                                    const v1::Register& message) override;
  // One message after Register. Not OK: the stream must end with that status.
  absl::Status Handle(uint64_t stream_id, v1::AgentMessage message) override;
  // As Handle() with a heartbeat for each.
  void HandleHeartbeats(const std::vector<uint64_t>& stream_ids) override;
  // Idempotent.
  void StreamEnded(uint64_t stream_id) override;

  // ---- for whoever starts agents: as in coordinator.h ----
  void AgentStarted(int executor_id, int64_t pid);
  // Where the slot's agent is, in its launcher's words: for the next driver's.
  void AgentFound(int executor_id, absl::string_view place);
  void AgentExited(const AgentExit& exit);
  void AgentAwaited(int executor_id, absl::string_view why);
  // As core/proto/feed_gateway.proto says.
  absl::Status AgentGone(const v1::AgentGoneRequest& request, v1::AgentGoneReply* reply);

  // ---- for the other parts; the first three with the state's lock held ----

  // Tells the table of the held ends that are due, or whose stream has ended.
  void TellHeldExits(TableEffects* effects);
  // When TellHeldExits() has something to tell, steady; InfiniteDuration(): not before a stream
  // ends.
  absl::Duration NextHeldExit() const;
  // The observer has taken all output of nodes whose agents can be heard.
  bool AllOutputTaken() const;
  // The observer may take output after this, which has no effect any more.
  void CloseOutput();

 private:
  // What came of an attempt's output (OutputData), and what the observer has taken.
  struct Output {
    uint64_t received = 0;
    uint64_t taken = 0;
    uint64_t credited = 0;  // as its agent was told
    bool ended = false;
    bool begun = true;  // false: where it begins is what comes first; a driver before has the rest
    std::string agent_id;  // whose node wrote it
    [[nodiscard]] bool complete() const { return ended && taken == received; }
  };
  using OutputKey = std::pair<int, uint32_t>;  // executor id, attempt
  // The way back for an observer that takes output when this object may be gone.
  struct OutputGate {
    Mutex mu;
    AgentControl* agents ABSL_GUARDED_BY(mu) = nullptr;
  };
  // The end of an agent that is not told to the table yet.
  struct HeldExit {
    AgentExit exit;
    uint64_t stream_id = 0;  // its stream
    absl::Duration due;      // steady; then in any case
  };

  void SendRegistered(uint64_t stream_id, const Admission& admission, std::string certificate_pem)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  void HandleEndpoints(int executor_id, const v1::NodeEndpoints& endpoints, TableEffects* effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  void HandleSample(int executor_id, const v1::NodeSample& sample)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  Output& OutputOf(int executor_id, uint32_t attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  void HandleOutput(int executor_id, v1::OutputData& data)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  void OutputTaken(OutputKey key, uint64_t bytes) ABSL_LOCKS_EXCLUDED(state_->mu);
  void SendOutputCredit(OutputKey key, Output& output) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // Whether the end of an agent is told to the table later, since its stream may hold its last
  // words.
  bool HoldExit(const AgentExit& exit) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);

  ControlState* const state_;
  RequestControl* const requests_;
  FeedControl* const feeds_;
  const v1::NodeSpec node_spec_;
  const NodeKeySigner signer_;
  ViewStore* const view_;
  std::vector<HeldExit> held_exits_ ABSL_GUARDED_BY(state_->mu);
  std::map<OutputKey, Output> outputs_ ABSL_GUARDED_BY(state_->mu);
  const std::shared_ptr<OutputGate> output_gate_ = std::make_shared<OutputGate>();
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_AGENT_CONTROL_H_
