#include "testing/faults/rows.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/log.h"
#include "millrace/batch_builder.h"
#include "millrace/source.h"

namespace millrace::faults {
namespace {

constexpr int64_t kRowsOfABatch = 256;

class EndlessReader final : public RecordBatchReader {
 public:
  [[nodiscard]] const Schema& schema() const override { return batch_.schema(); }
  [[nodiscard]] absl::StatusOr<std::optional<RecordBatch>> Next() override { return batch_; }

 private:
  const RecordBatch batch_ = MakeRows(0, kRowsOfABatch);
};

}  // namespace

RecordBatch MakeRows(int64_t first, int64_t rows) {
  std::vector<int64_t> ids(static_cast<size_t>(rows));
  std::iota(ids.begin(), ids.end(), first);
  BatchBuilder builder;
  absl::StatusOr<RecordBatch> batch = builder.AddColumn("id", std::move(ids)).Build();
  MILLRACE_CHECK(batch.ok()) << batch.status();
  return *std::move(batch);
}

MemorySource RowSource(int64_t rows, int partitions) {
  absl::StatusOr<std::unique_ptr<MemorySource>> source =
      MemorySource::Split(MakeRows(0, rows), partitions);
  MILLRACE_CHECK(source.ok()) << source.status();
  return **source;
}

absl::StatusOr<std::unique_ptr<RecordBatchReader>> EndlessSource::Open(int, int64_t) const {
  return std::make_unique<EndlessReader>();
}

}  // namespace millrace::faults
