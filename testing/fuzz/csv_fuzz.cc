// CSV: three bytes of options, then the text. What is accepted is read twice, with the same rows.
//
//   byte 0   bits 0-1: partitions - 1; bits 2-3: delimiter; bit 4: columns b and c are a list v
//   byte 1   type of column a; 0 is inferred
//   byte 2   bytes per batch - 1

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "millrace/types.h"
#include "testing/fuzz/fuzz.h"

namespace millrace {
namespace {

absl::StatusOr<std::vector<RecordBatch>> ReadPartition(const CsvSource& source, int partition) {
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = source.Open(partition, 0);
  if (!reader.ok()) return reader.status();
  std::vector<RecordBatch> batches;
  while (true) {
    absl::StatusOr<std::optional<RecordBatch>> batch = (*reader)->Next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return batches;
    batches.push_back(**batch);
  }
}

// The two readings are the same, rows or error.
int64_t ReadTwice(const CsvSource& source, int partition, bool* failed) {
  const absl::StatusOr<std::vector<RecordBatch>> first = ReadPartition(source, partition);
  const absl::StatusOr<std::vector<RecordBatch>> second = ReadPartition(source, partition);
  FUZZ_CHECK(first.status() == second.status());
  *failed |= !first.ok();
  if (!first.ok()) return 0;
  int64_t rows = 0;
  FUZZ_CHECK(first->size() == second->size());
  for (size_t i = 0; i < first->size(); ++i) {
    FUZZ_CHECK((*first)[i].Equals((*second)[i]));
    rows += (*first)[i].num_rows();
  }
  return rows;
}

}  // namespace

void Fuzz(absl::string_view input) {
  if (input.size() < 3) return;
  const auto flags = static_cast<uint8_t>(input[0]);
  const auto type = static_cast<uint8_t>(input[1]);
  const std::array<Type, 8> types = {Type::Int64(),   Type::Int8(), Type::Uint64(), Type::Float32(),
                                     Type::Float64(), Type::Bool(), Type::Utf8(),   Type::Binary()};
  CsvSourceOptions options;
  options.num_partitions = 1 + (flags & 3);
  options.delimiter = ",;\t\""[(flags >> 2) & 3];
  if ((flags & 16) != 0) options.lists.push_back({.name = "v", .columns = {"b", "c"}});
  if (type != 0) options.types = {{"a", types[type % types.size()]}};
  options.batch_bytes = 1 + static_cast<uint8_t>(input[2]);
  const absl::StatusOr<std::unique_ptr<CsvSource>> source =
      CsvSource::FromText(std::string(input.substr(3)), options);
  if (!source.ok()) return;
  int64_t rows = 0;
  bool failed = false;
  for (int p = 0; p < (*source)->num_partitions(); ++p) rows += ReadTwice(**source, p, &failed);
  FUZZ_CHECK(failed || rows == (*source)->num_rows());
}

}  // namespace millrace
