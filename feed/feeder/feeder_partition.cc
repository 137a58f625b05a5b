#include "feed/feeder/feeder_partition.h"

#include <utility>

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

absl::Status FeederPartition::Open() {
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader =
      source_->Open(partition_, data_epoch_);
  if (!reader.ok()) return SourceError(reader.status());
  reader_ = *std::move(reader);
  MutexLock lock(&cancel_->mu_);
  cancel_->reader_ = reader_;
  if (cancel_->cancelled_) return SourceError(absl::CancelledError("no more rows are wanted"));
  return absl::OkStatus();
}

absl::Status FeederPartition::Seek(int64_t row) {
  const bool kept = keep_ != nullptr && reader_ != nullptr && row <= read_row_ &&
                    (row == read_row_ || (!kept_.empty() && kept_.front().first_row <= row));
  if (!kept) {
    DropAll();
    read_row_ = 0;
    MILLRACE_RETURN_IF_ERROR(Open());
  }
  position_ = row;
  while (read_row_ < row) {
    Release(read_row_);
    MILLRACE_ASSIGN_OR_RETURN(const bool more, Read());
    if (!more) {
      return absl::DataLossError(absl::StrCat("the source, partition ", partition_, ", epoch ",
                                              data_epoch_, ", has ", read_row_,
                                              " rows where it had ", row, " or more before"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FeederPartition::Read() {
  while (true) {
    absl::StatusOr<std::optional<RecordBatch>> batch = reader_->Next();
    if (!batch.ok()) return SourceError(batch.status());
    if (!batch->has_value()) return false;
    for (RecordBatch& piece : SliceBySize(**batch, target_bytes_)) {
      const int64_t rows = piece.num_rows();
      const int64_t bytes = keep_ == nullptr ? 0 : piece.byte_size();
      kept_.push_back({read_row_, std::move(piece), bytes});
      if (keep_ != nullptr) keep_->bytes_.fetch_add(bytes, std::memory_order_relaxed);
      read_row_ += rows;
    }
    // What Next() has returned can be read again.
    while (keep_ != nullptr && keep_->bytes() > keep_->limit_ &&
           kept_.front().first_row + kept_.front().rows.num_rows() <= position_) {
      DropFirst();
    }
    if (!(*batch)->empty()) return true;
  }
}

absl::StatusOr<std::optional<RecordBatch>> FeederPartition::Next() {
  if (keep_ == nullptr) Release(position_);
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
