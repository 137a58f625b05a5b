#include "feed/source/csv_columns.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/arrow/make_record_batch.h"
#include "feed/arrow/validate.h"
#include "millrace/column_view.h"

namespace millrace {
namespace {

// from_chars takes no plus sign; one is dropped if a number follows.
absl::string_view WithoutPlus(absl::string_view field) {
  if (field.size() > 1 && field[0] == '+' && field[1] != '-' && field[1] != '+') {
    field.remove_prefix(1);
  }
  return field;
}

template <typename T>
bool ParseInt(absl::string_view field, T* value) {
  field = WithoutPlus(field);
  const char* const end = field.data() + field.size();
  const std::from_chars_result result = std::from_chars(field.data(), end, *value);
  return result.ec == std::errc() && result.ptr == end;
}

// Out of range is infinity or zero, as strtod has it.
template <typename T>
bool ParseFloat(absl::string_view field, T* value) {
  field = WithoutPlus(field);
  const char* const end = field.data() + field.size();
  const absl::from_chars_result result = absl::from_chars(field.data(), end, *value);
  if (result.ec == std::errc::result_out_of_range && std::abs(*value) > 1) {
    *value = std::copysign(std::numeric_limits<T>::infinity(), *value);
  }
  return result.ec != std::errc::invalid_argument && result.ptr == end && !field.empty();
}

template <typename T>
bool AppendInt(absl::string_view field, std::string* data) {
  T value = 0;
  if (!ParseInt(field, &value)) return false;
  data->append(reinterpret_cast<const char*>(&value), sizeof(value));
  return true;
}

template <typename T>
bool AppendFloat(absl::string_view field, std::string* data) {
  T value = 0;
  if (!ParseFloat(field, &value)) return false;
  data->append(reinterpret_cast<const char*>(&value), sizeof(value));
  return true;
}

bool AppendBool(absl::string_view field, std::vector<bool>* bools) {
  const bool value = field == "true" || field == "1";
  if (!value && field != "false" && field != "0") return false;
  bools->push_back(value);
  return true;
}

bool AppendNumber(TypeId type, absl::string_view field, std::string* data) {
  switch (type) {
    case TypeId::kInt8:
      return AppendInt<int8_t>(field, data);
    case TypeId::kInt16:
      return AppendInt<int16_t>(field, data);
    case TypeId::kInt32:
      return AppendInt<int32_t>(field, data);
    case TypeId::kInt64:
      return AppendInt<int64_t>(field, data);
    case TypeId::kUint8:
      return AppendInt<uint8_t>(field, data);
    case TypeId::kUint16:
      return AppendInt<uint16_t>(field, data);
    case TypeId::kUint32:
      return AppendInt<uint32_t>(field, data);
    case TypeId::kUint64:
      return AppendInt<uint64_t>(field, data);
    case TypeId::kFloat32:
      return AppendFloat<float>(field, data);
    case TypeId::kFloat64:
      return AppendFloat<double>(field, data);
    default:
      return false;
  }
}

// "an int64", "a float32", "valid UTF-8".
std::string Describe(const Type& type) {
  if (type.is_utf8()) return "valid UTF-8";
  const absl::string_view name = TypeIdName(type.id());
  return absl::StrCat(name[0] == 'i' ? "an " : "a ", name);
}

const uint8_t* Bits(const std::vector<bool>& values,
                    std::vector<std::shared_ptr<const void>>* owners) {
  uint8_t* bits = NewBuffer(BitmapBytes(static_cast<int64_t>(values.size())), owners);
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i]) bits[i >> 3] |= static_cast<uint8_t>(1u << (i & 7));
  }
  return bits;
}

// The memory of `values`, which `owners` keeps.
template <typename T>
const uint8_t* Adopt(T values, std::vector<std::shared_ptr<const void>>* owners) {
  auto kept = std::make_shared<const T>(std::move(values));
  const auto* data = reinterpret_cast<const uint8_t*>(kept->data());
  owners->push_back(std::move(kept));
  return data;
}

}  // namespace

bool ParsesAsInt64(absl::string_view field) {
  int64_t value;
  return ParseInt(field, &value);
}

bool ParsesAsFloat64(absl::string_view field) {
  double value;
  return ParseFloat(field, &value);
}

