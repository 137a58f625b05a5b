// File: core/coordinator/server/control_state.h
//
// What the parts of the control plane (control_plane.h) share: the slots, the agents' streams, the
// kv store, barriers, and the first cause, behind one lock.
//
// Defines: ControlState.
//
// How a call works: take the lock; let the pure state machines say what follows; queue messages on
// streams and post to the observer, neither of which calls out; release the lock; write. So
// messages of one stream are in the order of the decisions, and nothing foreign runs under the
// lock. Do() is these steps.

#ifndef CORE_COORDINATOR_SERVER_CONTROL_STATE_H_
#define CORE_COORDINATOR_SERVER_CONTROL_STATE_H_

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
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/attended_clock.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/coordinator/state/barrier_set.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/equal_feeds.h"
#include "core/coordinator/state/first_cause.h"
#include "core/coordinator/state/kv_store.h"
#include "core/coordinator/state/reservation_table.h"
#include "core/coordinator/stream/attach_stream.h"
#include "core/coordinator/view/cluster_recorder.h"
#include "core/coordinator/view/observer_queue.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/spec_proto.h"
#include "core/proto/state.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "millrace/cluster_status.h"

namespace millrace {

// Open to the parts of the control plane, and to nobody else. Thread safety: what is guarded by
// `mu` needs it; the rest is constant or thread-safe. Blocking: WaitFor().
struct ControlState {
  // What is kept of a node besides its slot. Belongs to one attempt.
  struct Node {
    uint32_t attempt = 0;
    std::optional<v1::FeedEndpoint> feed;
    std::map<std::string, std::string> other;
    // The last few of each. No deques: an empty one takes 600 bytes, of each of 100,000 nodes.
    std::vector<std::pair<uint64_t, v1::KvReply>> adds;  // answers, for repeated requests
    std::vector<uint64_t> passed;          // request ids of the barriers that it has passed
    std::vector<std::string> done_queues;  // that its program reads no more, as its samples say
  };
  struct Stream {
    std::shared_ptr<AttachStream> stream;
    int executor_id = 0;
    bool registered = false;  // Registered was queued: other messages may follow
    SpecFormat format = SpecFormat::kClusterDef;  // that its agent takes
    std::vector<grpc::ByteBuffer> early;  // that do, decided on before: while its key was signed
  };
  using Streams = std::vector<std::shared_ptr<AttachStream>>;

  // `options` are valid; pointers are not owned. `journal`: null if nobody takes the cluster over.
  ControlState(const CoordinatorOptions& options, ClusterRecorder* recorder, StateJournal* journal);

  ControlState(const ControlState&) = delete;
  ControlState& operator=(const ControlState&) = delete;

  // Goes on where the driver before left off, by what is in the journal. Before anything else.
  void Restore() ABSL_LOCKS_EXCLUDED(mu);
  // Runs `body` under the lock, carries out the effects, writes the journal, then the streams: what
  // is told outlives this process. That slots were asked to stop readers see at last, so that no
  // node waits for them.
  void Do(absl::FunctionRef<void(TableEffects*)> body) ABSL_LOCKS_EXCLUDED(mu);
  // Asks nodes to end, now: kills them.
  void StopNodes(NodeFilter filter, absl::string_view reason, bool now) ABSL_LOCKS_EXCLUDED(mu);

