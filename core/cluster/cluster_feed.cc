// How a cluster is fed: Train and EndFeed, and what every call that feeds has in common.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/cluster/cluster_arguments.h"
#include "core/cluster/cluster_impl.h"
#include "core/cluster/ledger_observer.h"
#include "feed/feeder/train_job.h"
#include "millrace/cluster.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// A node's ERROR often reaches the feeder before its exit reaches the coordinator, which knows
// more.
constexpr absl::Duration kCauseWait = absl::Milliseconds(300);
// What a node dropped reaches the coordinator another way than that it did.
constexpr absl::Duration kLastWords = absl::Seconds(5);
// So long after it was asked for, a call that waits for another one is stopped.
constexpr absl::Duration kStopLookInterval = absl::Milliseconds(100);

TrainOutcome ToOutcome(const absl::StatusOr<TrainResult>& result) {
  if (!result.ok()) return {.status = result.status()};
  return {.rows = result->rows,
          .rows_refed = result->rows_refed,
          .exactly_once = result->exactly_once,
          .terminated = result->terminated,
          .elapsed = result->elapsed};
}

absl::StatusOr<TrainResult> ToTrainResult(const TrainOutcome& outcome) {
  if (!outcome.status.ok()) return outcome.status;
  return TrainResult{.rows = outcome.rows,
                     .rows_refed = outcome.rows_refed,
                     .exactly_once = outcome.exactly_once,
                     .terminated = outcome.terminated,
                     .elapsed = outcome.elapsed};
}

}  // namespace

absl::Status Cluster::Impl::CheckQueue(absl::string_view queue) {
  if (options_.input_mode != InputMode::kFeed) {
    return absl::FailedPreconditionError(
        "this cluster is not fed: its nodes read their own data (InputMode DIRECT); run it with "
        "InputMode FEED");
  }
  if (std::find(options_.feed.queues.begin(), options_.feed.queues.end(), queue) ==
      options_.feed.queues.end()) {
    return absl::NotFoundError(absl::StrCat("there is no queue '", queue,
                                            "'; FeedOptions::queues has ",
                                            absl::StrJoin(options_.feed.queues, ", ")));
  }
  return absl::OkStatus();
}

absl::Status Cluster::Impl::CheckFeed(absl::string_view queue, absl::Duration feed_timeout,
                                      int64_t batch_bytes) {
  MILLRACE_RETURN_IF_ERROR(CheckQueue(queue));
  MILLRACE_RETURN_IF_ERROR(CheckDuration("feed_timeout", feed_timeout));
  if (batch_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch_bytes must be at least 1, found ", batch_bytes));
  }
  MutexLock lock(&mu_);
  return cancelled_;
}

// Waits for the calls before it on its queue.
absl::Status Cluster::Impl::BeginTraining(const TrainOptions& options) {
  while (true) {
    // Outside of the lock: its handlers take it.
    if (options.stop_request != nullptr) {
      MILLRACE_RETURN_IF_ERROR(options.stop_request->status());
    }
    MutexLock lock(&mu_);
    MILLRACE_RETURN_IF_ERROR(cancelled_);
    if (training_.count(options.queue) == 0) {
      if (ended_.count(options.queue) > 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("training on queue '", options.queue,
                         "' has ended (EndFeed, or end_of_feed of an earlier call)"));
      }
      training_.insert(options.queue);
      return absl::OkStatus();
    }
    changed_.WaitWithTimeout(&mu_, kStopLookInterval);
  }
}

absl::StatusOr<TrainResult> Cluster::Impl::Train(const PartitionedSource& source,
                                                 const TrainOptions& options) {
  MILLRACE_RETURN_IF_ERROR(CheckFeed(options.queue, options.feed_timeout, options.batch_bytes));
  if (options.num_epochs < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_epochs must be at least 1, found ", options.num_epochs));
  }
  MILLRACE_RETURN_IF_ERROR(BeginTraining(options));
  absl::StatusOr<TrainResult> result = RunTrainJob(source, options);
  if (result.ok() && options.end_of_feed) EndFeed(options.queue).IgnoreError();  // it was checked
  progress_.Clear();
  MutexLock lock(&mu_);
  training_.erase(options.queue);
  changed_.SignalAll();
  return result;
}

absl::StatusOr<TrainResult> Cluster::Impl::RunTrainJob(const PartitionedSource& source,
                                                       const TrainOptions& options) {
  MILLRACE_ASSIGN_OR_RETURN(const SavedTrain saved,
                            coordinator_->BeginTrain({.feed_id = RandomHex(8),
                                                      .queue = options.queue,
                                                      .partitions = source.num_partitions(),
                                                      .epochs = options.num_epochs,
                                                      .deterministic = source.deterministic()}));
  if (saved.outcome.has_value()) return ToTrainResult(*saved.outcome);
  absl::StatusOr<TrainResult> result = absl::AbortedError(
      "this Train call had failed, or was stopped, when the driver before was killed");
  if (!saved.aborted) result = FeedTrain(source, options, saved);
  coordinator_->EndTrain(saved.feed_id, ToOutcome(result));
  return result;
}

