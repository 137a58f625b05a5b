#include "feed/source/tfrecord/example_batch_builder.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"
#include "feed/arrow/bitmap.h"
#include "feed/arrow/buffer.h"
#include "feed/arrow/make_record_batch.h"
#include "feed/arrow/validate.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

constexpr size_t kMaxNameInErrors = 100;
constexpr size_t kMaxGuesses = 1024;

FeatureKind KindOfValue(const Type& type) {
  switch (type.id()) {
    case TypeId::kBool:
    case TypeId::kInt8:
    case TypeId::kInt16:
    case TypeId::kInt32:
    case TypeId::kInt64:
    case TypeId::kUint8:
    case TypeId::kUint16:
    case TypeId::kUint32:
    case TypeId::kUint64:
      return FeatureKind::kInt64;
    case TypeId::kFloat32:
    case TypeId::kFloat64:
      return FeatureKind::kFloat;
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
      return FeatureKind::kBytes;
    default:
      return FeatureKind::kNone;
  }
}

absl::Status FeatureError(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("feature \"", EscapeControls(Ellipsize(name, kMaxNameInErrors)), "\": ", what));
}

absl::Status NoExample() {
  return absl::InvalidArgumentError(
      "it is no tensorflow.Example; other records are read with the option raw");
}

// Writes each of the integers as a T; the first that is none, or nullopt.
template <typename T>
std::optional<int64_t> NarrowInt64s(const std::vector<int64_t>& from, GrowingBuffer* to) {
  uint8_t* out = to->Extend(from.size() * sizeof(T));
  for (const int64_t value : from) {
    const T narrow = static_cast<T>(value);
    if (static_cast<int64_t>(narrow) != value || (std::is_unsigned_v<T> && value < 0)) return value;
    std::memcpy(out, &narrow, sizeof(narrow));
    out += sizeof(narrow);
  }
  return std::nullopt;
}

std::optional<int64_t> CopyBools(const std::vector<int64_t>& from, GrowingBuffer* to) {
  uint8_t* out = to->Extend(from.size());
  for (const int64_t value : from) {
    if (value != 0 && value != 1) return value;
    *out++ = static_cast<uint8_t>(value);
  }
  return std::nullopt;
}

std::optional<int64_t> CopyIntegers(TypeId type, const std::vector<int64_t>& from,
                                    GrowingBuffer* to) {
  switch (type) {
    case TypeId::kBool:
      return CopyBools(from, to);
    case TypeId::kInt8:
      return NarrowInt64s<int8_t>(from, to);
    case TypeId::kInt16:
      return NarrowInt64s<int16_t>(from, to);
    case TypeId::kInt32:
      return NarrowInt64s<int32_t>(from, to);
    case TypeId::kUint8:
      return NarrowInt64s<uint8_t>(from, to);
    case TypeId::kUint16:
      return NarrowInt64s<uint16_t>(from, to);
    case TypeId::kUint32:
      return NarrowInt64s<uint32_t>(from, to);
    default:
      return NarrowInt64s<uint64_t>(from, to);
  }
}

// Where a string or a list ends, behind which the next begins.
void AppendOffset(bool large, size_t end, GrowingBuffer* offsets) {
  if (large) {
    offsets->Append(static_cast<int64_t>(end));
  } else {
    offsets->Append(static_cast<int32_t>(end));
  }
}

void AppendFirstOffset(bool large, GrowingBuffer* offsets) {
  if (offsets->size() == 0) AppendOffset(large, 0, offsets);
}

}  // namespace

FeatureKind FeatureKindOf(const Type& type) {
  return KindOfValue(type.is_list() ? type.element().type : type);
}

absl::Status CheckFeatureColumns(const Schema& schema) {
  if (schema.num_columns() == 0) return absl::InvalidArgumentError("the schema has no column");
  for (const Field& field : schema.fields()) {
    if (FeatureKindOf(field.type) != FeatureKind::kNone) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "column \"", EscapeControls(Ellipsize(field.name, kMaxNameInErrors)),
        "\": a feature of tensorflow.Example holds no ", field.type.ToString(),
        "; it holds integers, bool, float32, float64, utf8, binary, and lists of these"));
  }
  return absl::OkStatus();
}

