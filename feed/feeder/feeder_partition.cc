#include "feed/feeder/feeder_partition.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "millrace/status_macros.h"

namespace millrace {

absl::Status FeederPartition::SourceError(const absl::Status& status) const {
  return Annotate(status, absl::StrCat("the source, partition ", partition_, ", epoch ",
                                       data_epoch_, ", after row ", read_row_));
}

void SourceCancel::Cancel() {
  std::shared_ptr<RecordBatchReader> reader;
  {
    MutexLock lock(&mu_);
    cancelled_ = true;
    reader = reader_;
  }
  if (reader != nullptr) reader->Cancel();
}

// What was read is forgotten.
absl::Status FeederPartition::Open() {
  const bool in_use = std::exchange(reading_, false);
  std::shared_ptr<RecordBatchReader> last = std::exchange(reader_, nullptr);
  read_error_ = absl::OkStatus();
  DropAll();
  read_row_ = 0;
  mu_.Unlock();
  if (in_use) last->Cancel();
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> opened =
      source_->Open(partition_, data_epoch_);
  absl::Status status = opened.status();
  std::shared_ptr<RecordBatchReader> reader;
  if (opened.ok()) {
    reader = *std::move(opened);
    MutexLock lock(&cancel_->mu_);
    cancel_->reader_ = reader;
    if (cancel_->cancelled_) status = absl::CancelledError("no more rows are wanted");
  }
  last.reset();
  mu_.Lock();
  reader_ = std::move(reader);
  return status.ok() ? status : SourceError(status);
}

absl::Status FeederPartition::Seek(int64_t row) {
  MutexLock lock(&mu_);
  const bool kept = keep_ != nullptr && reader_ != nullptr && row <= read_row_ &&
                    (row == read_row_ || (!kept_.empty() && kept_.front().first_row <= row));
  if (!kept) MILLRACE_RETURN_IF_ERROR(Open());
  position_ = row;
  while (read_row_ < row) {
    ReleaseLocked(read_row_);
    MILLRACE_ASSIGN_OR_RETURN(const bool more, Read());
    if (!more) {
      return absl::DataLossError(absl::StrCat("the source, partition ", partition_, ", epoch ",
                                              data_epoch_, ", has ", read_row_,
                                              " rows where it had ", row, " or more before"));
    }
  }
  return absl::OkStatus();
}

bool FeederPartition::TakeOver() {
  MutexLock lock(&mu_);
  if (!waiting_) return false;
  waiting_ = false;
  ++turn_;
  read_.SignalAll();
  return true;
}

absl::StatusOr<bool> FeederPartition::Read() {
  const int64_t turn = turn_;
  const int64_t had = read_row_;
  while (read_row_ == had) {
    MILLRACE_RETURN_IF_ERROR(read_error_);
    bool more = true;
    waiting_ = true;
    if (reading_) {
      read_.Wait(&mu_);
    } else {
      more = ReadOnce();
    }
    if (turn != turn_) return absl::AbortedError("another thread goes on with the partition");
    waiting_ = false;
    if (!more) return false;
  }
  return true;
}

bool FeederPartition::ReadOnce() {
  std::shared_ptr<RecordBatchReader> reader = reader_;
  reading_ = true;
  mu_.Unlock();
  const absl::StatusOr<std::optional<RecordBatch>> batch = reader->Next();
  std::vector<RecordBatch> pieces;
  if (batch.ok() && batch->has_value()) pieces = SliceBySize(**batch, target_bytes_);
  mu_.Lock();
  if (reader != reader_) {  // the source was opened again meanwhile
    mu_.Unlock();
    reader.reset();
    mu_.Lock();
    return true;
  }
  reading_ = false;
  read_.SignalAll();
  if (!batch.ok()) {
    read_error_ = SourceError(batch.status());
    return true;
  }
  if (!batch->has_value()) return false;
  Keep(std::move(pieces));
  return true;
}

void FeederPartition::Keep(std::vector<RecordBatch> pieces) {
  for (RecordBatch& piece : pieces) {
    const int64_t rows = piece.num_rows();
    const int64_t bytes = keep_ == nullptr ? 0 : piece.byte_size();
    kept_.push_back({read_row_, std::move(piece), bytes});
    if (keep_ != nullptr) keep_->bytes_.fetch_add(bytes, std::memory_order_relaxed);
    read_row_ += rows;
  }
  // What Next() has returned can be read again.
  while (keep_ != nullptr && keep_->bytes() > keep_->limit_ && !kept_.empty() &&
         kept_.front().first_row + kept_.front().rows.num_rows() <= position_) {
    DropFirst();
  }
}

absl::StatusOr<std::optional<RecordBatch>> FeederPartition::Next() {
  MutexLock lock(&mu_);
  if (keep_ == nullptr) ReleaseLocked(position_);
  if (position_ == read_row_) {
    MILLRACE_ASSIGN_OR_RETURN(const bool more, Read());
    if (!more) return std::optional<RecordBatch>();
  }
  for (const Piece& piece : kept_) {
    const int64_t offset = position_ - piece.first_row;
    const int64_t rows = piece.rows.num_rows() - offset;
    if (rows <= 0) continue;
    position_ += rows;
    return std::optional<RecordBatch>(offset == 0 ? piece.rows : piece.rows.Slice(offset, rows));
  }
  return absl::InternalError("a position outside of the rows that were read");
}

void FeederPartition::Release(int64_t row) {
  MutexLock lock(&mu_);
  ReleaseLocked(row);
}

void FeederPartition::ReleaseLocked(int64_t row) {
  while (!kept_.empty() && kept_.front().first_row + kept_.front().rows.num_rows() <= row) {
    DropFirst();
  }
}

void FeederPartition::DropFirst() {
  if (keep_ != nullptr) keep_->bytes_.fetch_sub(kept_.front().bytes, std::memory_order_relaxed);
  kept_.pop_front();
}

void FeederPartition::DropAll() {
  while (!kept_.empty()) DropFirst();
}

}  // namespace millrace
