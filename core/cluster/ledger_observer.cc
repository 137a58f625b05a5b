#include "core/cluster/ledger_observer.h"

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
  }
  return PartitionState::kFeeding;
}

}  // namespace

LedgerObserver::~LedgerObserver() { coordinator_->CloseFeed(feed_id_); }

absl::Status LedgerObserver::Open(absl::string_view queue) {
  progress_->FeedStarted();
  return coordinator_->OpenFeed(feed_id_, queue, num_partitions_ * num_epochs_);
}

void LedgerObserver::OnPartition(const PartitionProgress& report) {
  PartitionReport entry;
  entry.partition = report.data_epoch * num_partitions_ + report.partition;
  entry.state = LedgerState(report.state);
  entry.executor_id = report.executor_id;
  entry.rows_received = static_cast<uint64_t>(report.received_rows);
  entry.rows_acked = static_cast<uint64_t>(report.acked_rows);
  entry.refed_reason = report.reason;
  const absl::Status written = coordinator_->ReportPartition(feed_id_, entry);
  if (!written.ok()) MILLRACE_LOG(WARNING) << "the ledger did not take a partition: " << written;

  if (report.state != PartitionProgress::State::kAcknowledged) return;
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