ExampleBatchBuilder::ExampleBatchBuilder(Schema schema) : schema_(std::move(schema)) {
  for (const Field& field : schema_.fields()) {
    index_.emplace(field.name, static_cast<int>(columns_.size()));
    Column& column = columns_.emplace_back();
    column.name = field.name;
    column.type = field.type;
    column.value_type = field.type.is_list() ? field.type.element().type : field.type;
    column.kind = KindOfValue(column.value_type);
    column.nullable = field.nullable;
    // A bool is counted as the byte that it is until Finish().
    const int64_t width = column.value_type.is_variable()
                              ? (column.value_type.is_large() ? 8 : 4)
                              : std::max<int64_t>(column.value_type.byte_width(), 1);
    if (field.type.is_variable_list()) {
      fixed_row_bytes_ += field.type.is_large() ? 8 : 4;
    } else {
      fixed_row_bytes_ += width * (field.type.is_fixed_size_list() ? field.type.list_size() : 1);
    }
  }
}

int ExampleBatchBuilder::FindColumn(size_t place, absl::string_view name) {
  if (place < guesses_.size() && guesses_[place].name == name) return guesses_[place].column;
  const auto found = index_.find(name);
  const int column = found == index_.end() ? -1 : found->second;
  if (place < kMaxGuesses) {
    if (place >= guesses_.size()) guesses_.resize(place + 1);
    guesses_[place].name.assign(name.data(), name.size());
    guesses_[place].column = column;
  }
  return column;
}

absl::Status ExampleBatchBuilder::Add(absl::string_view example) {
  size_t place = 0;
  merged_.clear();
  const bool read = ForEachFeature(
      example, &merged_, [this, &place](absl::string_view name, absl::string_view feature) {
        const int found = FindColumn(place++, name);
        if (found < 0) return;
        Column& column = columns_[static_cast<size_t>(found)];
        column.row_seen = rows_;
        column.feature = feature;
      });
  if (!read) return NoExample();
  for (Column& column : columns_) {
    MILLRACE_RETURN_IF_ERROR(column.row_seen == rows_ ? Append(&column) : AppendMissing(&column));
  }
  ++rows_;
  return absl::OkStatus();
}

void ExampleBatchBuilder::AddRaw(absl::string_view record) {
  Column& column = columns_.front();
  AppendFirstOffset(/*large=*/false, &column.value_offsets);
  if (!record.empty()) std::memcpy(column.data.Extend(record.size()), record.data(), record.size());
  AppendOffset(/*large=*/false, column.data.size(), &column.value_offsets);
  ++column.num_values;
  ++rows_;
}

// The feature of the row in hand.
absl::Status ExampleBatchBuilder::Append(Column* column) {
  if (!ReadFeature(column->feature, &values_)) return FeatureError(column->name, "is damaged");
  if (values_.kind == FeatureKind::kNone) return AppendMissing(column);
  if (values_.kind != column->kind) {
    return FeatureError(column->name, absl::StrCat("has ", FeatureKindName(values_.kind),
                                                   ", the column is ", column->type.ToString()));
  }
  const std::optional<size_t> count = CountValues(values_);
  if (!count.has_value()) return FeatureError(column->name, "is damaged");
  if (!column->type.is_variable_list()) {
    if (*count == 0) return AppendMissing(column);
    const size_t wanted =
        column->type.is_list() ? static_cast<size_t>(column->type.list_size()) : 1;
    if (*count != wanted) {
      return FeatureError(column->name, absl::StrCat("has ", *count, " values, the column is ",
                                                     column->type.ToString()));
    }
  }
  MILLRACE_RETURN_IF_ERROR(AppendValues(column, *count));
  EndRow(column);
  return absl::OkStatus();
}

absl::Status ExampleBatchBuilder::AppendMissing(Column* column) {
  if (!column->nullable) {
    return FeatureError(column->name, "is missing, and the column is not nullable");
  }
  column->null_rows.push_back(rows_);
  if (!column->type.is_variable_list()) {
    AppendZeros(column, column->type.is_list() ? column->type.list_size() : 1);
  }
  EndRow(column);
  return absl::OkStatus();
}

void ExampleBatchBuilder::EndRow(Column* column) {
  if (!column->type.is_variable_list()) return;
  AppendFirstOffset(column->type.is_large(), &column->list_offsets);
  AppendOffset(column->type.is_large(), static_cast<size_t>(column->num_values),
               &column->list_offsets);
}

void ExampleBatchBuilder::AppendZeros(Column* column, int64_t count) {
  column->num_values += count;
  if (!column->value_type.is_variable()) {
    const auto width = static_cast<size_t>(std::max<int64_t>(column->value_type.byte_width(), 1));
    const size_t bytes = static_cast<size_t>(count) * width;
    std::memset(column->data.Extend(bytes), 0, bytes);
    return;
  }
  const bool large = column->value_type.is_large();
  AppendFirstOffset(large, &column->value_offsets);
  for (int64_t i = 0; i < count; ++i) {
    AppendOffset(large, column->data.size(), &column->value_offsets);
  }
}

