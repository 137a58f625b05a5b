#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {
namespace {

class MemoryReader final : public RecordBatchReader {
 public:
  MemoryReader(Schema schema, std::vector<RecordBatch> batches)
      : schema_(std::move(schema)), batches_(std::move(batches)) {}

  const Schema& schema() const override { return schema_; }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (next_ == batches_.size()) return std::optional<RecordBatch>();
    return std::optional<RecordBatch>(batches_[next_++]);
  }

 private:
  const Schema schema_;
  const std::vector<RecordBatch> batches_;
  size_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MemorySource>> MemorySource::Create(
    std::vector<std::vector<RecordBatch>> partitions) {
  const RecordBatch* first = nullptr;
  for (const std::vector<RecordBatch>& partition : partitions) {
    for (const RecordBatch& batch : partition) {
      if (first == nullptr) first = &batch;
      if (batch.schema() != first->schema()) {
        return absl::InvalidArgumentError(
            absl::StrCat("record batches of different schemas: ",
                         Schema::DescribeDifference(first->schema(), batch.schema())));
      }
    }
  }
  if (first == nullptr) return absl::InvalidArgumentError("a source of no record batches");
  Schema schema = first->schema();
  return std::unique_ptr<MemorySource>(new MemorySource(std::move(schema), std::move(partitions)));
}

absl::StatusOr<std::unique_ptr<MemorySource>> MemorySource::Split(
    const std::vector<RecordBatch>& batches, int num_partitions) {
  if (num_partitions < 1) {
    return absl::InvalidArgumentError(absl::StrCat(num_partitions, " partitions"));
  }
  int64_t rows = 0;
  for (const RecordBatch& batch : batches) rows += batch.num_rows();
  const int64_t count = std::clamp<int64_t>(rows, 1, num_partitions);
  Partitions partitions(static_cast<size_t>(count));
  if (rows == 0) partitions[0] = batches;  // for their schema
  int64_t first = 0;                       // of the batch, among all rows
  int64_t p = 0;
  for (const RecordBatch& batch : batches) {
    for (int64_t begin = 0; begin < batch.num_rows();) {
      // Partition p ends where the next one begins.
      while (rows * (p + 1) / count <= first + begin) ++p;
      const int64_t end = std::min(batch.num_rows(), rows * (p + 1) / count - first);
      partitions[static_cast<size_t>(p)].push_back(batch.Slice(begin, end - begin));
      begin = end;
    }
    first += batch.num_rows();
  }
  return Create(std::move(partitions));
}

absl::StatusOr<std::unique_ptr<MemorySource>> MemorySource::Split(const RecordBatch& batch,
                                                                  int num_partitions) {
  if (num_partitions < 1) {
    return absl::InvalidArgumentError(absl::StrCat(num_partitions, " partitions"));
  }
  // The first `more` partitions get one row more than the others.
  const int64_t least = batch.num_rows() / num_partitions;
  const int64_t more = batch.num_rows() % num_partitions;
  Partitions partitions(static_cast<size_t>(num_partitions));
  int64_t first = 0;
  for (int64_t p = 0; p < num_partitions; ++p) {
    const int64_t rows = least + (p < more ? 1 : 0);
    if (rows > 0) partitions[static_cast<size_t>(p)].push_back(batch.Slice(first, rows));
    first += rows;
  }
  return std::unique_ptr<MemorySource>(new MemorySource(batch.schema(), std::move(partitions)));
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> MemorySource::Open(
    int partition, [[maybe_unused]] int64_t data_epoch) const {
  if (partition < 0 || partition >= num_partitions()) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition, " of ", num_partitions()));
  }
  return std::make_unique<MemoryReader>(schema_, (*partitions_)[static_cast<size_t>(partition)]);
}

}  // namespace millrace
