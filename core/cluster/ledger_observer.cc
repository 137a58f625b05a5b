#include "core/cluster/ledger_observer.h"

#include <algorithm>
#include <utility>

#include "core/base/log.h"

namespace millrace {
namespace {

PartitionState LedgerState(PartitionProgress::State state) {
  switch (state) {
    case PartitionProgress::State::kFeeding:
    case PartitionProgress::State::kRefeeding:
      return PartitionState::kFeeding;
    case PartitionProgress::State::kReceived:
      return PartitionState::kReceived;
    case PartitionProgress::State::kAcknowledged:
      return PartitionState::kDone;
    case PartitionProgress::State::kTerminated:
      return PartitionState::kPending;
    case PartitionProgress::State::kFailed:
      return PartitionState::kFailed;
  }
  return PartitionState::kFeeding;
}

FeederStages StagesOf(const FeederTimes& times) {
  const auto us = [](absl::Duration time) {
    return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Microseconds(time)));
  };
  return {.source_us = us(times.source),
          .encode_us = us(times.encode),
          .credit_us = us(times.credit),
          .wire_us = us(times.wire)};
}

}  // namespace

LedgerObserver::~LedgerObserver() { coordinator_->CloseFeed(feed_id_); }

absl::Status LedgerObserver::Open(absl::string_view queue, const std::map<int64_t, int64_t>& done) {
  if (progress_ != nullptr) progress_->FeedStarted();
  {
    MutexLock lock(&mu_);
    for (const auto& [partition, rows] : done) rows_ += rows;
    partitions_done_ = static_cast<int64_t>(done.size());
  }
  return coordinator_->OpenFeed(feed_id_, queue, num_partitions_ * num_epochs_);
}

void LedgerObserver::OnPartition(const PartitionProgress& report) {
  PartitionReport entry;
  entry.partition = report.data_epoch * num_partitions_ + report.partition;
  entry.state = LedgerState(report.state);
  entry.executor_id = report.executor_id;
  entry.first_row = static_cast<uint64_t>(report.first_row);
  entry.rows_received = static_cast<uint64_t>(report.received_rows);
  entry.rows_acked = static_cast<uint64_t>(report.acked_rows);
  entry.rows_returned = static_cast<uint64_t>(report.returned_rows);
  entry.stages = StagesOf(report.times);
  entry.node_attempt = report.node_attempt;
  if (report.refed_all > 0) {
    entry.refed_all = report.refed_all;
    entry.refed_from = static_cast<uint64_t>(report.refed_from);
    entry.refed_reason = report.reason;
  }
  const bool over = report.state == PartitionProgress::State::kTerminated ||
                    report.state == PartitionProgress::State::kFailed;
  {
    MutexLock lock(&mu_);
    const auto found = sessions_.find(entry.partition);
    if (report.state == PartitionProgress::State::kRefeeding) {
      // Still about the session that ended. The ledger counts from here down to where the next
      // one begins.
      entry.rows_received = static_cast<uint64_t>(report.next_row + report.rows_refed);
      Session& session = found != sessions_.end() ? found->second : sessions_[entry.partition];
      entry.feeder_attempt = session.count;
      session.next = true;
      session.refed_reason = report.rows_refed > 0 ? report.reason : "";
    } else if (found != sessions_.end()) {
      Session& session = found->second;
      // Rows of a session that is over will not be sent again after all.
      if (!over && std::exchange(session.next, false)) {
        ++session.count;
        entry.refed_reason = std::exchange(session.refed_reason, "");
      }
      entry.feeder_attempt = session.count;
    }
  }
  const absl::Status written = coordinator_->ReportPartition(feed_id_, entry);
  if (!written.ok()) MILLRACE_LOG(WARNING) << "the ledger did not take a partition: " << written;

  if (report.state != PartitionProgress::State::kAcknowledged || progress_ == nullptr) return;
  int64_t rows = 0;
  int64_t done = 0;
  {
    MutexLock lock(&mu_);
    rows = rows_ += report.acked_rows;
    done = ++partitions_done_;
  }
  progress_->OnFeed(rows, done, num_partitions_ * num_epochs_);
}

absl::Status LedgerObserver::FeedEnd(const std::string& feed_id, bool aborted) {
  coordinator_->FeedEnd(feed_id, aborted);
  return absl::OkStatus();
}

}  // namespace millrace
