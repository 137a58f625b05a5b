// File: core/coordinator/server/control_plane.h
//
// All state of a running coordinator behind one lock: the slots, the agents' streams, the kv store,
// barriers, feed ledger and the first cause. gRPC calls in on one side (attach_reactor.h), the
// driver on the other (coordinator.cc).
//
// Defines: ControlPlane.
//
// How a call works: take the lock; let the pure state machines say what follows; queue messages on
// streams and post to the observer, neither of which calls out; release the lock; write. So
// messages of one stream are in the order of the decisions, and nothing foreign runs under the
// lock.

#ifndef CORE_COORDINATOR_SERVER_CONTROL_PLANE_H_
#define CORE_COORDINATOR_SERVER_CONTROL_PLANE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/balance/feed_target.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/thread.h"
#include "core/coordinator/server/attach_stream.h"
#include "core/coordinator/server/certificate_authority.h"
#include "core/coordinator/state/attended_clock.h"
#include "core/coordinator/state/barrier_set.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/feed_balance.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/coordinator/state/feed_moves.h"
#include "core/coordinator/state/first_cause.h"
#include "core/coordinator/state/kv_store.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/observer_queue.h"
#include "core/coordinator/view/view_store.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/feed_gateway.pb.h"
#include "core/proto/operator.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "millrace/agent_exit.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {

// Threads: "coord-timer", started here, for everything that is due by time; "coord-observer".
// Thread safety: thread-safe. Blocking: the Wait functions and Stop().
class ControlPlane {
 public:
  // `options` are valid; pointers are not owned.
  ControlPlane(const CoordinatorOptions& options, v1::NodeSpec node_spec,
               const CertificateAuthority* ca, ViewStore* view, ClusterRecorder* recorder);
  ~ControlPlane() { Shutdown(); }

  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  // ---- for streams ----

  // Registers the agent behind `stream`, which has then been sent Registered and what follows.
  // Returns the id for the calls below, or the status to end the stream with (see Attach in
  // coordinator.proto).
  absl::StatusOr<uint64_t> Register(const std::shared_ptr<AttachStream>& stream,
                                    const v1::Register& message);
  // One message after Register. Not OK: the stream must end with that status.
  absl::Status Handle(uint64_t stream_id, v1::AgentMessage message);
  // Idempotent.
  void StreamEnded(uint64_t stream_id);

  // ---- for the driver: as in coordinator.h ----
  absl::Status WaitRunning(absl::Duration timeout);
  absl::Status WaitFedEndpoints(absl::Duration timeout, const std::atomic<bool>* given_up);
  void Wake();
  absl::Status WaitEnded(NodeFilter filter, absl::Duration timeout);
  absl::Status WaitOutput(absl::Duration timeout);
  absl::Status WaitFailure(absl::Duration timeout);
  void Cancel(absl::string_view reason);

  ClusterStatus Snapshot() const;
  ClusterSpec spec() const;
  absl::Status first_cause() const;
  const std::vector<int>& fed_nodes() const { return fed_nodes_; }
  absl::StatusOr<FeedTarget> LookupFeed(int executor_id) const;
  absl::Status Cause(int executor_id) const;
  absl::StatusOr<std::map<std::string, std::string>> PublishedEndpoints(int executor_id) const;

  void FeedEnd(absl::string_view feed_id, bool aborted);
  void EndFeed(absl::string_view queue);
  void AgentStarted(int executor_id, int64_t pid);
  void AgentExited(const AgentExit& exit);
  void AgentAwaited(int executor_id, absl::string_view why);
  void Stop(NodeFilter filter, absl::string_view reason, bool now);
  absl::StatusOr<uint32_t> RestartNode(int executor_id, absl::string_view reason);

  absl::Status OpenFeed(absl::string_view feed_id, absl::string_view queue, int64_t num_partitions);
  absl::Status ReportPartition(absl::string_view feed_id, const PartitionReport& report);
  void CloseFeed(absl::string_view feed_id);
  // Calls `body` with the ledger, under the lock.
  void WithLedger(absl::FunctionRef<void(const FeedLedger&)> body) const;
  // Blocks for a get that waits. Returns the reply's value.
  // CANCELLED, with the reason, after StopByOperator(); OK before.
  absl::Status stop_request() const;

