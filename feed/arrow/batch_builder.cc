#include "millrace/batch_builder.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/arrow/make_record_batch.h"
#include "feed/arrow/validate.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

template <typename Offset>
const uint8_t* WriteStrings(const std::vector<absl::string_view>& values, uint8_t* offsets_buffer,
                            uint8_t* data) {
  auto* offsets = reinterpret_cast<Offset*>(offsets_buffer);
  int64_t done = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    offsets[i] = static_cast<Offset>(done);
    if (!values[i].empty()) std::memcpy(data + done, values[i].data(), values[i].size());
    done += static_cast<int64_t>(values[i].size());
  }
  offsets[values.size()] = static_cast<Offset>(done);
  return offsets_buffer;
}

template <typename Offset>
const uint8_t* WriteOffsets(std::span<const int64_t> lengths, uint8_t* offsets_buffer) {
  auto* offsets = reinterpret_cast<Offset*>(offsets_buffer);
  int64_t done = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    offsets[i] = static_cast<Offset>(done);
    done += lengths[i];
  }
  offsets[lengths.size()] = static_cast<Offset>(done);
  return offsets_buffer;
}

// The rows of a view as a column of their own.
ColumnData RowsOf(const ColumnView& view) {
  ColumnData column = view.data();
  column.offset = view.first();
  column.length = view.length();
  return column;
}

}  // namespace

void BatchBuilder::Fail(absl::Status status) { status_.Update(status); }

BatchBuilder& BatchBuilder::AddData(absl::string_view name, ColumnData column,
                                    std::span<const bool> valid) {
  if (!valid.empty() && static_cast<int64_t>(valid.size()) != column.length) {
    Fail(absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": validity of ",
                                                 valid.size(), " rows for ", column.length)));
    return *this;
  }
  if (!columns_.empty() && columns_[0].length != column.length) {
    Fail(absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": ", column.length,
                                                 " rows, \"", fields_[0].name, "\" has ",
                                                 columns_[0].length)));
    return *this;
  }
  if (!valid.empty()) {
    uint8_t* bits = NewBuffer(BitmapBytes(column.length), &owners_);
    for (size_t i = 0; i < valid.size(); ++i) SetBits(bits, static_cast<int64_t>(i), 1, valid[i]);
    column.validity = bits;
  }
  fields_.push_back({std::string(name), column.type, /*nullable=*/true});
  columns_.push_back(std::move(column));
  return *this;
}

BatchBuilder& BatchBuilder::AddValues(absl::string_view name, Type type, int64_t size,
                                      const uint8_t* data, std::shared_ptr<const void> owner,
                                      std::span<const bool> valid) {
  ColumnData column;
  column.length = size;
  column.data = data;
  column.data_bytes = size * type.byte_width();
  column.type = std::move(type);
  owners_.push_back(std::move(owner));
  return AddData(name, std::move(column), valid);
}

BatchBuilder& BatchBuilder::AddListOf(absl::string_view name, ColumnData values, bool nullable,
                                      int32_t list_size, std::span<const bool> valid) {
  if (list_size <= 0 || values.length % list_size != 0) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("column \"", name, "\": ", values.length, " values in lists of ", list_size)));
    return *this;
  }
  ColumnData column;
  column.type = Type::FixedSizeList(values.type, list_size, nullable);
  column.length = values.length / list_size;
  column.children.push_back(std::move(values));
  return AddData(name, std::move(column), valid);
}

bool BatchBuilder::TakeElements(absl::string_view name, const RecordBatch& elements,
                                ColumnData* out, bool* nullable) {
  if (elements.num_columns() != 1) {
    Fail(absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": elements in ",
                                                 elements.num_columns(), " columns, not in one")));
    return false;
  }
  *out = RowsOf(elements.column(0));
  *nullable = elements.schema().field(0).nullable;
  owners_.push_back(elements.owner());
  return true;
}

BatchBuilder& BatchBuilder::AddFixedSizeList(absl::string_view name, const RecordBatch& elements,
                                             int32_t list_size, std::span<const bool> valid) {
  ColumnData values;
  bool nullable = true;
  if (!TakeElements(name, elements, &values, &nullable)) return *this;
  return AddListOf(name, std::move(values), nullable, list_size, valid);
}

