// File: feed/source/tfrecord/example_encoder.h
//
// From the rows of record batches to serialised tensorflow.Examples.
//
// Defines: ExampleEncoder.

#ifndef FEED_SOURCE_TFRECORD_EXAMPLE_ENCODER_H_
#define FEED_SOURCE_TFRECORD_EXAMPLE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"

namespace millrace {

// Thread safety: one thread at a time.
class ExampleEncoder {
 public:
  // `schema` has passed CheckFeatureColumns() (example_batch_builder.h).
  explicit ExampleEncoder(const Schema& schema);

  // The rows of `batch`, which is of the schema, come next; it must live until they have.
  void Begin(const RecordBatch& batch);

  // Sets *example to a row of that batch, as Protobuf would write it: numbers packed, features in
  // the order of the columns, none for a null. Returns INVALID_ARGUMENT, naming the column, for a
  // null within a list and for a uint64 of 2^63 or more.
  [[nodiscard]] absl::Status Encode(int64_t row, std::string* example);

 private:
  struct Column {
    std::string name;
    std::string name_field;  // the entry's first field: its tag, its length, the name
    ColumnView view;         // of the batch
    // Of the row in hand:
    bool missing = false;
    ColumnView values;
    size_t payload_bytes = 0;  // of the packed numbers, or of all strings with tags and lengths
  };

  absl::Status Measure(int64_t row, Column* column);

  std::vector<Column> columns_;
};

}  // namespace millrace

#endif  // FEED_SOURCE_TFRECORD_EXAMPLE_ENCODER_H_