  // ---- for operators: as core/proto/operator.proto says ----
  void StopByOperator(absl::string_view reason, bool now);
  absl::StatusOr<uint32_t> RestartByOperator(int executor_id, absl::string_view reason);
  // The answer is written to `answer` as a CoordinatorMessage. Returns the id for EndOperatorKv(),
  // which forgets a get that waits; 0 after Shutdown().
  uint64_t OperatorKv(const v1::KvRequest& request, const std::shared_ptr<AttachStream>& answer);
  void EndOperatorKv(uint64_t id);
  void ListKeys(absl::string_view prefix, size_t limit, v1::ListKeysReply* reply) const;

  // ---- for feeders outside of the driver: as core/proto/feed_gateway.proto says ----
  absl::Status LookupPartition(const v1::LookupRequest& request, v1::LookupReply* reply);
  absl::Status CauseOf(int executor_id, v1::CauseReply* reply) const;
  absl::Status ReportByFeeder(const v1::ReportRequest& request);
  absl::Status AnnounceFeeder(absl::string_view principal, absl::string_view curve_key);
  absl::Status FeederPace(const v1::PaceRequest& request, v1::PaceReply* reply);
  absl::Status AgentGone(const v1::AgentGoneRequest& request);

  // Ends every stream and wait with CANCELLED; joins the threads. Idempotent.
  void Shutdown();

 private:
  // What is kept of a node besides its slot. Belongs to one attempt.
  struct Node {
    uint32_t attempt = 0;
    std::optional<v1::FeedEndpoint> feed;
    std::map<std::string, std::string> other;
    std::deque<std::pair<uint64_t, v1::KvReply>> adds;  // the last answers, for repeated requests
    std::vector<std::string> done_queues;  // that its program reads no more, as its samples say
  };
  struct Stream {
    std::shared_ptr<AttachStream> stream;
    int executor_id = 0;
    bool registered = false;  // Registered was queued: other messages may follow
  };
  using Streams = std::vector<std::shared_ptr<AttachStream>>;
  // What came of an attempt's output (OutputData), and what the observer has taken.
  struct Output {
    uint64_t received = 0;
    uint64_t taken = 0;
    uint64_t credited = 0;  // as its agent was told
    bool ended = false;
    std::string agent_id;  // whose node wrote it
    [[nodiscard]] bool complete() const { return ended && taken == received; }
  };
  using OutputKey = std::pair<int, uint32_t>;  // executor id, attempt
  // The way back for an observer that takes output when the control plane may be gone.
  struct OutputGate {
    Mutex mu;
    ControlPlane* plane ABSL_GUARDED_BY(mu) = nullptr;
  };
  // The end of an agent that is not told to the table yet.
  struct HeldExit {
    AgentExit exit;
    uint64_t stream_id = 0;  // its stream
    absl::Duration due;      // steady; then in any case
  };

