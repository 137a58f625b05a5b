// File: feed/source/id_source.h
//
// Rows that are counted, for tests of feeds: numbers in one column that go on through all
// partitions, so that a row which is lost, doubled or out of its order shows. Test only.
//
// Defines: Ids(), IdRange(), IdPartitions(), IdSource(), UnstableSource.

#ifndef FEED_SOURCE_ID_SOURCE_H_
#define FEED_SOURCE_ID_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {

// `rows` rows with the ids from `first` on, in a column of that name.
[[nodiscard]] RecordBatch Ids(int64_t first, int64_t rows, const std::string& name = "id");

// The numbers of [from, to).
[[nodiscard]] std::vector<int64_t> IdRange(int64_t from, int64_t to);

// `partitions` of `rows` rows each, in batches of 10.
[[nodiscard]] std::vector<std::vector<RecordBatch>> IdPartitions(int partitions, int64_t rows);
[[nodiscard]] MemorySource IdSource(int partitions, int64_t rows);

// As another source, but says that it is not deterministic.
class UnstableSource final : public PartitionedSource {
 public:
  explicit UnstableSource(MemorySource source);
  [[nodiscard]] int num_partitions() const override;
  [[nodiscard]] bool deterministic() const override;
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      int partition, int64_t epoch) const override;

 private:
  MemorySource source_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_ID_SOURCE_H_
