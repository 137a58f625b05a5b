// File: feed/source/csv_columns.h
//
// From the fields of CSV records to the columns of a record batch. Private to feed/csv_source.
//
// Defines: CsvColumn, CsvBatchBuilder, ParsesAsInt64(), ParsesAsFloat64().

#ifndef FEED_SOURCE_CSV_COLUMNS_H_
#define FEED_SOURCE_CSV_COLUMNS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

namespace millrace {

// One column of the batch and the fields of the text that it is made of.
struct CsvColumn {
  std::string name;
  Type type;                             // a scalar, or a fixed_size_list of scalars
  std::vector<int> fields;               // one for a scalar, list_size for a list
  std::vector<std::string> field_names;  // as in the header, for errors
};

[[nodiscard]] bool ParsesAsInt64(absl::string_view field);
[[nodiscard]] bool ParsesAsFloat64(absl::string_view field);

// Whether fields can be read as `type`: scalars but float16, dates and timestamps.
[[nodiscard]] bool IsCsvType(const Type& type);

// Thread safety: one thread at a time.
class CsvBatchBuilder {
 public:
  // `columns` outlives the builder and fits `schema`.
  CsvBatchBuilder(Schema schema, const std::vector<CsvColumn>* columns);

  // `fields` has all that the columns name.
  // Returns INVALID_ARGUMENT, naming the column, if a field is not of its type: column "label":
  // "abc" is not an int64.
  [[nodiscard]] absl::Status Add(const std::vector<absl::string_view>& fields);

  [[nodiscard]] int64_t num_rows() const { return rows_; }

  // The rows since the last Finish().
  [[nodiscard]] RecordBatch Finish();

 private:
  // The values of one column, or of a list's elements.
  struct Values {
    Type type;
    int64_t length = 0;
    int64_t nulls = 0;
    std::vector<bool> valid;
    std::string data;  // numbers as they lie, bytes of strings
    std::vector<bool> bools;
    std::vector<int64_t> large_offsets;
    std::vector<int32_t> offsets;
  };

  static bool Append(absl::string_view field, Values* values);
  static ColumnData Take(Values* values, std::vector<std::shared_ptr<const void>>* owners);

  const Schema schema_;
  const std::vector<CsvColumn>* const columns_;
  std::vector<Values> values_;  // one per column
  int64_t rows_ = 0;
};

}  // namespace millrace

#endif  // FEED_SOURCE_CSV_COLUMNS_H_
