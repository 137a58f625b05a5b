// File: millrace/record_batch.h
//
// Rows in Arrow's columnar layout, with shared ownership of the memory they lie in.
//
// Defines: RecordBatch, SliceBySize().
//
//   MILLRACE_ASSIGN_OR_RETURN(RecordBatch batch, RecordBatch::FromArrowArray(schema, &array));
//   RecordBatch head = batch.Slice(0, 64);        // no copy
//   for (const RecordBatch& piece : SliceBySize(batch)) Send(piece);

#ifndef MILLRACE_RECORD_BATCH_H_
#define MILLRACE_RECORD_BATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "millrace/column_view.h"
#include "millrace/option_defaults.h"
#include "millrace/schema.h"

struct ArrowArray;   // Arrow C Data Interface
struct ArrowSchema;  // Arrow C Data Interface

namespace millrace {

class RecordBatch;

namespace internal {
RecordBatch MakeRecordBatch(Schema schema, int64_t rows, std::vector<ColumnData> columns,
                            std::vector<std::shared_ptr<const void>> owners);
}  // namespace internal

// Ownership: a handle; copies and slices share the buffers, which live until the last is gone.
// Thread safety: immutable; any thread may use, copy and destroy it.
class RecordBatch {
 public:
  // No columns, no rows.
  RecordBatch();

  // Takes over `array`, a struct array as a stream's get_next yields it: it is moved from, whether
  // this succeeds or not. Buffers stay where they are, except those not aligned to their values,
  // which are copied. The producer lives in this process and its buffer sizes are believed;
  // everything that can be checked is: INVALID_ARGUMENT, naming the column, if `array` does not fit
  // `schema`, if a length or offset is impossible, if offsets decrease, if text is not UTF-8.
  [[nodiscard]] static absl::StatusOr<RecordBatch> FromArrowArray(const Schema& schema,
                                                                  ArrowArray* array);
  // The same for an array and its schema, as pyarrow's _export_to_c gives them; both are taken
  // over. Errors as above and as Schema::FromArrowSchema.
  [[nodiscard]] static absl::StatusOr<RecordBatch> Import(ArrowSchema* schema, ArrowArray* array);

  // The rows of `batches`, which must not be empty, in one batch of its own memory.
  // Returns INVALID_ARGUMENT if schemas differ (naming the column), RESOURCE_EXHAUSTED if a utf8 or
  // binary column would pass 2 GiB, or a list column 2^31-1 values.
  [[nodiscard]] static absl::StatusOr<RecordBatch> Concat(std::span<const RecordBatch> batches);

  [[nodiscard]] const Schema& schema() const;
  [[nodiscard]] int64_t num_rows() const { return rows_; }
  [[nodiscard]] bool empty() const { return rows_ == 0; }
  [[nodiscard]] int num_columns() const { return schema().num_columns(); }
  // Valid while this batch or a slice of it lives.
  [[nodiscard]] ColumnView column(int i) const;

  // Rows [first, first + rows), which must lie within this batch (checked); no copy.
  [[nodiscard]] RecordBatch Slice(int64_t first, int64_t rows) const;

  // The rows of some columns, under the names that `schema` gives them; its types must be theirs
  // (checked). No copy.
  [[nodiscard]] RecordBatch Select(std::span<const int> columns, const Schema& schema) const;

  // Bytes of Arrow's layout that these rows take, without padding; not of the memory kept alive.
  [[nodiscard]] int64_t byte_size() const;

  // A struct array for a consumer of the C Data Interface; no copy. The memory lives until the
  // consumer has released it.
  void Export(ArrowArray* out) const;

  // Keeps the memory of this batch alive while held.
  [[nodiscard]] std::shared_ptr<const void> owner() const { return data_; }

  // Equal schema, rows, nulls and values; the values under nulls are not compared. For tests.
  [[nodiscard]] bool Equals(const RecordBatch& other) const;

 private:
  friend RecordBatch internal::MakeRecordBatch(Schema, int64_t, std::vector<ColumnData>,
                                               std::vector<std::shared_ptr<const void>>);
  struct Data;
  RecordBatch(std::shared_ptr<const Data> data, int64_t first, int64_t rows);

  std::shared_ptr<const Data> data_;  // never null
  int64_t first_ = 0;                 // first_ + rows_ are at most the rows of data_
  int64_t rows_ = 0;
};

// Cuts `batch` into consecutive slices of at most about `target_bytes` (byte_size()), but at least
// one row each; none if it has no rows. No copy.
[[nodiscard]] std::vector<RecordBatch> SliceBySize(const RecordBatch& batch,
                                                   int64_t target_bytes = kDefaultBatchBytes);

}  // namespace millrace

#endif  // MILLRACE_RECORD_BATCH_H_
