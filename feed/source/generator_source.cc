#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "millrace/source.h"

namespace millrace {
namespace {

class GeneratorReader final : public RecordBatchReader {
 public:
  GeneratorReader(Schema schema, std::shared_ptr<const GeneratorSource::Generate> generate,
                  int partition, int64_t data_epoch)
      : schema_(std::move(schema)),
        generate_(std::move(generate)),
        partition_(partition),
        data_epoch_(data_epoch) {}

  const Schema& schema() const override { return schema_; }

  absl::StatusOr<std::optional<RecordBatch>> Next() override {
    if (ended_) return std::optional<RecordBatch>();
    absl::StatusOr<std::optional<RecordBatch>> batch = (*generate_)(partition_, data_epoch_, next_);
    if (!batch.ok()) {
      return Annotate(batch.status(), absl::StrCat("generating partition ", partition_));
    }
    if (!batch->has_value()) {
      ended_ = true;
    } else if (!((*batch)->schema() == schema_)) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch ", next_, " of partition ", partition_,
                       " has another schema than the generator was made with"));
    }
    ++next_;
    return batch;
  }

 private:
  const Schema schema_;
  const std::shared_ptr<const GeneratorSource::Generate> generate_;
  const int partition_;
  const int64_t data_epoch_;
  int64_t next_ = 0;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GeneratorSource>> GeneratorSource::Create(Schema schema,
                                                                         int num_partitions,
                                                                         Generate generate,
                                                                         bool deterministic) {
  if (num_partitions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_partitions must be at least 1, found ", num_partitions));
  }
  if (generate == nullptr) return absl::InvalidArgumentError("a generator needs a function");
  return std::unique_ptr<GeneratorSource>(
      new GeneratorSource(std::move(schema), num_partitions, std::move(generate), deterministic));
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> GeneratorSource::Open(int partition,
                                                                         int64_t data_epoch) const {
  if (partition < 0 || partition >= num_partitions_) {
    return absl::InvalidArgumentError(
        absl::StrCat("partition ", partition, " of ", num_partitions_));
  }
  return std::unique_ptr<RecordBatchReader>(
      std::make_unique<GeneratorReader>(schema_, generate_, partition, data_epoch));
}

}  // namespace millrace
