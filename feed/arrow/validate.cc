#include "feed/arrow/validate.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "feed/arrow/bitmap.h"
#include "millrace/column_view.h"
#include "millrace/status_macros.h"
#include "nanoarrow/nanoarrow.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

absl::Status ColumnError(absl::string_view name, absl::string_view message) {
  return absl::InvalidArgumentError(
      absl::StrCat("column \"", EscapeControls(Ellipsize(name, 100)), "\": ", message));
}

// Points `view`, initialised from the column's schema, at the column's buffers.
void SetView(const ColumnData& column, ArrowArrayView* view) {
  view->offset = column.offset;
  view->length = column.length;
  view->null_count = column.validity == nullptr ? 0 : -1;
  const int64_t end = column.offset + column.length;
  const auto set = [view](int buffer, const uint8_t* data, int64_t size) {
    view->buffer_views[buffer].data.as_uint8 = data;
    view->buffer_views[buffer].size_bytes = data == nullptr ? 0 : size;
  };
  set(0, column.validity, BitmapBytes(end));
  if (column.type.is_variable() || column.type.is_variable_list()) {
    set(1, column.offsets, (end + 1) * (column.type.is_large() ? 8 : 4));
    if (column.type.is_variable()) set(2, column.data, column.data_bytes);
  } else if (column.type.is_primitive()) {
    set(1, column.data, column.data_bytes);
  }
  for (size_t i = 0; i < column.children.size(); ++i) {
    SetView(column.children[i], view->children[i]);
  }
}

bool HasOffsets(const Type& type) {
  if (type.is_variable() || type.is_variable_list()) return true;
  for (const Field& field : type.children()) {
    if (HasOffsets(field.type)) return true;
  }
  return false;
}

// Which row is no UTF-8; empty: none.
std::string InvalidRow(const ColumnData& column) {
  const ColumnView view(&column, 0, column.length);
  if (column.length == 0) return "";
  // All at once: the bytes of all rows together, and no row that begins within a sequence.
  const int64_t begin = view.OffsetAt(0);
  const int64_t size = view.OffsetAt(column.length) - begin;
  bool valid = size == 0 || IsValidUtf8({reinterpret_cast<const char*>(column.data) + begin,
                                         static_cast<size_t>(size)});
  for (int64_t row = 1; valid && row < column.length; ++row) {
    const int64_t at = view.OffsetAt(row);
    valid = at == column.data_bytes || at == begin + size || (column.data[at] & 0xc0) != 0x80;
  }
  if (valid) return "";
  // Otherwise row by row, since the bytes of null rows may be anything.
  for (int64_t row = 0; row < column.length; ++row) {
    if (!view.IsNull(row) && !IsValidUtf8(view.BytesAt(row))) {
      return absl::StrCat("row ", row, " is not valid UTF-8");
    }
  }
  return "";
}

// What is wrong with the text of a column and those within it; empty: nothing.
std::string InvalidText(const ColumnData& column) {
  if (column.type.is_utf8()) return InvalidRow(column);
  for (size_t i = 0; i < column.children.size(); ++i) {
    const std::string problem = InvalidText(column.children[i]);
    if (problem.empty()) continue;
    if (column.type.is_list()) return absl::StrCat("values of the list: ", problem);
    return absl::StrCat("field \"", EscapeControls(Ellipsize(column.type.children()[i].name, 100)),
                        "\": ", problem);
  }
  return "";
}

absl::Status ValidateColumn(absl::string_view name, const ArrowSchema* schema,
                            const ColumnData& column) {
  if (!HasOffsets(column.type)) return absl::OkStatus();
  ArrowError error;
  ArrowErrorInit(&error);
  nanoarrow::UniqueArrayView view;
  if (ArrowArrayViewInitFromSchema(view.get(), schema, &error) != NANOARROW_OK) {
    return ColumnError(name, error.message);
  }
  SetView(column, view.get());
  if (ArrowArrayViewValidate(view.get(), NANOARROW_VALIDATION_LEVEL_FULL, &error) != NANOARROW_OK) {
    return ColumnError(name, error.message);
  }
  const std::string problem = InvalidText(column);
  return problem.empty() ? absl::OkStatus() : ColumnError(name, problem);
}

}  // namespace

bool IsValidUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    if (i + sizeof(uint64_t) <= text.size()) {
      uint64_t word;
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        i += sizeof(word);
        continue;
      }
    }
    const size_t length = Utf8SequenceLength(text.substr(i));
    if (length == 0) return false;
    i += length;
  }
  return true;
}

absl::Status ValidateColumns(const Schema& schema, int64_t rows,
                             const std::vector<ColumnData>& columns) {
  MILLRACE_CHECK(columns.size() == static_cast<size_t>(schema.num_columns()));
  for (int i = 0; i < schema.num_columns(); ++i) {
    const ColumnData& column = columns[static_cast<size_t>(i)];
    if (column.length != rows) {
      return ColumnError(schema.name(i), absl::StrCat(column.length, " rows in a batch of ", rows));
    }
    MILLRACE_RETURN_IF_ERROR(
        ValidateColumn(schema.name(i), schema.c_schema()->children[i], column));
  }
  return absl::OkStatus();
}

}  // namespace millrace
