// File: millrace/batch.h
//
// Rows whose columns are found by name and read where they lie, as DataFeed::NextBatch returns
// them.
//
// Defines: Batch, Row, InputMapping, and includes what batches are made of:
//
//   millrace/types.h          the types that columns have
//   millrace/schema.h         Schema: names and types of columns
//   millrace/column.h         Column, StringColumn, ListColumn, ...: the columns of a Batch
//   millrace/record_batch.h   RecordBatch: the rows themselves, in Arrow's layout
//   millrace/batch_builder.h  BatchBuilder: rows from C++ values
//   millrace/status_macros.h  MILLRACE_ASSIGN_OR_RETURN, MILLRACE_RETURN_IF_ERROR
//
//   Tensor<float> x = batch.tensor<float>("x");            // zero copy; x.shape is {rows, 28, 28}
//   StringColumn name = batch.strings("name");
//   for (int64_t row = 0; row < batch.num_rows(); ++row) {
//     if (batch.IsNull("name", row)) continue;
//     Use(x[row], name[row]);
//   }
//
// The plain accessors are for programs that know their columns: a wrong name or type ends the
// program with a message that says what was wanted and what there is. Each has a Try form that
// returns NOT_FOUND (no such column) or INVALID_ARGUMENT (another type) instead.
//
// "point.x" names the field "x" of the struct column "point" wherever a column's name is asked for;
// a column whose own name is "point.x" comes first.

#ifndef MILLRACE_BATCH_H_
#define MILLRACE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/batch_builder.h"
#include "millrace/column.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"

namespace millrace {

// Pairs (column of the source, name in the program), as in {{"image", "x"}, {"label", "y"}}. If it
// is empty every column keeps its name; otherwise columns not named in it are left out.
using InputMapping = std::vector<std::pair<std::string, std::string>>;

class Batch;
class Row;

namespace internal {
class BatchLayout;
Batch MakeBatch(RecordBatch rows, std::shared_ptr<const BatchLayout> layout);
}  // namespace internal

// Ownership: shares the memory of its rows, which lives until the last copy of the Batch is gone;
// spans and views point into it. Thread safety: immutable.
class Batch {
 public:
  // A batch without rows whose columns are not known, which NextBatch returns if a feed ends
  // without having brought any rows. Every column that is asked for exists and is empty, whatever
  // its type.
  Batch() = default;

  // Returns NOT_FOUND if the mapping names a column that the rows do not have (the message lists
  // those they have), INVALID_ARGUMENT if it gives a name twice or an empty one.
  [[nodiscard]] static absl::StatusOr<Batch> Create(RecordBatch rows,
                                                    const InputMapping& mapping = {});
  // From the Arrow C Data Interface, as RecordBatch::Import. Errors as there.
  [[nodiscard]] static absl::StatusOr<Batch> Import(ArrowSchema* schema, ArrowArray* array);

  // To the Arrow C Data Interface, for Arrow C++, DuckDB, pyarrow's RecordBatch._import_from_c: the
  // columns under the names of names(), a struct array without copy. The consumer releases both;
  // the memory lives until then, with or without this Batch.
  void Export(ArrowSchema* schema, ArrowArray* array) const;

  [[nodiscard]] int64_t num_rows() const { return rows_.num_rows(); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // Names in the program, in the order of the mapping (or of the schema).
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] bool has_column(absl::string_view name) const;