  // ---- messages; a stream that is gone hears nothing ----
  void Send(uint64_t stream_id, const v1::CoordinatorMessage& message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void SendToFed(const v1::CoordinatorMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // What a fed node that begins has missed.
  void SendFeedState(uint64_t stream_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void ReplyKv(const std::vector<KvStore::Completion>& completions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void ReplyBarrier(const std::vector<BarrierSet::Completion>& completions)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // What `equal` has to tell.
  void SendEqualGrants() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void DropStream(uint64_t stream_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // ---- reading; the slot must exist ----
  // Of the present attempt.
  Node& NodeOf(int executor_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  SlotStatus StatusOf(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  absl::Status CauseOfSlot(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  [[nodiscard]] bool Matches(NodeFilter filter, int executor_id) const;

  // ---- waiting ----
  // Waits until `done` returns a status or `timeout` passes (nullopt).
  std::optional<absl::Status> WaitFor(absl::Duration timeout,
                                      absl::FunctionRef<std::optional<absl::Status>()> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The first cause, or CANCELLED after Cancel() or Shutdown().
  std::optional<absl::Status> Interrupted() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // ---- the journal; nothing happens where there is none ----
  // To be written before anything is told of it.
  void Journal(v1::StateRecord record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // `value` null: the key is gone.
  void JournalKv(const std::string& key, const std::string* value)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void JournalCancel(absl::string_view reason, bool by_operator) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Lets go of the cluster: agents look for another driver, and waits return `why`. Once.
  void Fence(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // The timer looks no later than then.
  void WakeTimerFor(absl::Duration deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  const CoordinatorOptions options;
  const std::vector<int> fed_nodes;    // executor ids, ascending
  const absl::Duration longest_sleep;  // of the timer
  AttendedClock attended;
  Clock* const clock;  // attended
  ClusterRecorder* const recorder;
  StateJournal* const journal;      // may be null
  const absl::Duration started_at;  // steady
  ObserverQueue observer;

  mutable Mutex mu;
  CondVar changed;  // a slot, the cause, endpoints, a feed, cancelled, shut_down
  CondVar timer_wake;
  ReservationTable table ABSL_GUARDED_BY(mu);
  KvStore kv ABSL_GUARDED_BY(mu);
  BarrierSet barriers ABSL_GUARDED_BY(mu);
  EqualFeeds equal ABSL_GUARDED_BY(mu);
  FirstCause causes ABSL_GUARDED_BY(mu);
  std::vector<Node> nodes ABSL_GUARDED_BY(mu);             // by executor id
  std::vector<std::string> places ABSL_GUARDED_BY(mu);     // of their agents, as launchers say
  std::map<uint64_t, Stream> streams ABSL_GUARDED_BY(mu);  // by id, the order of what all are sent
  uint64_t next_stream_id ABSL_GUARDED_BY(mu) = 1;
  Streams to_flush ABSL_GUARDED_BY(mu);  // have something queued; empty outside of Do()
  std::deque<v1::FeedEnd> feed_ends ABSL_GUARDED_BY(mu);  // the last ones
  std::vector<std::string> ended_queues ABSL_GUARDED_BY(mu);
  std::map<std::string, std::string, std::less<>> feeder_keys ABSL_GUARDED_BY(mu);  // by principal
  bool all_ran ABSL_GUARDED_BY(mu) = false;  // once true, for ever
  bool killed ABSL_GUARDED_BY(mu) = false;   // all nodes at once: their output is not waited for
  absl::Status cancelled ABSL_GUARDED_BY(mu);
  absl::Status stop_request ABSL_GUARDED_BY(mu);
  bool shut_down ABSL_GUARDED_BY(mu) = false;
  // Not OK: another driver has the cluster now, or may have it. This one decides nothing any more.
  absl::Status fenced ABSL_GUARDED_BY(mu);
  absl::Duration timer_wakes_at ABSL_GUARDED_BY(mu);  // steady
  uint64_t specs_encoded ABSL_GUARDED_BY(mu) = 0;     // whole ones, since the start

 private:
  void WriteJournal(const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Perform(TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // The same words to many are the same bytes: said once to a host.
  void PerformStops(const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void PerformSlots(const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // For readers and the observer.
  void ShowSlot(int executor_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // A fed node's process has ended.
  void EndEqual(int executor_id, const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void SendEqualGrant(uint64_t stream_id, const EqualGrant& grant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void PerformSpec(const TableEffects& effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  void SendBytes(uint64_t stream_id, const grpc::ByteBuffer& bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  const grpc::ByteBuffer& WholeSpec(SpecFormat format) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  struct EncodedSpec {
    uint64_t epoch = 0;
    grpc::ByteBuffer bytes;
  };
  std::map<SpecFormat, EncodedSpec> whole_specs_ ABSL_GUARDED_BY(mu);  // the last of each format
  uint64_t recorded_epoch_ ABSL_GUARDED_BY(mu) = 0;                    // that readers know

  std::vector<int> to_show_ ABSL_GUARDED_BY(mu);   // slots; empty outside of Do()
  std::vector<bool> unshown_ ABSL_GUARDED_BY(mu);  // by executor id: not shown since it was asked
  std::vector<v1::StateRecord> to_journal_ ABSL_GUARDED_BY(mu);     // empty outside of Do()
  std::map<int, std::string> journaled_slots_ ABSL_GUARDED_BY(mu);  // serialised, by executor id
  uint64_t journaled_epoch_ ABSL_GUARDED_BY(mu) = 0;
};

// The reply to a kv request of a node or an operator.
[[nodiscard]] v1::KvReply ToKvReply(uint64_t request_id, const absl::StatusOr<std::string>& result);

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_CONTROL_STATE_H_
