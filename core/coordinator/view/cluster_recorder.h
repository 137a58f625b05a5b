// File: core/coordinator/view/cluster_recorder.h
//
// Turns what the control plane does into what readers see: values in the ViewStore, events in it
// and in the event log.
//
// Defines: ClusterRecorder.

#ifndef CORE_COORDINATOR_VIEW_CLUSTER_RECORDER_H_
#define CORE_COORDINATOR_VIEW_CLUSTER_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/coordinator/state/coordinator_options.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/coordinator/view/event_log.h"
#include "core/coordinator/view/view_store.h"
#include "millrace/cluster_spec.h"
#include "millrace/cluster_status.h"

namespace millrace {

// Nothing blocks or calls out, so that everything may be called with a lock held. What is told of
// slots, failures and membership comes from one caller at a time, in order.
// Thread safety: thread-safe.
class ClusterRecorder {
 public:
  // Pointers are not owned; `log` may be null.
  ClusterRecorder(const CoordinatorOptions& options, ViewStore* view, EventLog* log);

  void Slot(const SlotStatus& slot);
  void Endpoints(int executor_id, uint32_t attempt,
                 const std::map<std::string, std::string>& endpoints);
  void AllRunning();
  // A failure that is fatal for the cluster. `cause_known`: it only follows on the first cause.
  void Failure(const NodeFailure& failure, bool cause_known);
  void FirstCause(const NodeFailure& cause, int folded);
  // A failure that is healed.
  void Restart(const NodeFailure& failure, absl::Duration after, int used, int max);
  void Quarantined(const std::vector<QuarantinedHost>& hosts);
  void Spec(const ClusterSpec& spec, uint64_t epoch);
  void SpecChange(const NodeRole& role, const std::string& address, uint32_t attempt,
                  uint64_t epoch);
  void Counters(uint64_t fenced_updates, uint64_t illegal_updates);
  // Somebody asked nodes to end.
  void Stopping(NodeFilter filter, absl::string_view reason, bool now);
  // By an operator.
  void StopRequested(absl::string_view reason, bool now);
  void RestartRequested(int executor_id, absl::string_view reason);
  void Ended();

  void FeedOpened(const FeedSummary& feed);
  void FeedChanged(const FeedSummary& feed);
  void NodeFed(int executor_id, const std::vector<QueueLedger>& queues);
  // `reason`: why a partition is fed again from row 0.
  void PartitionRefed(const FeedSummary& feed, int64_t partition, int executor_id,
                      absl::string_view reason);
  void FeedClosed(const FeedSummary& feed);
  void FeedRemoved(absl::string_view feed_id);

  // A caller was turned away: its token or what it asked for. Told at most kRefusals times a
  // minute; the rest is counted.
  void Refused(absl::string_view method, absl::string_view peer, const absl::Status& why);
  static constexpr int kRefusals = 10;

 private:
  void Tell(absl::string_view kind, v1::Event::Severity severity, int executor_id, uint32_t attempt,
            std::string text);
  void Tell(v1::Event event);
  void TellSlot(const SlotStatus& before, const SlotStatus& now);
  void SetPhase(v1::ClusterInfo::Phase phase);

  ViewStore* const view_;
  EventLog* const log_;
  Clock* const clock_;
  const int num_slots_;
  const std::vector<NodeRole> roles_;

  Mutex mu_;  // taken inside of the control plane's, around the view's
  v1::ClusterInfo::Phase phase_ ABSL_GUARDED_BY(mu_) = v1::ClusterInfo::PHASE_RESERVING;
  int ended_ ABSL_GUARDED_BY(mu_) = 0;  // slots in an ended state
  uint64_t fenced_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t illegal_ ABSL_GUARDED_BY(mu_) = 0;
  std::string stop_reason_ ABSL_GUARDED_BY(mu_);        // the last one told
  absl::Duration refusals_since_ ABSL_GUARDED_BY(mu_);  // steady
  int refusals_ ABSL_GUARDED_BY(mu_) = 0;               // since then
  uint64_t refusals_untold_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_VIEW_CLUSTER_RECORDER_H_
