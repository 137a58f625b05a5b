// File: feed/source/tfrecord/example_batch_builder.h
//
// From serialised tensorflow.Examples to record batches, without anything in between.
//
// Defines: FeatureKindOf(), CheckFeatureColumns(), ExampleBatchBuilder.

#ifndef FEED_SOURCE_TFRECORD_EXAMPLE_BATCH_BUILDER_H_
#define FEED_SOURCE_TFRECORD_EXAMPLE_BATCH_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "feed/source/tfrecord/example_wire.h"
#include "feed/source/tfrecord/growing_buffer.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

namespace millrace {

// The kind of the feature that a column of `type` (one value, or a list) is; kNone if there is none
// (millrace/tf_record.h has the table).
[[nodiscard]] FeatureKind FeatureKindOf(const Type& type);

// INVALID_ARGUMENT naming the first column that no feature is; or that there is no column.
[[nodiscard]] absl::Status CheckFeatureColumns(const Schema& schema);

// Thread safety: one thread at a time.
class ExampleBatchBuilder {
 public:
  // `schema` has passed CheckFeatureColumns().
  explicit ExampleBatchBuilder(Schema schema);

  // Appends the row that `example` is. Its bytes and those of the other rows of the batch are at
  // most 2^31-1 together. Returns INVALID_ARGUMENT, naming the feature, if it is no Example or does
  // not fit the schema; the builder must not be used any more then.
  [[nodiscard]] absl::Status Add(absl::string_view example);
  // Appends `record` as it is; the schema is one column of binary. Bytes as above.
  void AddRaw(absl::string_view record);

  [[nodiscard]] int64_t num_rows() const { return rows_; }
  [[nodiscard]] const Schema& schema() const { return schema_; }

  // Bytes of each row that do not depend on what is in it.
  [[nodiscard]] int64_t fixed_row_bytes() const { return fixed_row_bytes_; }

  // The rows since the last Finish().
  [[nodiscard]] RecordBatch Finish();

 private:
  struct Column {
    std::string name;
    Type type;
    Type value_type;  // of one value
    FeatureKind kind = FeatureKind::kNone;
    bool nullable = true;
    int64_t row_seen = -1;      // the last row that has the feature, and
    absl::string_view feature;  // the feature

    // As in Arrow, but that a bool is a byte.
    GrowingBuffer data;
    GrowingBuffer value_offsets;  // of strings: where each begins, but for the first
    GrowingBuffer list_offsets;   // of list and large_list: the same
    int64_t num_values = 0;
    std::vector<int64_t> null_rows;
  };
  // The column of a name that stood at some place of the last Example; -1: none.
  struct Guess {
    std::string name;
    int column = -1;
  };
  using Owners = std::vector<std::shared_ptr<const void>>;

  int FindColumn(size_t place, absl::string_view name);
  absl::Status Append(Column* column);
  absl::Status AppendMissing(Column* column);
  absl::Status AppendValues(Column* column, size_t count);
  absl::Status AppendBytes(Column* column);
  void AppendZeros(Column* column, int64_t count);
  void EndRow(Column* column);
  ColumnData TakeValues(Column* column, Owners* owners);
  ColumnData Take(Column* column, Owners* owners);

  const Schema schema_;
  std::vector<Column> columns_;
  absl::flat_hash_map<std::string, int> index_;
  int64_t fixed_row_bytes_ = 0;
  int64_t rows_ = 0;

  std::vector<Guess> guesses_;      // Examples of one file mostly have one order
  std::deque<std::string> merged_;  // features of the row in hand that came in parts
  FeatureValues values_;            // of the feature in hand
  std::vector<int64_t> int64s_;
  std::vector<float> floats_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_EXAMPLE_BATCH_BUILDER_H_