absl::StatusOr<TrainResult> Cluster::Impl::FeedTrain(const PartitionedSource& source,
                                                     const TrainOptions& options,
                                                     const SavedTrain& saved) {
  TrainJobOptions job_options;
  job_options.feed_id = saved.feed_id;
  job_options.queue = options.queue;
  job_options.num_epochs = options.num_epochs;
  job_options.feed_timeout = options.feed_timeout;
  job_options.batch_bytes = options.batch_bytes;
  job_options.resume = {.rounds = saved.rounds, .begun = {}, .done = saved.done};
  for (const auto& [partition, session] : saved.begun) {
    job_options.resume.begun[partition] = {.node = roles_[session.executor_id].ToString(),
                                           .node_attempt = session.node_attempt,
                                           .first_row = session.first_row,
                                           .refed_all = session.refed_all,
                                           .refed_from = session.refed_from};
  }
  LedgerObserver observer(coordinator_.get(), &progress_, job_options.feed_id,
                          source.num_partitions(), options.num_epochs);
  const auto job =
      std::make_shared<TrainJob>(feeder_.get(), directory_.get(), &source, &observer, job_options);
  TrainTally tally;
  const auto run = [&]() -> absl::Status {
    MILLRACE_RETURN_IF_ERROR(observer.Open(options.queue, saved.done));
    MILLRACE_ASSIGN_OR_RETURN(tally, job->Run());
    return absl::OkStatus();
  };
  Call call{.stop = options.stop_request};
  absl::Status status =
      BeginCall({.cancel = [job](const absl::Status& why) { job->Cancel(why); }, .end = nullptr},
                options.feed_timeout, &call);
  if (status.ok()) status = run();
  MILLRACE_RETURN_IF_ERROR(EndCall(&call, status));
  MILLRACE_ASSIGN_OR_RETURN(const FeedSummary ledger,
                            coordinator_->FeedSummaryOf(job_options.feed_id));
  TrainResult result{.rows = static_cast<int64_t>(ledger.rows_acked),
                     .rows_refed = static_cast<int64_t>(ledger.rows_refed),
                     .exactly_once = ledger.exactly_once && !tally.terminated,
                     .terminated = tally.terminated,
                     .elapsed = tally.elapsed};
  for (const EqualCounts& counts : coordinator_->WaitEqualCounts(job_options.feed_id, kLastWords)) {
    result.equal_nodes.push_back({.node = roles_[counts.executor_id].ToString(),
                                  .dropped_rows = counts.dropped,
                                  .repeated_rows = counts.repeated});
    result.dropped_rows += counts.dropped;
    result.repeated_rows += counts.repeated;
    result.exactly_once = result.exactly_once && counts.complete;
  }
  result.rows -= result.dropped_rows;
  result.exactly_once =
      result.exactly_once && result.dropped_rows == 0 && result.repeated_rows == 0;
  return result;
}

absl::Status Cluster::Impl::BeginCall(OpenCall open, absl::Duration feed_timeout, Call* call) {
  const Cancel cancel = open.cancel;
  {
    MutexLock lock(&mu_);
    if (!cancelled_.ok()) return cancelled_;
    call->id = next_call_++;
    calls_[call->id] = std::move(open);
  }
  if (call->stop != nullptr) {
    call->stop->Attach([this, call, cancel](const std::string& reason, bool /*now*/) {
      call->given_up = true;
      coordinator_->Wake();
      cancel(absl::CancelledError(reason));
    });
  }
  return coordinator_->WaitFedEndpoints(feed_timeout, &call->given_up);
}

absl::Status Cluster::Impl::EndCall(Call* call, absl::Status status) {
  if (call->id < 0) return status;  // it was refused
  if (call->stop != nullptr) {
    call->stop->Detach();
    if (absl::IsCancelled(status) && call->stop->requested()) status = call->stop->status();
  }
  status = Explain(status);
  MutexLock lock(&mu_);
  calls_.erase(call->id);
  changed_.SignalAll();
  return status;
}

void Cluster::Impl::CancelCalls(const absl::Status& status) {
  std::vector<Cancel> cancels;
  {
    MutexLock lock(&mu_);
    if (cancelled_.ok()) cancelled_ = status;
    for (const auto& [id, call] : calls_) cancels.push_back(call.cancel);
  }
  for (const Cancel& cancel : cancels) cancel(status);
}

absl::Status Cluster::Impl::Explain(const absl::Status& status) {
  if (status.ok()) return status;
  // Errors of time and of the caller's own making have no cause in a node's end.
  if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) return status;
  const absl::Status cause = coordinator_->WaitFailure(kCauseWait);
  return cause.ok() || absl::IsCancelled(cause) ? status : cause;
}

absl::Status Cluster::Impl::EndFeed(absl::string_view queue) {
  MILLRACE_RETURN_IF_ERROR(CheckQueue(queue));
  {
    MutexLock lock(&mu_);
    if (!cancelled_.ok()) return cancelled_;
    ended_.insert(std::string(queue));
  }
  coordinator_->EndFeed(queue);
  return absl::OkStatus();
}

}  // namespace millrace
