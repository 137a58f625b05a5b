// The part of FeedControl that another driver can go on with: Train calls in the journal.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/coordinator/journal/state_image.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/coordinator/server/feed_control.h"
#include "core/coordinator/state/saved_train.h"
#include "core/coordinator/view/wire_conversion.h"
#include "core/proto/state.pb.h"

namespace millrace {
namespace {

std::string DataText(const v1::FeedRecord& feed) {
  return absl::StrCat(feed.partitions(), " partitions in ", feed.epochs(),
                      feed.epochs() == 1 ? " epoch" : " epochs", " of a source that is ",
                      feed.deterministic() ? "" : "not ", "deterministic");
}

v1::FeedRecord ToFeedRecord(const TrainCall& call) {
  v1::FeedRecord feed;
  feed.set_feed_id(call.feed_id);
  feed.set_queue(call.queue);
  feed.set_partitions(call.partitions);
  feed.set_epochs(call.epochs);
  feed.set_deterministic(call.deterministic);
  return feed;
}

SavedTrain ToSavedTrain(const FeedImage& image) {
  SavedTrain saved{.feed_id = image.feed.feed_id(),
                   .rounds = image.feed.rounds(),
                   .aborted = image.feed.aborted()};
  for (const auto& [partition, session] : image.begun) {
    saved.begun[partition] = {.executor_id = session.executor_id(),
                              .node_attempt = session.node_attempt(),
                              .first_row = session.first_row(),
                              .refed_all = session.refed_all(),
                              .refed_from = session.refed_from()};
  }
  for (const auto& [partition, done] : image.done) saved.done[partition] = done.rows();
  if (!image.result.has_value()) return saved;
  const v1::ResultRecord& result = *image.result;
  saved.outcome = {.status = result.has_error() ? FromErrorProto(result.error()) : absl::OkStatus(),
                   .rows = result.rows(),
                   .rows_refed = result.rows_refed(),
                   .exactly_once = result.exactly_once(),
                   .terminated = result.terminated(),
                   .elapsed = absl::Milliseconds(result.elapsed_ms())};
  return saved;
}

}  // namespace

FeedControl::FeedControl(ControlState* state) : state_(state) {
  if (state_->journal == nullptr) return;
  for (const FeedImage& feed : state_->journal->restored().feeds()) {
    saved_trains_[feed.feed.queue()].push_back(&feed);
  }
}

absl::StatusOr<SavedTrain> FeedControl::BeginTrain(const TrainCall& call) {
  if (state_->journal == nullptr) return SavedTrain{.feed_id = call.feed_id};
  absl::StatusOr<SavedTrain> saved = SavedTrain{.feed_id = call.feed_id};
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    size_t& begun = trains_begun_[call.queue];
    const v1::FeedRecord record = ToFeedRecord(call);
    const auto known = saved_trains_.find(call.queue);
    if (known != saved_trains_.end() && begun < known->second.size()) {
      const FeedImage& image = *known->second[begun];
      if (image.feed.partitions() != call.partitions || image.feed.epochs() != call.epochs ||
          image.feed.deterministic() != call.deterministic) {
        saved = absl::FailedPreconditionError(absl::StrCat(
            "Train call ", begun + 1, " on queue '", call.queue, "' had ", DataText(image.feed),
            " under the driver before, and has ", DataText(record),
            " now: a driver that takes a cluster over makes the same calls, in the same order"));
        return;
      }
      saved = ToSavedTrain(image);
    } else {
      v1::StateRecord journaled;
      *journaled.mutable_feed() = record;
      state_->Journal(std::move(journaled));
    }
    ++begun;
    if (!saved->outcome.has_value()) journaled_.insert(saved->feed_id);
  });
  return saved;
}

void FeedControl::EndTrain(absl::string_view feed_id, const TrainOutcome& outcome) {
  state_->Do([&](TableEffects* /*effects*/) ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_->mu) {
    const auto known = journaled_.find(feed_id);
    if (known == journaled_.end()) return;
    journaled_.erase(known);
    v1::StateRecord record;
    v1::ResultRecord& result = *record.mutable_result();
    result.set_feed_id(std::string(feed_id));
    if (!outcome.status.ok()) *result.mutable_error() = ToErrorProto(outcome.status);
    result.set_rows(outcome.rows);
    result.set_rows_refed(outcome.rows_refed);
    result.set_exactly_once(outcome.exactly_once);
    result.set_terminated(outcome.terminated);
    result.set_elapsed_ms(absl::ToInt64Milliseconds(outcome.elapsed));
    state_->Journal(std::move(record));
  });
}

void FeedControl::JournalPartition(absl::string_view feed_id,
                                   const std::optional<PartitionRecord>& before,
                                   const PartitionRecord& now) {
  const PartitionReport& last = now.last;
  v1::StateRecord record;
  if (last.state == PartitionState::kDone) {
    v1::DoneRecord& done = *record.mutable_done();
    done.set_feed_id(std::string(feed_id));
    done.set_partition(last.partition);
    done.set_executor_id(last.executor_id);
    done.set_node_attempt(last.node_attempt);
    done.set_rows(static_cast<int64_t>(last.rows_acked));
    done.set_refed(static_cast<int64_t>(now.rows_refed));
  } else if (last.state == PartitionState::kFeeding) {
    // Of a session all reports are alike, but its first.
    if (before.has_value() && before->last.state != PartitionState::kPending &&
        before->sessions == now.sessions && before->last.executor_id == last.executor_id &&
        before->last.node_attempt == last.node_attempt && before->refed_all == now.refed_all) {
      return;
    }
    v1::SessionRecord& session = *record.mutable_session();
    session.set_feed_id(std::string(feed_id));
    session.set_partition(last.partition);
    session.set_executor_id(last.executor_id);
    session.set_node_attempt(last.node_attempt);
    session.set_first_row(static_cast<int64_t>(last.first_row));
    session.set_refed(static_cast<int64_t>(now.rows_refed));
    session.set_refed_all(now.refed_all);
    session.set_refed_from(static_cast<int64_t>(now.refed_from));
  } else {
    return;
  }
  state_->Journal(std::move(record));
}

void FeedControl::RestoreFeed(absl::string_view feed_id) {
  const FeedImage* image = nullptr;
  for (const auto& [queue, feeds] : saved_trains_) {
    for (const FeedImage* feed : feeds) {
      if (feed->feed.feed_id() == feed_id) image = feed;
    }
  }
  if (image == nullptr) return;
  for (const auto& [partition, session] : image->begun) {
    ledger_.Restore(feed_id, {.last = {.partition = partition, .state = PartitionState::kPending},
                              .rows_refed = static_cast<uint64_t>(session.refed()),
                              .refed_all = session.refed_all(),
                              .refed_from = static_cast<uint64_t>(session.refed_from())});
  }
  for (const auto& [partition, done] : image->done) {
    const auto rows = static_cast<uint64_t>(done.rows());
    ledger_.Restore(feed_id, {.last = {.partition = partition,
                                       .state = PartitionState::kDone,
                                       .executor_id = done.executor_id(),
                                       .node_attempt = done.node_attempt(),
                                       .rows_received = rows,
                                       .rows_acked = rows},
                              .rows_refed = static_cast<uint64_t>(done.refed())});
  }
}

}  // namespace millrace
