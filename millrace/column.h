// File: millrace/column.h
//
// The columns of a Batch as a program reads them: by type, where they lie.
//
// Defines: Column, ListColumn, StringColumn, BoolColumn, TimeColumn, Validity, Tensor.
//
//   ListColumn tags = batch.list("tags");                     // list<utf8>
//   for (size_t row = 0; row < tags.size(); ++row) {
//     if (!tags.validity()[row]) continue;
//     StringColumn words = tags[row].strings();               // those of this row
//   }
//
//   ListColumn scores = batch.list("scores");                 // list<float32>
//   std::span<const float> all = scores.elements().values<float>();  // of all rows, zero copy
//   std::span<const float> of_row = all.subspan(scores.offset(row), scores.length(row));
//
//   Column point = batch.at("point");                         // struct<x: float64, y: float64>
//   std::span<const double> x = point.field("x").values<double>();
//
// Everything here is random-access, as cheap to copy as a few pointers, and valid while its Batch
// (or a copy of it) lives. An index out of range is undefined (checked in debug builds). A wrong
// type ends the program with a message that names the column, what was wanted and what was found;
// each such accessor of Column has a Try form that returns INVALID_ARGUMENT instead.

#ifndef MILLRACE_COLUMN_H_
#define MILLRACE_COLUMN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "millrace/column_view.h"
#include "millrace/types.h"

namespace millrace {

// utf8, large_utf8, binary or large_binary. The text of a null row is unspecified; see Validity.
class StringColumn {
 public:
  explicit StringColumn(ColumnView view) : view_(view) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  absl::string_view operator[](size_t row) const {
    return view_.BytesAt(static_cast<int64_t>(row));
  }

 private:
  ColumnView view_;
};

// bool, or the flattened elements of a fixed_size_list of bool.
class BoolColumn {
 public:
  explicit BoolColumn(ColumnView view) : view_(view) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  bool operator[](size_t row) const { return view_.BoolAt(static_cast<int64_t>(row)); }

 private:
  ColumnView view_;
};

// date32, date64 or timestamp of any unit, as points in time. A timestamp without a time zone is
// read as if it were UTC.
class TimeColumn {
 public:
  explicit TimeColumn(ColumnView view) : view_(view) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  absl::Time operator[](size_t row) const;

 private:
  ColumnView view_;
};

// Which rows hold a value.
class Validity {
 public:
  explicit Validity(ColumnView view) : view_(view) {}
  // Of a struct's field, whose rows are null as well where one of the structs around it is.
  Validity(ColumnView view, std::vector<ColumnView> around)
      : view_(view), around_(std::move(around)) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  // True if the row holds a value, false if it is null.
  bool operator[](size_t row) const {
    if (view_.IsNull(static_cast<int64_t>(row))) return false;
    for (const ColumnView& view : around_) {
      if (view.IsNull(static_cast<int64_t>(row))) return false;
    }
    return true;
  }
  // Number of null rows.
  [[nodiscard]] int64_t null_count() const;

 private:
  ColumnView view_;
  std::vector<ColumnView> around_;  // mostly none
};

// Numbers with a shape, row after row: `values` are shape[0] * shape[1] * ... of them.
template <FeedValue T>
struct Tensor {
  std::span<const T> values;
  // shape[0] is the number of rows; the others are the sizes of nested fixed_size_lists, from the
  // outermost, and none for a column of single numbers. {64, 28, 28} for 64 images.
  absl::InlinedVector<int64_t, 4> shape;

  // Values of one row: the product of shape[1], shape[2], ...
  [[nodiscard]] size_t row_size() const {
    size_t size = 1;
    for (size_t i = 1; i < shape.size(); ++i) size *= static_cast<size_t>(shape[i]);
    return size;
  }
  // The values of one row.
  [[nodiscard]] std::span<const T> operator[](size_t row) const {
    return values.subspan(row * row_size(), row_size());
  }
};

class ListColumn;

// A column of any type: of a batch, a field of a struct, or the elements of lists.
class Column {
 public:
  // `name`, for messages, and `column`, the type of the whole column of the batch, live as long as
  // the batch.
  Column(absl::string_view name, const Type* column, ColumnView view)
      : name_(name), column_(column), view_(view) {}
  // No rows of whatever is asked for: a column of a Batch that knows no columns.
  Column();

  [[nodiscard]] const Type& type() const { return view_.type(); }
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  // Of this column's own rows. A null struct's fields may hold values, and those are no nulls here;
  // Batch::validity("point.x") says where neither is null.
  [[nodiscard]] Validity validity() const { return Validity(view_); }
  [[nodiscard]] bool IsNull(size_t row) const { return view_.IsNull(static_cast<int64_t>(row)); }

