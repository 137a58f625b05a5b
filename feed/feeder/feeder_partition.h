// File: feed/feeder/feeder_partition.h
//
// The rows of one partition in batches of the size that a feed sends, with the memory to send some
// of them again. Internal to feed/feeder/train_job.h and feed/feeder/inference_job.h.
//
// Defines: FeederPartition, KeepBudget, SourceCancel.
//
//   KeepBudget keep(int64_t{256} << 20);
//   FeederPartition rows(source, /*partition=*/3, /*data_epoch=*/0, 1 << 20, &keep);
//   MILLRACE_RETURN_IF_ERROR(rows.Seek(0));
//   while (true) {
//     MILLRACE_ASSIGN_OR_RETURN(std::optional<RecordBatch> batch, rows.Next());
//     if (!batch.has_value()) break;                    // the partition has rows.position() rows
//     ...
//     rows.Release(acknowledged);
//   }
//   MILLRACE_RETURN_IF_ERROR(rows.Seek(acknowledged));  // the node is lost: from there again
//
// A thread that waits inside the source cannot be called back. Another one can go on in its place:
//
//   if (rows.TakeOver()) {  // the other thread's Next() returns ABORTED once the source lets it
//     MILLRACE_RETURN_IF_ERROR(rows.Seek(acknowledged));
//     ... rows.Next() ...   // what was read, and then what the other thread brings
//   }

#ifndef FEED_FEEDER_FEEDER_PARTITION_H_
#define FEED_FEEDER_FEEDER_PARTITION_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {

// Ends a FeederPartition's waits for its source, now and later: they return CANCELLED, as soon as
// the source's reader lets them. Thread safety: thread-safe. Blocking: no.
class SourceCancel {
 public:
  void Cancel();

 private:
  friend class FeederPartition;

  Mutex mu_;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
  std::shared_ptr<RecordBatchReader> reader_ ABSL_GUARDED_BY(mu_);
};

// What the FeederPartitions of a feed keep of their rows, all of them together. Thread safety:
// thread-safe.
class KeepBudget {
 public:
  explicit KeepBudget(int64_t bytes) : limit_(bytes) {}
  [[nodiscard]] int64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  friend class FeederPartition;

  const int64_t limit_;
  std::atomic<int64_t> bytes_{0};
};

// Thread safety: Seek() and Next() are for the thread that holds it, one at a time; the others for
// any thread. Blocking: Seek() and Next(), as the source does.
class FeederPartition {
 public:
  // `source` and `keep` outlive this. Unless `keep` is nullptr, batches stay referred to (not
  // copied) until Release(), so that Seek() needs not read the source again, as far as `keep` has
  // room for them: beyond it the oldest ones go.
  FeederPartition(const PartitionedSource* source, int partition, int64_t data_epoch,
                  int64_t target_bytes, KeepBudget* keep)
      : source_(source),
        partition_(partition),
        data_epoch_(data_epoch),
        target_bytes_(target_bytes),
        keep_(keep) {}
  ~FeederPartition() {
    MutexLock lock(&mu_);
    DropAll();
  }
  FeederPartition(const FeederPartition&) = delete;
  FeederPartition& operator=(const FeederPartition&) = delete;

  // The next Next() begins at `row`. Opens the source again, and skips what is before `row`, if
  // that row is not kept; a reader in which a thread still waits is cancelled then. Errors of the
  // source, and DATA_LOSS if it has fewer rows now.
  [[nodiscard]] absl::Status Seek(int64_t row);

  // The next rows; never an empty batch; nullopt at the end. Requires Seek(). Errors of the source.
  [[nodiscard]] absl::StatusOr<std::optional<RecordBatch>> Next();

  // True if the thread that holds this waits in Next() or Seek() for a row: the call returns
  // ABORTED, as soon as the source's reader lets it, and that thread holds this no more. Another
  // one may call Seek() at once, and is given what that reader yields.
  [[nodiscard]] bool TakeOver();

  // The reader that Seek() has opened, for those who would cancel it; nullptr before.
  [[nodiscard]] std::shared_ptr<RecordBatchReader> reader() const {
    MutexLock lock(&mu_);
    return reader_;
  }

  // Rows before `row` will not be asked for again.
  void Release(int64_t row);

  // May outlive this.
  [[nodiscard]] const std::shared_ptr<SourceCancel>& cancel() const { return cancel_; }

  // The row that Next() begins at.
  [[nodiscard]] int64_t position() const {
    MutexLock lock(&mu_);
    return position_;
  }

 private:
  struct Piece {
    int64_t first_row;
    RecordBatch rows;
    int64_t bytes;  // of keep_
  };
  // Reads the source, or waits for the thread that does, until `kept_` has a piece at its end that
  // was not there before; false at the end. Lets go of mu_ meanwhile, as the next two do.
  absl::StatusOr<bool> Read() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // One call of the reader. False at the end.
  bool ReadOnce() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Open() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Keep(std::vector<RecordBatch> pieces) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReleaseLocked(int64_t row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status SourceError(const absl::Status& status) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const PartitionedSource* const source_;
  const int partition_;
  const int64_t data_epoch_;
  const int64_t target_bytes_;
  KeepBudget* const keep_;  // nullptr: nothing is kept

  const std::shared_ptr<SourceCancel> cancel_ = std::make_shared<SourceCancel>();
  mutable Mutex mu_;
  CondVar read_;                               // a call of reader_ is over, or turn_ has changed
  int64_t turn_ ABSL_GUARDED_BY(mu_) = 0;      // calls of TakeOver() that returned true
  bool waiting_ ABSL_GUARDED_BY(mu_) = false;  // the thread that holds this is in Read()
  bool reading_ ABSL_GUARDED_BY(mu_) = false;  // a thread is inside reader_
  std::shared_ptr<RecordBatchReader> reader_ ABSL_GUARDED_BY(mu_);  // shared with cancel_
  absl::Status read_error_ ABSL_GUARDED_BY(mu_);                    // of reader_
  int64_t read_row_ ABSL_GUARDED_BY(mu_) = 0;    // rows before it were read from reader_
  std::deque<Piece> kept_ ABSL_GUARDED_BY(mu_);  // consecutive; the last ends at read_row_
  int64_t position_ ABSL_GUARDED_BY(mu_) = 0;    // within kept_, or read_row_
};

}  // namespace millrace

#endif  // FEED_FEEDER_FEEDER_PARTITION_H_