BatchBuilder& BatchBuilder::AddList(absl::string_view name, std::span<const int64_t> lengths,
                                    const RecordBatch& elements, std::span<const bool> valid,
                                    bool large) {
  ColumnData values;
  bool nullable = true;
  if (!TakeElements(name, elements, &values, &nullable)) return *this;
  int64_t left = values.length;
  for (int64_t length : lengths) {
    if (length < 0 || length > left) left = -1;
    if (left >= 0) left -= length;
  }
  if (left != 0) {
    Fail(absl::InvalidArgumentError(absl::StrCat("column \"", name, "\": the lengths of ",
                                                 lengths.size(), " lists do not add up to ",
                                                 values.length, " elements")));
    return *this;
  }
  if (!large && values.length > std::numeric_limits<int32_t>::max()) {
    Fail(absl::ResourceExhaustedError(absl::StrCat("column \"", name, "\": ", values.length,
                                                   " values; a list holds at most 2^31-1, a "
                                                   "large_list more")));
    return *this;
  }
  ColumnData column;
  column.length = static_cast<int64_t>(lengths.size());
  column.type = large ? Type::LargeList(values.type, nullable) : Type::List(values.type, nullable);
  uint8_t* offsets = NewBuffer((column.length + 1) * (large ? 8 : 4), &owners_);
  column.offsets =
      large ? WriteOffsets<int64_t>(lengths, offsets) : WriteOffsets<int32_t>(lengths, offsets);
  column.children.push_back(std::move(values));
  return AddData(name, std::move(column), valid);
}

BatchBuilder& BatchBuilder::AddStruct(absl::string_view name, const RecordBatch& fields,
                                      std::span<const bool> valid) {
  ColumnData column;
  column.type = Type::Struct(fields.schema().fields());
  column.length = fields.num_rows();
  for (int i = 0; i < fields.num_columns(); ++i) {
    column.children.push_back(RowsOf(fields.column(i)));
  }
  owners_.push_back(fields.owner());
  return AddData(name, std::move(column), valid);
}

BatchBuilder& BatchBuilder::AddBools(absl::string_view name, const std::vector<bool>& values,
                                     std::span<const bool> valid) {
  ColumnData column;
  column.type = Type::Bool();
  column.length = static_cast<int64_t>(values.size());
  column.data_bytes = BitmapBytes(column.length);
  uint8_t* bits = NewBuffer(column.data_bytes, &owners_);
  for (size_t i = 0; i < values.size(); ++i) SetBits(bits, static_cast<int64_t>(i), 1, values[i]);
  column.data = bits;
  return AddData(name, std::move(column), valid);
}

BatchBuilder& BatchBuilder::AddBytes(absl::string_view name, Type type,
                                     const std::vector<absl::string_view>& values,
                                     std::span<const bool> valid) {
  int64_t bytes = 0;
  for (absl::string_view value : values) bytes += static_cast<int64_t>(value.size());
  if (!type.is_large() && bytes > std::numeric_limits<int32_t>::max()) {
    Fail(absl::ResourceExhaustedError(absl::StrCat("column \"", name, "\": ", bytes, " bytes; ",
                                                   type.ToString(),
                                                   " holds at most 2 GiB, its large form more")));
    return *this;
  }
  ColumnData column;
  column.length = static_cast<int64_t>(values.size());
  column.data_bytes = bytes;
  uint8_t* data = NewUnsetBuffer(bytes, &owners_);
  column.data = data;
  uint8_t* offsets = NewBuffer((column.length + 1) * (type.is_large() ? 8 : 4), &owners_);
  column.offsets = type.is_large() ? WriteStrings<int64_t>(values, offsets, data)
                                   : WriteStrings<int32_t>(values, offsets, data);
  column.type = std::move(type);
  return AddData(name, std::move(column), valid);
}

absl::StatusOr<RecordBatch> BatchBuilder::Build() {
  MILLRACE_RETURN_IF_ERROR(status_);
  MILLRACE_ASSIGN_OR_RETURN(Schema schema, Schema::FromFields(std::move(fields_)));
  const int64_t rows = columns_.empty() ? 0 : columns_[0].length;
  MILLRACE_RETURN_IF_ERROR(ValidateColumns(schema, rows, columns_));
  return internal::MakeRecordBatch(std::move(schema), rows, std::move(columns_),
                                   std::move(owners_));
}

}  // namespace millrace