  // Runs `body` under the lock, carries out the effects, then writes.
  void Do(absl::FunctionRef<void(TableEffects*)> body) ABSL_LOCKS_EXCLUDED(mu_);
  void Perform(TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PerformSlots(const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PerformSpec(const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Send(uint64_t stream_id, const v1::CoordinatorMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendBytes(uint64_t stream_id, const grpc::ByteBuffer& bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendToFed(const v1::CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendFeedState(uint64_t stream_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendRegistered(uint64_t stream_id, const Admission& admission, std::string certificate_pem)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const grpc::ByteBuffer& WholeSpec() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropStream(uint64_t stream_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Node& NodeOf(int executor_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void HandleEndpoints(int executor_id, const v1::NodeEndpoints& endpoints, TableEffects* effects)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleKv(uint64_t stream_id, int executor_id, const v1::KvRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleBarrier(uint64_t stream_id, int executor_id, const v1::BarrierRequest& request)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Output& OutputOf(int executor_id, uint32_t attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleOutput(int executor_id, v1::OutputData& data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OutputTaken(OutputKey key, uint64_t bytes) ABSL_LOCKS_EXCLUDED(mu_);
  void SendOutputCredit(OutputKey key, Output& output) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void HandleSample(int executor_id, const v1::NodeSample& sample)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReplyKv(const std::vector<KvStore::Completion>& completions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReplyBarrier(const std::vector<BarrierSet::Completion>& completions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  SlotStatus StatusOf(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  FeedTarget::State TargetState(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether what follows the rows that `last` has acknowledged may be fed to `target`.
  bool MayResume(const PartitionReport& last, const FeedTarget& target) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  FeedTarget TargetOf(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CauseOfSlot(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The node that a partition of this feed goes to; -1, with the state to tell, if none reads, or
  // none is to have more now.
  int ChooseNode(const FeedSummary& feed, const v1::LookupRequest& request,
                 v1::LookupReply::State* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether this node's program reads the queue now.
  bool Reads(int executor_id, const std::string& queue) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void PlanMoves(absl::Duration now, const std::string& feed_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool Matches(NodeFilter filter, int executor_id) const;
  absl::Status CheckFed(int executor_id) const;
  // Waits until `done` returns a status or `timeout` passes (nullopt).
  std::optional<absl::Status> WaitFor(absl::Duration timeout,
                                      absl::FunctionRef<std::optional<absl::Status>()> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The first cause, or CANCELLED after Cancel() or Shutdown().
  std::optional<absl::Status> Interrupted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeTimerFor(absl::Duration deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Whether the end of an agent is told to the table later, since its stream may hold its last
  // words.
  bool HoldExit(const AgentExit& exit) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tells the table of the ends that are due, or whose stream has ended.
  void TellHeldExits(TableEffects* effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void RunTimer();

  const CoordinatorOptions options_;
  const std::vector<int> fed_nodes_;  // executor ids, ascending
  const v1::NodeSpec node_spec_;
  const CertificateAuthority* const ca_;
  const absl::Duration longest_sleep_;  // of the timer
  AttendedClock attended_;
  Clock* const clock_;  // attended_
  ViewStore* const view_;
  ClusterRecorder* const recorder_;
  const absl::Duration started_at_;  // steady
  ObserverQueue observer_;

  mutable Mutex mu_;
  CondVar changed_;  // a slot, the cause, endpoints, cancelled_, shut_down_
  CondVar timer_wake_;
  ReservationTable table_ ABSL_GUARDED_BY(mu_);
  KvStore kv_ ABSL_GUARDED_BY(mu_);
  BarrierSet barriers_ ABSL_GUARDED_BY(mu_);
  FeedLedger ledger_ ABSL_GUARDED_BY(mu_);
  FeedBalance balance_ ABSL_GUARDED_BY(mu_);
  FeedMoves moves_ ABSL_GUARDED_BY(mu_);
  FirstCause causes_ ABSL_GUARDED_BY(mu_);
  std::vector<Node> nodes_ ABSL_GUARDED_BY(mu_);  // by executor id
  absl::flat_hash_map<uint64_t, Stream> streams_ ABSL_GUARDED_BY(mu_);
  uint64_t next_stream_id_ ABSL_GUARDED_BY(mu_) = 1;
  std::vector<HeldExit> held_exits_ ABSL_GUARDED_BY(mu_);
  Streams to_flush_ ABSL_GUARDED_BY(mu_);  // have something queued; empty outside of Do()
  grpc::ByteBuffer whole_spec_ ABSL_GUARDED_BY(mu_);  // of whole_spec_epoch_
  uint64_t whole_spec_epoch_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<v1::FeedEnd> feed_ends_ ABSL_GUARDED_BY(mu_);  // the last ones
  std::vector<std::string> ended_queues_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string, std::less<>> feeder_keys_
      ABSL_GUARDED_BY(mu_);  // by principal
  std::map<OutputKey, Output> outputs_ ABSL_GUARDED_BY(mu_);
  bool output_abandoned_ ABSL_GUARDED_BY(mu_) = false;
  const std::shared_ptr<OutputGate> output_gate_ = std::make_shared<OutputGate>();
  bool all_ran_ ABSL_GUARDED_BY(mu_) = false;  // once true, for ever
  absl::Status cancelled_ ABSL_GUARDED_BY(mu_);
  absl::Status stop_request_ ABSL_GUARDED_BY(mu_);
  uint64_t recorded_epoch_ ABSL_GUARDED_BY(mu_) = 0;  // that readers know
  bool shut_down_ ABSL_GUARDED_BY(mu_) = false;
  absl::Duration timer_wakes_at_ ABSL_GUARDED_BY(mu_);  // steady
  Mutex join_mu_;
  Thread timer_;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_CONTROL_PLANE_H_