absl::Status ExampleBatchBuilder::AppendValues(Column* column, size_t count) {
  column->num_values += static_cast<int64_t>(count);
  bool ok = true;
  switch (column->value_type.id()) {
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
      return AppendBytes(column);
    case TypeId::kFloat32:
      ok =
          CopyFloats(values_, reinterpret_cast<float*>(column->data.Extend(count * sizeof(float))));
      break;
    case TypeId::kFloat64: {
      floats_.resize(count);
      ok = CopyFloats(values_, floats_.data());
      for (size_t i = 0; ok && i < count; ++i) column->data.Append(double{floats_[i]});
      break;
    }
    case TypeId::kInt64:
      ok = CopyInt64s(values_,
                      reinterpret_cast<int64_t*>(column->data.Extend(count * sizeof(int64_t))));
      break;
    default: {
      int64s_.resize(count);
      ok = CopyInt64s(values_, int64s_.data());
      if (!ok) break;
      const std::optional<int64_t> wrong =
          CopyIntegers(column->value_type.id(), int64s_, &column->data);
      if (wrong.has_value()) {
        return FeatureError(column->name, absl::StrCat("has ", *wrong, ", the column is ",
                                                       column->type.ToString()));
      }
    }
  }
  return ok ? absl::OkStatus() : FeatureError(column->name, "is damaged");
}

absl::Status ExampleBatchBuilder::AppendBytes(Column* column) {
  const bool text = column->value_type.is_utf8();
  const bool large = column->value_type.is_large();
  bool is_text = true;
  AppendFirstOffset(large, &column->value_offsets);
  const bool ok = ForEachBytes(values_, [&](absl::string_view value) {
    if (text && !IsValidUtf8(value)) return is_text = false;
    if (!value.empty()) {
      std::memcpy(column->data.Extend(value.size()), value.data(), value.size());
    }
    AppendOffset(large, column->data.size(), &column->value_offsets);
    return true;
  });
  if (!is_text) {
    return FeatureError(column->name,
                        absl::StrCat("is not UTF-8, the column is ", column->type.ToString(),
                                     "; make it binary (option binary_features, or "
                                     "the schema)"));
  }
  return ok ? absl::OkStatus() : FeatureError(column->name, "is damaged");
}

ColumnData ExampleBatchBuilder::TakeValues(Column* column, Owners* owners) {
  ColumnData values;
  values.type = column->value_type;
  values.length = std::exchange(column->num_values, 0);
  values.data_bytes = static_cast<int64_t>(column->data.size());
  if (values.type.is_variable()) {
    AppendFirstOffset(values.type.is_large(), &column->value_offsets);
    values.offsets = column->value_offsets.Take(owners);
  }
  values.data = column->data.Take(owners);
  if (values.type.id() == TypeId::kBool) {
    const uint8_t* const bytes = values.data;
    values.data_bytes = BitmapBytes(values.length);
    uint8_t* const bits = NewBuffer(values.data_bytes, owners);
    for (int64_t i = 0; i < values.length; ++i) {
      bits[i >> 3] |= static_cast<uint8_t>(bytes[i] << (i & 7));
    }
    values.data = bits;
  }
  return values;
}

ColumnData ExampleBatchBuilder::Take(Column* column, Owners* owners) {
  ColumnData values = TakeValues(column, owners);
  ColumnData* rows = &values;
  ColumnData list;
  if (column->type.is_list()) {
    list.type = column->type;
    list.length = rows_;
    if (column->type.is_variable_list()) {
      AppendFirstOffset(column->type.is_large(), &column->list_offsets);
      list.offsets = column->list_offsets.Take(owners);
    }
    list.children.push_back(std::move(values));
    rows = &list;
  }
  if (!column->null_rows.empty()) {
    uint8_t* const valid = NewBuffer(BitmapBytes(rows_), owners);
    SetBits(valid, 0, rows_, true);
    for (const int64_t row : column->null_rows) SetBits(valid, row, 1, false);
    rows->validity = valid;
    column->null_rows.clear();
  }
  return std::move(*rows);
}

RecordBatch ExampleBatchBuilder::Finish() {
  std::vector<ColumnData> columns;
  Owners owners;
  for (Column& column : columns_) {
    columns.push_back(Take(&column, &owners));
    column.row_seen = -1;
  }
  return internal::MakeRecordBatch(schema_, std::exchange(rows_, 0), std::move(columns),
                                   std::move(owners));
}

}  // namespace millrace
