// File: feed/source/memory_source.h
//
// A source whose rows are in memory already.
//
// Defines: MemorySource.
//
//   MILLRACE_ASSIGN_OR_RETURN(MemorySource source, MemorySource::Split(batch, /*partitions=*/4));

#ifndef FEED_SOURCE_MEMORY_SOURCE_H_
#define FEED_SOURCE_MEMORY_SOURCE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "feed/arrow/record_batch.h"
#include "feed/source/source.h"

namespace millrace {

// Deterministic: every epoch yields the same rows. Ownership: shares the batches' memory.
class MemorySource final : public PartitionedSource {
 public:
  // partitions[p] are the batches of partition p; it may be empty, the outer vector may not.
  // Returns INVALID_ARGUMENT if there is no partition, no batch at all (then no schema is known),
  // or if schemas differ.
  [[nodiscard]] static absl::StatusOr<MemorySource> Create(
      std::vector<std::vector<RecordBatch>> partitions);

  // `batch` in `num_partitions` ranges of rows whose sizes differ by one at most; no copy.
  // Returns INVALID_ARGUMENT if num_partitions < 1.
  [[nodiscard]] static absl::StatusOr<MemorySource> Split(const RecordBatch& batch,
                                                          int num_partitions);
  // All rows of `batches`, in their order, in `num_partitions` such ranges, or in one for each row
  // where there are fewer rows. Errors as Create and the above.
  [[nodiscard]] static absl::StatusOr<MemorySource> Split(const std::vector<RecordBatch>& batches,
                                                          int num_partitions);

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] int num_partitions() const override {
    return static_cast<int>(partitions_->size());
  }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  using Partitions = std::vector<std::vector<RecordBatch>>;
  MemorySource(Schema schema, Partitions partitions)
      : schema_(std::move(schema)),
        partitions_(std::make_shared<const Partitions>(std::move(partitions))) {}

  Schema schema_;
  std::shared_ptr<const Partitions> partitions_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_MEMORY_SOURCE_H_
