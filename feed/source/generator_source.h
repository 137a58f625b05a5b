// File: feed/source/generator_source.h
//
// Rows that a function makes when they are asked for: synthetic data, or a reader of one's own.
//
// Defines: GeneratorSource.
//
//   auto source = GeneratorSource::Create(schema, /*num_partitions=*/8,
//       [](int partition, int64_t epoch, int64_t batch) { return MakeRows(partition, batch); },
//       /*deterministic=*/true);

#ifndef FEED_SOURCE_GENERATOR_SOURCE_H_
#define FEED_SOURCE_GENERATOR_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "feed/arrow/record_batch.h"
#include "feed/arrow/schema.h"
#include "feed/source/source.h"

namespace millrace {

class GeneratorSource final : public PartitionedSource {
 public:
  // Batch number `batch` (0, 1, ...) of a partition; nullopt: it has no more. Called from several
  // threads at once, for one reader of a partition in order.
  using Generate = std::function<absl::StatusOr<std::optional<RecordBatch>>(
      int partition, int64_t data_epoch, int64_t batch)>;

  // Returns INVALID_ARGUMENT if num_partitions < 1 or there is no function. `deterministic`: see
  // PartitionedSource.
  [[nodiscard]] static absl::StatusOr<GeneratorSource> Create(Schema schema, int num_partitions,
                                                              Generate generate,
                                                              bool deterministic);

  [[nodiscard]] const Schema& schema() const { return schema_; }
  [[nodiscard]] int num_partitions() const override { return num_partitions_; }
  // Readers return the function's errors, with the partition, and INVALID_ARGUMENT for a batch of
  // another schema.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t data_epoch) const override;
  [[nodiscard]] bool deterministic() const override { return deterministic_; }

 private:
  GeneratorSource(Schema schema, int num_partitions, Generate generate, bool deterministic)
      : schema_(std::move(schema)),
        num_partitions_(num_partitions),
        generate_(std::make_shared<const Generate>(std::move(generate))),
        deterministic_(deterministic) {}

  Schema schema_;
  int num_partitions_;
  std::shared_ptr<const Generate> generate_;
  bool deterministic_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_GENERATOR_SOURCE_H_
