// File: testing/faults/rows.h
//
// Rows to feed: one int64 column, "id", that counts.
//
// Defines: MakeRows(), RowSource(), EndlessSource.

#ifndef TESTING_FAULTS_ROWS_H_
#define TESTING_FAULTS_ROWS_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace::faults {

// Ids [first, first + rows).
[[nodiscard]] RecordBatch MakeRows(int64_t first, int64_t rows);

// Ids [0, rows) in `partitions` partitions whose sizes differ by one at most.
[[nodiscard]] MemorySource RowSource(int64_t rows, int partitions);

// Partitions that never end: whoever is fed from it stays in that phase until something else ends
// it.
class EndlessSource final : public PartitionedSource {
 public:
  explicit EndlessSource(int partitions) : partitions_(partitions) {}

  [[nodiscard]] int num_partitions() const override { return partitions_; }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  const int partitions_;
};

}  // namespace millrace::faults

#endif  // TESTING_FAULTS_ROWS_H_
