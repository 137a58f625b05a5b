// File: feed/batch.h
//
// What DataFeed::NextBatch returns: rows whose columns are found by name.
//
// Defines: Batch, InputMapping, BatchLayout, StringColumn, BoolColumn, Validity.
//
//   std::span<const float> x = batch.column<float>("x");      // zero copy
//   const int64_t width = batch.list_size("x");               // x is rows * width values
//   StringColumn name = batch.strings("name");
//   for (int64_t row = 0; row < batch.num_rows(); ++row) {
//     if (batch.IsNull("name", row)) continue;
//     Use(x.subspan(row * width, width), name[row]);
//   }
//
// The plain accessors are for programs that know their columns: a wrong name or type ends the
// program with a message that says what was wanted and what there is. Each has a Try form that
// returns NOT_FOUND (no such column) or INVALID_ARGUMENT (another type) instead.

#ifndef FEED_BATCH_H_
#define FEED_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/record_batch.h"

namespace millrace {

// Pairs (column of the source, name in the program), as in {{"image", "x"}, {"label", "y"}}. If it
// is empty every column keeps its name; otherwise columns not named in it are left out.
using InputMapping = std::vector<std::pair<std::string, std::string>>;

// Which column of a schema has which name; made once per schema.
// Ownership: shared, immutable; cheap copies. Thread safety: immutable.
class BatchLayout {
 public:
  BatchLayout() = default;  // no columns

  // Returns NOT_FOUND if the mapping names a column that `schema` has not (the message lists those
  // it has), INVALID_ARGUMENT if it gives one name twice or an empty one.
  [[nodiscard]] static absl::StatusOr<BatchLayout> Create(const Schema& schema,
                                                          const InputMapping& mapping);

  // Names in the program, in the order of the mapping (or of the schema).
  [[nodiscard]] const std::vector<std::string>& names() const;
  // Column index in the record batch, or -1.
  [[nodiscard]] int Find(absl::string_view name) const;
  // False if it was made from no schema.
  [[nodiscard]] bool known() const { return data_ != nullptr; }

 private:
  struct Data {
    std::vector<std::string> names;
    absl::flat_hash_map<std::string, int> columns;
  };
  std::shared_ptr<const Data> data_;
};

// The views below are random-access, as cheap to copy as a pointer, and valid while their Batch (or
// a copy of it) lives. An index out of range is undefined (checked in debug builds).

// utf8, large_utf8, binary or large_binary. The text of a null row is unspecified; see Validity.
class StringColumn {
 public:
  explicit StringColumn(ColumnView view) : view_(view) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  std::string_view operator[](size_t row) const {
    const absl::string_view bytes = view_.BytesAt(static_cast<int64_t>(row));
    return {bytes.data(), bytes.size()};
  }

 private:
  ColumnView view_;
};

// bool, or the flattened elements of a list of bool.
class BoolColumn {
 public:
  explicit BoolColumn(ColumnView view) : view_(view) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  bool operator[](size_t row) const { return view_.BoolAt(static_cast<int64_t>(row)); }

 private:
  ColumnView view_;
};

// Which rows hold a value.
class Validity {
 public:
  explicit Validity(ColumnView view) : view_(view) {}
  [[nodiscard]] size_t size() const { return static_cast<size_t>(view_.length()); }
  // True if the row holds a value, false if it is null.
  bool operator[](size_t row) const { return !view_.IsNull(static_cast<int64_t>(row)); }
  // Number of null rows.
  [[nodiscard]] int64_t null_count() const { return view_.CountNulls(); }

 private:
  ColumnView view_;
};

// Ownership: shares the memory of its rows, which lives until the last copy of the Batch is gone;
// spans and views point into it. Thread safety: immutable.
class Batch {
 public:
  // No rows of columns that nobody knows, as NextBatch returns it when a feed ends that brought
  // none: every column asked for is there and empty, whatever its type.
  Batch() = default;
  // `layout` was made from the batch's schema.
  Batch(RecordBatch rows, BatchLayout layout)
      : rows_(std::move(rows)), layout_(std::move(layout)) {}

  // BatchLayout::Create and the constructor in one. Errors as there.
  [[nodiscard]] static absl::StatusOr<Batch> Create(RecordBatch rows,
                                                    const InputMapping& mapping = {});

  [[nodiscard]] int64_t num_rows() const { return rows_.num_rows(); }
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  [[nodiscard]] const std::vector<std::string>& names() const { return layout_.names(); }
  [[nodiscard]] bool has_column(absl::string_view name) const { return layout_.Find(name) >= 0; }

  // The values of a column of numbers, num_rows() of them; or of a fixed_size_list of numbers,
  // num_rows() * list_size(name), row after row. The value of a null is unspecified.
  template <FeedValue T>
  [[nodiscard]] std::span<const T> column(absl::string_view name) const {
    return Values<T>(Checked(FindValues(name, TypeIdOf<T>::value)));
  }
  template <FeedValue T>
  [[nodiscard]] absl::StatusOr<std::span<const T>> TryColumn(absl::string_view name) const {
    absl::StatusOr<ColumnView> view = FindValues(name, TypeIdOf<T>::value);
    if (!view.ok()) return view.status();
    return Values<T>(*view);
  }

  [[nodiscard]] BoolColumn bools(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<BoolColumn> TryBools(absl::string_view name) const;

  [[nodiscard]] StringColumn strings(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<StringColumn> TryStrings(absl::string_view name) const;

  // Values per row: the list size of a fixed_size_list, 1 for every other type.
  [[nodiscard]] int64_t list_size(absl::string_view name) const;

  // Of any type. Nulls of the rows, not of a list's elements.
  [[nodiscard]] Validity validity(absl::string_view name) const;
  [[nodiscard]] absl::StatusOr<Validity> TryValidity(absl::string_view name) const;
  // Of a list's flattened elements.
  [[nodiscard]] Validity element_validity(absl::string_view name) const;

  // `row` must be below num_rows() (checked).
  [[nodiscard]] bool IsNull(absl::string_view name, int64_t row) const;

  [[nodiscard]] const Type& type(absl::string_view name) const;
  // The rows with all columns of the source under their own names.
  [[nodiscard]] const RecordBatch& record_batch() const { return rows_; }

 private:
  // `otherwise` is the type of a column that nobody knows.
  [[nodiscard]] absl::StatusOr<ColumnView> Find(absl::string_view name,
                                                TypeId otherwise = TypeId::kBool) const;
  // The column, or a list's elements, if of type `wanted`.
  [[nodiscard]] absl::StatusOr<ColumnView> FindValues(absl::string_view name, TypeId wanted) const;
  [[nodiscard]] absl::StatusOr<ColumnView> FindStrings(absl::string_view name) const;
  // Ends the program if not OK.
  [[nodiscard]] static ColumnView Checked(const absl::StatusOr<ColumnView>& view);

  template <FeedValue T>
  static std::span<const T> Values(ColumnView view) {
    return {view.values<T>(), static_cast<size_t>(view.length())};
  }

  RecordBatch rows_;
  BatchLayout layout_;
};

}  // namespace millrace

#endif  // FEED_BATCH_H_
