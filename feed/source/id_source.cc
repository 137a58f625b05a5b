#include "feed/source/id_source.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {

RecordBatch Ids(int64_t first, int64_t rows, const std::string& name) {
  return *BatchBuilder().AddColumn(name, IdRange(first, first + rows)).Build();
}

std::vector<int64_t> IdRange(int64_t from, int64_t to) {
  std::vector<int64_t> ids(static_cast<size_t>(to - from));
  std::iota(ids.begin(), ids.end(), from);
  return ids;
}

std::vector<std::vector<RecordBatch>> IdPartitions(int partitions, int64_t rows) {
  std::vector<std::vector<RecordBatch>> batches(static_cast<size_t>(partitions));
  int64_t id = 0;
  for (auto& partition : batches) {
    for (int64_t row = 0; row < rows; row += 10) {
      const int64_t n = std::min<int64_t>(10, rows - row);
      partition.push_back(Ids(id, n));
      id += n;
    }
  }
  if (rows == 0) batches[0].push_back(Ids(0, 0));
  return batches;
}

MemorySource IdSource(int partitions, int64_t rows) {
  return **MemorySource::Create(IdPartitions(partitions, rows));
}

UnstableSource::UnstableSource(MemorySource source) : source_(std::move(source)) {}

int UnstableSource::num_partitions() const { return source_.num_partitions(); }

bool UnstableSource::deterministic() const { return false; }

absl::StatusOr<std::unique_ptr<RecordBatchReader>> UnstableSource::Open(int partition,
                                                                        int64_t epoch) const {
  return source_.Open(partition, epoch);
}

}  // namespace millrace