  // Numbers, dates, timestamps; or, flattened, those in a fixed_size_list (of fixed_size_lists) of
  // them. The value of a null is unspecified.
  template <FeedValue T>
  [[nodiscard]] std::span<const T> values() const {
    return Span<T>(Checked(FindValues(TypeIdOf<T>::value)));
  }
  template <FeedValue T>
  [[nodiscard]] absl::StatusOr<std::span<const T>> TryValues() const {
    absl::StatusOr<ColumnView> view = FindValues(TypeIdOf<T>::value);
    if (!view.ok()) return view.status();
    return Span<T>(*view);
  }
  // The same with its shape.
  template <FeedValue T>
  [[nodiscard]] Tensor<T> tensor() const {
    return {values<T>(), shape()};
  }
  template <FeedValue T>
  [[nodiscard]] absl::StatusOr<Tensor<T>> TryTensor() const {
    absl::StatusOr<std::span<const T>> values = TryValues<T>();
    if (!values.ok()) return values.status();
    return Tensor<T>{*values, shape()};
  }
  // {size(), sizes of nested fixed_size_lists...}
  [[nodiscard]] absl::InlinedVector<int64_t, 4> shape() const;

  [[nodiscard]] BoolColumn bools() const { return BoolColumn(Checked(FindValues(TypeId::kBool))); }
  [[nodiscard]] absl::StatusOr<BoolColumn> TryBools() const;
  [[nodiscard]] StringColumn strings() const { return StringColumn(Checked(FindStrings())); }
  [[nodiscard]] absl::StatusOr<StringColumn> TryStrings() const;
  [[nodiscard]] TimeColumn times() const { return TimeColumn(Checked(FindTimes())); }
  [[nodiscard]] absl::StatusOr<TimeColumn> TryTimes() const;

  // list, large_list or fixed_size_list.
  [[nodiscard]] ListColumn list() const;
  [[nodiscard]] absl::StatusOr<ListColumn> TryList() const;

  // A field of a struct. TryField returns NOT_FOUND, listing the fields, if there is none such.
  [[nodiscard]] Column field(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<Column> TryField(absl::string_view name) const;

  // The buffers as Arrow lays them out.
  [[nodiscard]] const ColumnView& view() const { return view_; }
  // The same column under another name in messages, which lives as long as the batch.
  [[nodiscard]] Column Renamed(absl::string_view name) const {
    Column column = *this;
    column.name_ = name;
    return column;
  }

 private:
  friend class ListColumn;

  template <FeedValue T>
  static std::span<const T> Span(ColumnView view) {
    return {view.values<T>(), static_cast<size_t>(view.length())};
  }
  template <typename T>
  static T Checked(absl::StatusOr<T> found) {
    if (!found.ok()) EndProgram(found.status());
    return *std::move(found);
  }
  [[noreturn]] static void EndProgram(const absl::Status& why);
  [[nodiscard]] absl::StatusOr<ColumnView> FindValues(TypeId wanted) const;
  [[nodiscard]] absl::StatusOr<ColumnView> FindStrings() const;
  [[nodiscard]] absl::StatusOr<ColumnView> FindTimes() const;
  [[nodiscard]] absl::Status Mismatch(absl::string_view wanted) const;

  absl::string_view name_;
  const Type* column_ = nullptr;  // nullptr: of no rows, and of every type
  ColumnView view_;
};

// Lists: a row holds elements offset(row) up to offset(row) + length(row) of elements().
class ListColumn {
 public:
  explicit ListColumn(Column column)
      : column_(column), first_(column.type().is_variable_list() ? column.view().OffsetAt(0) : 0) {}

  [[nodiscard]] size_t size() const { return column_.size(); }
  [[nodiscard]] Validity validity() const { return column_.validity(); }
  // The elements of one row. A null row has any number of them, mostly none.
  [[nodiscard]] Column operator[](size_t row) const;
  // The elements of all rows, one after the other.
  [[nodiscard]] Column elements() const;
  // Where a row's elements begin in elements(); `row` may be size().
  [[nodiscard]] size_t offset(size_t row) const {
    const ColumnView& view = column_.view();
    return static_cast<size_t>(view.type().is_fixed_size_list()
                                   ? static_cast<int64_t>(row) * view.type().list_size()
                                   : view.OffsetAt(static_cast<int64_t>(row)) - first_);
  }
  // Number of a row's elements.
  [[nodiscard]] size_t length(size_t row) const { return offset(row + 1) - offset(row); }

 private:
  Column column_;
  int64_t first_;  // the first row's offset
};

}  // namespace millrace

#endif  // MILLRACE_COLUMN_H_