  // A column of any type, to look into: structs, lists of lists.
  [[nodiscard]] Column at(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<Column> TryAt(absl::string_view name) const;

  // The values of a column of numbers, dates or timestamps, num_rows() of them; or of a
  // fixed_size_list (of fixed_size_lists) of them, num_rows() * list_size(name), row after row. The
  // value of a null is unspecified.
  template <FeedValue T>
  [[nodiscard]] std::span<const T> column(absl::string_view name) const {
    return Resolved(name).template values<T>();
  }
  template <FeedValue T>
  [[nodiscard]] absl::StatusOr<std::span<const T>> TryColumn(absl::string_view name) const {
    absl::StatusOr<Column> found = Resolve(name, nullptr);
    if (!found.ok()) return found.status();
    return found->template TryValues<T>();
  }

  // The same values with their shape: {rows} for numbers, {rows, 784} for fixed_size_lists of 784,
  // {rows, 28, 28} for fixed_size_lists of 28 fixed_size_lists of 28.
  template <FeedValue T>
  [[nodiscard]] Tensor<T> tensor(absl::string_view name) const {
    return Resolved(name).template tensor<T>();
  }
  template <FeedValue T>
  [[nodiscard]] absl::StatusOr<Tensor<T>> TryTensor(absl::string_view name) const {
    absl::StatusOr<Column> found = Resolve(name, nullptr);
    if (!found.ok()) return found.status();
    return found->template TryTensor<T>();
  }

  [[nodiscard]] BoolColumn bools(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<BoolColumn> TryBools(absl::string_view name) const;

  [[nodiscard]] StringColumn strings(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<StringColumn> TryStrings(absl::string_view name) const;

  // Dates and timestamps as absl::Time.
  [[nodiscard]] TimeColumn times(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<TimeColumn> TryTimes(absl::string_view name) const;

  // list, large_list or fixed_size_list.
  [[nodiscard]] ListColumn list(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<ListColumn> TryList(absl::string_view name) const;

  // Values per row: the list size of a fixed_size_list (the product of nested ones), 1 for every
  // other type.
  [[nodiscard]] int64_t list_size(absl::string_view name) const;

  // One row, which must be below num_rows() (checked). To read many rows, columns are faster: a row
  // looks its columns up by name each time.
  [[nodiscard]] Row row(int64_t index) const;

  // For columns of any type: which rows are null, not which elements of a list. For a struct's
  // field, "point.x", a row is null where the field or the struct is.
  [[nodiscard]] Validity validity(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<Validity> TryValidity(absl::string_view name) const;
  // Which elements of a list column are null: of all rows one after the other, with nested
  // fixed_size_lists flattened.
  [[nodiscard]] Validity element_validity(absl::string_view name) const;

  // `row` must be below num_rows() (checked).
  [[nodiscard]] bool IsNull(absl::string_view name, int64_t row) const;

  [[nodiscard]] const Type& type(absl::string_view name) const;
  // The rows with all columns of the source under their own names.
  [[nodiscard]] const RecordBatch& record_batch() const { return rows_; }

 private:
  friend Batch internal::MakeBatch(RecordBatch, std::shared_ptr<const internal::BatchLayout>);
  // The column, with the name that was asked for; the pointer must not be kept. `around`, if not
  // null, gets the structs that it is a field of.
  [[nodiscard]] absl::StatusOr<Column> Resolve(absl::string_view name,
                                               std::vector<ColumnView>* around) const;
  [[nodiscard]] absl::StatusOr<Column> ResolveField(absl::string_view name,
                                                    std::vector<ColumnView>* around) const;
  // Ends the program if there is none.
  [[nodiscard]] Column Resolved(absl::string_view name) const;

  RecordBatch rows_;
  std::shared_ptr<const internal::BatchLayout> layout_;  // null: nobody knows the columns
};

// One row of a batch, by column name.
// Ownership: none; valid while the batch lives where it is. Thread safety: immutable.
class Row {
 public:
  Row(const Batch* batch, int64_t index) : batch_(batch), index_(static_cast<size_t>(index)) {}

  [[nodiscard]] int64_t index() const { return static_cast<int64_t>(index_); }
  [[nodiscard]] bool IsNull(absl::string_view name) const {
    return batch_->IsNull(name, static_cast<int64_t>(index_));
  }

  // A single number, date or timestamp.
  template <FeedValue T>
  [[nodiscard]] T value(absl::string_view name) const {
    return batch_->column<T>(name)[index_];
  }
  // The numbers of the row's list, of any kind of list.
  template <FeedValue T>
  [[nodiscard]] std::span<const T> values(absl::string_view name) const {
    return elements(name).template values<T>();
  }
  [[nodiscard]] bool flag(absl::string_view name) const { return batch_->bools(name)[index_]; }
  [[nodiscard]] absl::string_view text(absl::string_view name) const {
    return batch_->strings(name)[index_];
  }
  [[nodiscard]] absl::Time time(absl::string_view name) const {
    return batch_->times(name)[index_];
  }
  // The elements of the row's list.
  [[nodiscard]] Column elements(absl::string_view name) const { return batch_->list(name)[index_]; }

 private:
  const Batch* batch_;
  size_t index_;
};

}  // namespace millrace

#endif  // MILLRACE_BATCH_H_