bool IsCsvType(const Type& type) {
  return type.is_variable() ||
         (type.is_primitive() && !type.is_time() && type.id() != TypeId::kFloat16);
}

CsvBatchBuilder::CsvBatchBuilder(Schema schema, const std::vector<CsvColumn>* columns)
    : schema_(std::move(schema)), columns_(columns) {
  for (const CsvColumn& column : *columns_) {
    values_.emplace_back();
    values_.back().type = column.type.is_list() ? column.type.element().type : column.type;
  }
}

bool CsvBatchBuilder::Append(absl::string_view field, Values* values) {
  const Type& type = values->type;
  const bool null = field.empty() && !type.is_variable();
  if (type.is_variable()) {
    if (type.is_utf8() && !IsValidUtf8(field)) return false;
    values->data.append(field.data(), field.size());
    const size_t end = values->data.size();
    if (type.is_large()) {
      values->large_offsets.push_back(static_cast<int64_t>(end));
    } else {
      values->offsets.push_back(static_cast<int32_t>(end));
    }
  } else if (type.id() == TypeId::kBool) {
    if (null) {
      values->bools.push_back(false);
    } else if (!AppendBool(field, &values->bools)) {
      return false;
    }
  } else if (null) {
    values->data.append(static_cast<size_t>(type.byte_width()), '\0');
  } else if (!AppendNumber(type.id(), field, &values->data)) {
    return false;
  }
  ++values->length;
  values->nulls += null ? 1 : 0;
  values->valid.push_back(!null);
  return true;
}

absl::Status CsvBatchBuilder::Add(const std::vector<absl::string_view>& fields) {
  for (size_t i = 0; i < columns_->size(); ++i) {
    const CsvColumn& column = (*columns_)[i];
    for (size_t j = 0; j < column.fields.size(); ++j) {
      const absl::string_view field = fields[static_cast<size_t>(column.fields[j])];
      if (!Append(field, &values_[i])) {
        return absl::InvalidArgumentError(absl::StrCat(
            "column \"", EscapeControls(Ellipsize(column.field_names[j], 100)), "\": \"",
            EscapeControls(Ellipsize(field, 100)), "\" is not ", Describe(values_[i].type)));
      }
    }
  }
  ++rows_;
  return absl::OkStatus();
}

ColumnData CsvBatchBuilder::Take(Values* values, std::vector<std::shared_ptr<const void>>* owners) {
  Values taken;
  taken.type = values->type;
  std::swap(taken, *values);
  ColumnData column;
  column.type = taken.type;
  column.length = taken.length;
  if (taken.nulls > 0) column.validity = Bits(taken.valid, owners);
  if (taken.type.id() == TypeId::kBool) {
    column.data = Bits(taken.bools, owners);
    column.data_bytes = BitmapBytes(taken.length);
    return column;
  }
  if (taken.type.is_variable()) {
    // Ends were collected; the first beginning is 0.
    taken.offsets.insert(taken.offsets.begin(), 0);
    taken.large_offsets.insert(taken.large_offsets.begin(), 0);
    column.offsets = taken.type.is_large() ? Adopt(std::move(taken.large_offsets), owners)
                                           : Adopt(std::move(taken.offsets), owners);
  }
  column.data_bytes = static_cast<int64_t>(taken.data.size());
  uint8_t* data = NewUnsetBuffer(column.data_bytes, owners);  // aligned, as a short string is not
  if (!taken.data.empty()) std::memcpy(data, taken.data.data(), taken.data.size());
  column.data = data;
  return column;
}

RecordBatch CsvBatchBuilder::Finish() {
  std::vector<ColumnData> columns;
  std::vector<std::shared_ptr<const void>> owners;
  for (size_t i = 0; i < columns_->size(); ++i) {
    ColumnData values = Take(&values_[i], &owners);
    const Type& type = (*columns_)[i].type;
    if (!type.is_list()) {
      columns.push_back(std::move(values));
      continue;
    }
    ColumnData list;
    list.type = type;
    list.length = rows_;
    list.children.push_back(std::move(values));
    columns.push_back(std::move(list));
  }
  return internal::MakeRecordBatch(schema_, std::exchange(rows_, 0), std::move(columns),
                                   std::move(owners));
}

}  // namespace millrace
