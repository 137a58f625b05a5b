// File: millrace/column_view.h
//
// Read access to the values of one column, where they lie.
//
// Defines: ColumnData (the buffers of a whole column), ColumnView (a range of its rows).
//
//   ColumnView label = batch.column(1);
//   for (int64_t i = 0; i < label.length(); ++i) {
//     if (!label.IsNull(i)) Use(label.values<int64_t>()[i]);
//   }
//
// A Batch (millrace/batch.h) finds columns by name and checks their types. Here a wrong type or row
// is undefined behaviour (checked in debug builds).

#ifndef MILLRACE_COLUMN_VIEW_H_
#define MILLRACE_COLUMN_VIEW_H_

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "millrace/types.h"

namespace millrace {

// The buffers of one column, as Arrow lays them out; without owner (RecordBatch keeps the memory).
// Every buffer is aligned to its values. Row i is value offset + i of the buffers.
struct ColumnData {
  Type type;
  int64_t offset = 0;
  int64_t length = 0;
  // One bit per row, 1 = valid. Null: there are no nulls.
  const uint8_t* validity = nullptr;
  // int32_t, or int64_t if type.is_large(); offset + length + 1 of them, or null if length is 0.
  // Strings, list and large_list only.
  const uint8_t* offsets = nullptr;
  // Values, a bitmap for bool, the bytes of strings. May be null if there are none.
  const uint8_t* data = nullptr;
  // Bytes at `data`.
  int64_t data_bytes = 0;
  // Lists: one child; the values of row i are its rows (offset + i) * list_size up to the next
  // row's in a fixed_size_list, offsets[offset + i] up to offsets[offset + i + 1] otherwise.
  // Structs: one child per field, of whose rows offset + i belongs to row i.
  std::vector<ColumnData> children;
};

// Ownership: none; valid while the RecordBatch (or a slice of it) that gave it lives.
// Thread safety: immutable.
class ColumnView {
 public:
  ColumnView() = default;
  // Rows [first, first + length) of `data`.
  ColumnView(const ColumnData* data, int64_t first, int64_t length)
      : data_(data), first_(data->offset + first), length_(length) {}

  [[nodiscard]] const Type& type() const { return data_->type; }
  [[nodiscard]] int64_t length() const { return length_; }

  // False: no row is null. True: some may be.
  [[nodiscard]] bool may_have_nulls() const { return data_->validity != nullptr; }
  [[nodiscard]] bool IsNull(int64_t row) const {
    assert(row >= 0 && row < length_);
    return data_->validity != nullptr && !Bit(data_->validity, first_ + row);
  }
  // Takes time in proportion to length() / 64.
  [[nodiscard]] int64_t CountNulls() const;

  // The value of row 0 and those after it; numbers only (T as millrace/types.h maps it).
  template <FeedValue T>
  [[nodiscard]] const T* values() const {
    assert(type().id() == TypeIdOf<T>::value);
    return data_->data == nullptr ? nullptr : reinterpret_cast<const T*>(data_->data) + first_;
  }
  // bool only.
  [[nodiscard]] bool BoolAt(int64_t row) const {
    assert(type().id() == TypeId::kBool && row >= 0 && row < length_);
    return Bit(data_->data, first_ + row);
  }
  // Strings only. A null row has any text, mostly empty.
  [[nodiscard]] absl::string_view BytesAt(int64_t row) const {
    assert(type().is_variable() && row >= 0 && row < length_);
    const int64_t begin = OffsetAt(row);
    const int64_t size = OffsetAt(row + 1) - begin;
    if (size == 0) return absl::string_view();
    return {reinterpret_cast<const char*>(data_->data) + begin, static_cast<size_t>(size)};
  }
  // Strings, list and large_list only: where the bytes of `row` begin in the data buffer, its
  // values in the child; `row` may be length().
  [[nodiscard]] int64_t OffsetAt(int64_t row) const {
    if (data_->offsets == nullptr) return 0;
    const int64_t at = first_ + row;
    return data_->type.is_large() ? reinterpret_cast<const int64_t*>(data_->offsets)[at]
                                  : reinterpret_cast<const int32_t*>(data_->offsets)[at];
  }
  // Lists only: the values of all rows one after the other; length() * list_size() of them in a
  // fixed_size_list.
  [[nodiscard]] ColumnView Elements() const { return ElementsOf(0, length_); }
  // Lists only: the values of one row. A null row has any number, mostly none.
  [[nodiscard]] ColumnView ListAt(int64_t row) const {
    assert(type().is_list() && row >= 0 && row < length_);
    return ElementsOf(row, row + 1);
  }
  // Structs only: one field, as many rows. Of a null row it has any value.
  [[nodiscard]] ColumnView Child(size_t field) const {
    assert(type().is_struct() && field < data_->children.size());
    return ColumnView(&data_->children[field], first_, length_);
  }

  // Bytes that these rows take in Arrow's layout, without padding.
  [[nodiscard]] int64_t byte_size() const;

  // The buffers as they are; row 0 is value (bit) position first().
  [[nodiscard]] const ColumnData& data() const { return *data_; }
  [[nodiscard]] int64_t first() const { return first_; }

 private:
  ColumnView ElementsOf(int64_t begin, int64_t end) const {
    const ColumnData* child = &data_->children[0];
    if (data_->type.is_fixed_size_list()) {
      const int64_t size = data_->type.list_size();
      return ColumnView(child, (first_ + begin) * size, (end - begin) * size);
    }
    const int64_t from = OffsetAt(begin);
    return ColumnView(child, from, OffsetAt(end) - from);
  }
  static bool Bit(const uint8_t* bits, int64_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }

  const ColumnData* data_ = nullptr;
  int64_t first_ = 0;
  int64_t length_ = 0;
};

}  // namespace millrace

#endif  // MILLRACE_COLUMN_VIEW_H_
