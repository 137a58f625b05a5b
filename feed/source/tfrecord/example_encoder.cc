#include "feed/source/tfrecord/example_encoder.h"

#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "feed/source/tfrecord/example_batch_builder.h"
#include "feed/source/tfrecord/example_wire.h"
#include "millrace/status_macros.h"

namespace millrace {
namespace {

// All tags of an Example are one byte.
constexpr char LengthTag(uint32_t field) {
  return static_cast<char>(WireCursor::Tag(field, WireCursor::kLength));
}

size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// A field of `size` bytes, with its tag and its length.
size_t FieldBytes(size_t size) { return 1 + VarintBytes(size) + size; }

char* WriteVarint(uint64_t value, char* to) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

char* WriteLength(uint32_t field, size_t size, char* to) {
  *to++ = LengthTag(field);
  return WriteVarint(size, to);
}

char* WriteBytes(absl::string_view bytes, char* to) {
  if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

// Calls take(value) with each integer as the bits of an int64.
template <typename F>
void ForEachInteger(const ColumnView& values, F take) {
  const int64_t length = values.length();
  const auto all = [&values, length, &take]<typename T>(T) {
    const T* const first = values.values<T>();
    for (int64_t i = 0; i < length; ++i) {
      take(static_cast<uint64_t>(static_cast<int64_t>(first[i])));
    }
  };
  switch (values.type().id()) {
    case TypeId::kBool:
      for (int64_t i = 0; i < length; ++i) take(uint64_t{values.BoolAt(i)});
      return;
    case TypeId::kInt8:
      return all(int8_t{});
    case TypeId::kInt16:
      return all(int16_t{});
    case TypeId::kInt32:
      return all(int32_t{});
    case TypeId::kUint8:
      return all(uint8_t{});
    case TypeId::kUint16:
      return all(uint16_t{});
    case TypeId::kUint32:
      return all(uint32_t{});
    case TypeId::kUint64:
      return all(uint64_t{});
    default:
      return all(int64_t{});
  }
}

// What a list message holds: one field of packed numbers, or one for each string.
size_t ListBytes(FeatureKind kind, size_t payload_bytes) {
  if (kind == FeatureKind::kBytes) return payload_bytes;
  return payload_bytes == 0 ? 0 : FieldBytes(payload_bytes);
}

char* WriteFloats(const ColumnView& values, char* to) {
  const auto bytes = static_cast<size_t>(values.length()) * sizeof(float);
  if (values.type().id() == TypeId::kFloat32) {
    return WriteBytes({reinterpret_cast<const char*>(values.values<float>()), bytes}, to);
  }
  const double* const first = values.values<double>();
  for (int64_t i = 0; i < values.length(); ++i) {
    const auto narrow = static_cast<float>(first[i]);
    std::memcpy(to, &narrow, sizeof(narrow));
    to += sizeof(narrow);
  }
  return to;
}

char* WriteValues(FeatureKind kind, const ColumnView& values, size_t payload_bytes, char* to) {
  if (kind == FeatureKind::kBytes) {
    for (int64_t i = 0; i < values.length(); ++i) {
      const absl::string_view value = values.BytesAt(i);
      to = WriteBytes(value, WriteLength(1, value.size(), to));
    }
    return to;
  }
  if (payload_bytes == 0) return to;
  to = WriteLength(1, payload_bytes, to);
  if (kind == FeatureKind::kFloat) return WriteFloats(values, to);
  ForEachInteger(values, [&to](uint64_t value) { to = WriteVarint(value, to); });
  return to;
}

}  // namespace

ExampleEncoder::ExampleEncoder(const Schema& schema) {
  for (const Field& field : schema.fields()) {
    Column& column = columns_.emplace_back();
    column.name = field.name;
    column.name_field.resize(FieldBytes(field.name.size()));
    WriteBytes(field.name, WriteLength(1, field.name.size(), column.name_field.data()));
  }
}

void ExampleEncoder::Begin(const RecordBatch& batch) {
  for (size_t i = 0; i < columns_.size(); ++i) {
    columns_[i].view = batch.column(static_cast<int>(i));
  }
}

absl::Status ExampleEncoder::Measure(int64_t row, Column* column) {
  column->missing = column->view.IsNull(row);
  if (column->missing) return absl::OkStatus();
  const ColumnView& view = column->view;
  const auto error = [column](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("column \"", EscapeControls(Ellipsize(column->name, 100)), "\" has ", what));
  };
  column->values = view.type().is_list()
                       ? view.ListAt(row)
                       : ColumnView(&view.data(), view.first() - view.data().offset + row, 1);
  const ColumnView& values = column->values;
  if (view.type().is_list() && values.may_have_nulls() && values.CountNulls() > 0) {
    return error("a null within a list; an Example cannot hold it");
  }
  column->payload_bytes = 0;
  switch (FeatureKindOf(values.type())) {
    case FeatureKind::kBytes:
      for (int64_t i = 0; i < values.length(); ++i) {
        column->payload_bytes += FieldBytes(values.BytesAt(i).size());
      }
      break;
    case FeatureKind::kFloat:
      column->payload_bytes = static_cast<size_t>(values.length()) * sizeof(float);
      break;
    default: {
      uint64_t all = 0;
      ForEachInteger(values, [column, &all](uint64_t value) {
        all |= value;
        column->payload_bytes += VarintBytes(value);
      });
      if (values.type().id() == TypeId::kUint64 && all >> 63 != 0) {
        return error("a uint64 of 2^63 or more; an Example holds int64");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ExampleEncoder::Encode(int64_t row, std::string* example) {
  size_t features = 0;
  for (Column& column : columns_) {
    MILLRACE_RETURN_IF_ERROR(Measure(row, &column));
    if (column.missing) continue;
    const FeatureKind kind = FeatureKindOf(column.values.type());
    const size_t feature = FieldBytes(ListBytes(kind, column.payload_bytes));
    features += FieldBytes(column.name_field.size() + FieldBytes(feature));
  }
  example->resize(FieldBytes(features));
  char* to = WriteLength(1, features, example->data());
  for (const Column& column : columns_) {
    if (column.missing) continue;
    const FeatureKind kind = FeatureKindOf(column.values.type());
    const size_t list = ListBytes(kind, column.payload_bytes);
    const size_t feature = FieldBytes(list);
    to = WriteLength(1, column.name_field.size() + FieldBytes(feature), to);
    to = WriteBytes(column.name_field, to);
    to = WriteLength(2, feature, to);
    to = WriteLength(static_cast<uint32_t>(kind), list, to);
    to = WriteValues(kind, column.values, column.payload_bytes, to);
  }
  return absl::OkStatus();
}

}  // namespace millrace
