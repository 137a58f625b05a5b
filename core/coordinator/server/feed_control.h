// File: core/coordinator/server/feed_control.h
//
// The control plane's part for feeders, those of the driver and others: where nodes are fed, which
// of them gets what, and the ledger of what became of it.
//
// Defines: FeedControl.

#ifndef CORE_COORDINATOR_SERVER_FEED_CONTROL_H_
#define CORE_COORDINATOR_SERVER_FEED_CONTROL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/balance/feed_balance.h"
#include "core/balance/feed_target.h"
#include "core/coordinator/journal/state_image.h"
#include "core/coordinator/server/control_state.h"
#include "core/coordinator/state/equal_feeds.h"
#include "core/coordinator/state/feed_ledger.h"
#include "core/coordinator/state/feed_moves.h"
#include "core/coordinator/state/saved_train.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/feed_gateway.pb.h"

namespace millrace {

// Thread safety: thread-safe. Blocking: WaitEqualCounts(), WaitFeed().
class FeedControl {
 public:
  explicit FeedControl(ControlState* state);  // not owned

  FeedControl(const FeedControl&) = delete;
  FeedControl& operator=(const FeedControl&) = delete;

  // ---- for the driver: as in coordinator.h ----
  const std::vector<int>& fed_nodes() const { return state_->fed_nodes; }
  absl::StatusOr<FeedTarget> Lookup(int executor_id) const;
  void FeedEnd(absl::string_view feed_id, bool aborted);
  void EndFeed(absl::string_view queue);
  absl::StatusOr<SavedTrain> BeginTrain(const TrainCall& call);
  void EndTrain(absl::string_view feed_id, const TrainOutcome& outcome);
  absl::Status OpenFeed(absl::string_view feed_id, absl::string_view queue, int64_t num_partitions);
  absl::Status ReportPartition(absl::string_view feed_id, const PartitionReport& report);
  void CloseFeed(absl::string_view feed_id);
  absl::StatusOr<FeedSummary> WaitFeed(absl::string_view feed_id, int64_t done, int64_t failed,
                                       absl::Duration timeout);
  // Calls `body` with the ledger, under the lock.
  void WithLedger(absl::FunctionRef<void(const FeedLedger&)> body) const;

  bool IsEqual(absl::string_view queue) const;
  std::map<int, int64_t> EqualRows(absl::string_view feed_id) const;
  // Blocks until every rank has said what it dropped and repeated, `timeout` at most: of a call
  // whose rows are all acknowledged they are about to. Empty if the call was not one of equal
  // ranks.
  // `*settled`, unless null: whether they have.
  std::vector<EqualCounts> WaitEqualCounts(absl::string_view feed_id, absl::Duration timeout,
                                           bool* settled);

  // ---- for nodes: ranks that get equally many batches (section 11 of docs/feed_protocol.md). The
  // reply goes to the stream. With the state's lock held.
  void JoinEqual(uint64_t stream_id, int executor_id, const v1::EqualJoin& request);
  void TellEqual(int executor_id, const v1::EqualRows& rows);

  // ---- for every feeder: as core/proto/feed_gateway.proto says ----
  absl::Status Announce(absl::string_view principal, absl::string_view curve_key);
  absl::Status LookupPartition(const v1::LookupRequest& request, v1::LookupReply* reply);
  absl::Status Cause(int executor_id, v1::CauseReply* reply) const;
  absl::Status Report(const v1::ReportRequest& request);
  absl::Status Pace(const v1::PaceRequest& request, v1::PaceReply* reply);

 private:
  absl::Status ReportLocked(absl::string_view feed_id, const PartitionReport& report)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // What another driver needs of a partition of a Train call. `before`: as it was known; nullopt if
  // it was not.
  void JournalPartition(absl::string_view feed_id, const std::optional<PartitionRecord>& before,
                        const PartitionRecord& now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // What the driver before knew of a feed that was just opened.
  void RestoreFeed(absl::string_view feed_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  absl::Status CheckFed(int executor_id) const;
  FeedTarget::State TargetState(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  FeedTarget TargetOf(int executor_id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // Whether this node's program reads the queue now.
  bool Reads(int executor_id, const std::string& queue) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // The node that a partition of this feed goes to; -1 if none reads, or none is to have more now:
  // then `*reply` says so.
  int ChooseNode(const FeedSummary& feed, const v1::LookupRequest& request, v1::LookupReply* reply)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // Whether what follows the rows that `last` has acknowledged may be fed to `target`.
  bool MayResume(const PartitionReport& last, const FeedTarget& target) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // Wakes those that wait for a feed, after its ledger, or what its ranks say, has changed.
  void FeedChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  void PlanMoves(absl::Duration now, const std::string& feed_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // The rank that is to have the next partition. A patient caller waits while rows still come to
  // it: then the answer is -1, and `*reply` says so.
  int ChooseRank(const FeedSummary& feed, const std::vector<FeedCandidate>& ranks, bool patient,
                 v1::LookupReply* reply) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);
  // Tells `equal` which ranks have all that they will be fed.
  void RefreshFed(absl::string_view feed_id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu);

  ControlState* const state_;
  // Train calls of the driver before, by queue, in order. They live in the journal.
  std::map<std::string, std::vector<const FeedImage*>> saved_trains_;       // constant
  std::map<std::string, size_t> trains_begun_ ABSL_GUARDED_BY(state_->mu);  // by this driver
  // Train calls under way that the journal has.
  std::set<std::string, std::less<>> journaled_ ABSL_GUARDED_BY(state_->mu);
  FeedLedger ledger_ ABSL_GUARDED_BY(state_->mu);
  FeedBalance balance_ ABSL_GUARDED_BY(state_->mu);
  FeedMoves moves_ ABSL_GUARDED_BY(state_->mu);
  int waits_ ABSL_GUARDED_BY(state_->mu) = 0;  // calls of WaitFeed() and WaitEqualCounts()
};

}  // namespace millrace

#endif  // CORE_COORDINATOR_SERVER_FEED_CONTROL_H_
