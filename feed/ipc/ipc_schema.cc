// Schema messages of feed/ipc/ipc.h.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text.h"
#include "feed/arrow/validate.h"
#include "feed/ipc/flatbuffer.h"
#include "feed/ipc/ipc.h"
#include "feed/ipc/ipc_message.h"
#include "millrace/schema.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.hpp"
#include "nanoarrow/nanoarrow_ipc.hpp"

namespace millrace {
namespace {

// No writer makes a field, its entry in the vector included, with fewer bytes than this; a message
// that seems to have more fields refers to the same ones again and again.
constexpr size_t kMinFieldBytes = 16;

absl::string_view TypeTypeName(uint8_t type) {
  static constexpr absl::string_view kNames[] = {"none",
                                                 "null",
                                                 "int",
                                                 "floating_point",
                                                 "binary",
                                                 "utf8",
                                                 "bool",
                                                 "decimal",
                                                 "date",
                                                 "time",
                                                 "timestamp",
                                                 "interval",
                                                 "list",
                                                 "struct",
                                                 "union",
                                                 "fixed_size_binary",
                                                 "fixed_size_list",
                                                 "map",
                                                 "duration",
                                                 "large_binary",
                                                 "large_utf8",
                                                 "large_list",
                                                 "run_end_encoded",
                                                 "binary_view",
                                                 "utf8_view",
                                                 "list_view",
                                                 "large_list_view"};
  return type < std::size(kNames) ? kNames[type] : "unknown";
}

// Reads the fields of one Schema message.
class SchemaReader {
 public:
  explicit SchemaReader(size_t message_bytes) : bytes_left_(message_bytes) {}

  absl::StatusOr<Field> ReadField(const FlatTable& table, int depth) {
    if (depth > kMaxNesting) {
      return absl::InvalidArgumentError(absl::StrCat("fields nested deeper than ", kMaxNesting));
    }
    MILLRACE_RETURN_IF_ERROR(Charge(kMinFieldBytes));
    Field field;
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<absl::string_view> name,
                              table.String(arrow_ipc::field::kName));
    if (name.has_value()) {
      MILLRACE_RETURN_IF_ERROR(Charge(name->size()));
      if (!IsValidUtf8(*name)) {
        return absl::InvalidArgumentError("malformed flatbuffer: a field's name is not UTF-8");
      }
      field.name = std::string(*name);
    }
    if (depth == 1) column_ = field.name;
    MILLRACE_ASSIGN_OR_RETURN(const uint8_t nullable,
                              table.Scalar<uint8_t>(arrow_ipc::field::kNullable, 0));
    field.nullable = nullable != 0;
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatTable> dictionary,
                              table.Table(arrow_ipc::field::kDictionary));
    if (dictionary.has_value()) return Unsupported("dictionary");
    MILLRACE_ASSIGN_OR_RETURN(field.type, ReadType(table, depth));
    return field;
  }

 private:
  // What the message claims to hold must fit into the message, however it refers to itself.
  absl::Status Charge(size_t bytes) {
    if (bytes > bytes_left_) {
      return absl::InvalidArgumentError("malformed flatbuffer: more fields than bytes");
    }
    bytes_left_ -= bytes;
    return absl::OkStatus();
  }

  absl::Status Unsupported(absl::string_view type) const {
    return absl::UnimplementedError(absl::StrCat("column \"",
                                                 EscapeControls(Ellipsize(column_, 100)),
                                                 "\": type ", type, " is not supported by feeds"));
  }

  absl::StatusOr<Type> ReadType(const FlatTable& field, int depth) {
    MILLRACE_ASSIGN_OR_RETURN(const uint8_t type_type,
                              field.Scalar<uint8_t>(arrow_ipc::field::kTypeType, 0));
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatTable> type,
                              field.Table(arrow_ipc::field::kType));
    if (!type.has_value()) {
      return absl::InvalidArgumentError("malformed flatbuffer: a field without a type");
    }
    switch (type_type) {
      case arrow_ipc::kBool:
        return Type::Bool();
      case arrow_ipc::kUtf8:
        return Type::Utf8();
      case arrow_ipc::kLargeUtf8:
        return Type::LargeUtf8();
      case arrow_ipc::kBinary:
        return Type::Binary();
      case arrow_ipc::kLargeBinary:
        return Type::LargeBinary();
      case arrow_ipc::kInt:
        return ReadInt(*type);
      case arrow_ipc::kFloatingPoint:
        return ReadFloat(*type);
      case arrow_ipc::kDate:
        return ReadDate(*type);
      case arrow_ipc::kTimestamp:
        return ReadTimestamp(*type);
      case arrow_ipc::kList:
      case arrow_ipc::kLargeList:
      case arrow_ipc::kFixedSizeList:
        return ReadList(field, type_type, *type, depth);
      case arrow_ipc::kStruct:
        return ReadStruct(field, depth);
      default:
        return Unsupported(TypeTypeName(type_type));
    }
  }

  absl::StatusOr<Type> ReadInt(const FlatTable& type) const {
    MILLRACE_ASSIGN_OR_RETURN(const int32_t bits, type.Scalar<int32_t>(0, 0));
    MILLRACE_ASSIGN_OR_RETURN(const uint8_t is_signed, type.Scalar<uint8_t>(1, 0));
    switch (bits) {
      case 8:
        return is_signed != 0 ? Type::Int8() : Type::Uint8();
      case 16:
        return is_signed != 0 ? Type::Int16() : Type::Uint16();
      case 32:
        return is_signed != 0 ? Type::Int32() : Type::Uint32();
      case 64:
        return is_signed != 0 ? Type::Int64() : Type::Uint64();
      default:
        return Unsupported(absl::StrCat("int of ", bits, " bits"));
    }
  }

  absl::StatusOr<Type> ReadFloat(const FlatTable& type) const {
    MILLRACE_ASSIGN_OR_RETURN(const int16_t precision, type.Scalar<int16_t>(0, 0));
    switch (precision) {
      case 0:
        return Type::Float16();
      case 1:
        return Type::Float32();
      case 2:
        return Type::Float64();
      default:
        return Unsupported(absl::StrCat("floating_point of precision ", precision));
    }
  }

  absl::StatusOr<Type> ReadDate(const FlatTable& type) const {
    MILLRACE_ASSIGN_OR_RETURN(const int16_t unit,
                              type.Scalar<int16_t>(0, arrow_ipc::kDateMillisecond));
    switch (unit) {
      case arrow_ipc::kDateDay:
        return Type::Date32();
      case arrow_ipc::kDateMillisecond:
        return Type::Date64();
      default:
        return Unsupported(absl::StrCat("date of unit ", unit));
    }
  }

  absl::StatusOr<Type> ReadTimestamp(const FlatTable& type) {
    MILLRACE_ASSIGN_OR_RETURN(const int16_t unit, type.Scalar<int16_t>(0, 0));
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<absl::string_view> zone, type.String(1));
    if (unit < 0 || unit > static_cast<int16_t>(TimeUnit::kNano)) {
      return Unsupported(absl::StrCat("timestamp of unit ", unit));
    }
    MILLRACE_RETURN_IF_ERROR(Charge(zone.value_or("").size()));
    if (!IsValidUtf8(zone.value_or(""))) {
      return absl::InvalidArgumentError("malformed flatbuffer: a time zone is not UTF-8");
    }
    return Type::Timestamp(static_cast<TimeUnit>(unit), zone.value_or(""));
  }

  absl::StatusOr<std::vector<Field>> ReadChildren(const FlatTable& field, int depth) {
    MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatVector> tables,
                              field.Vector(arrow_ipc::field::kChildren, 4));
    std::vector<Field> children;
    for (size_t i = 0; i < (tables.has_value() ? tables->size() : 0); ++i) {
      MILLRACE_ASSIGN_OR_RETURN(const FlatTable table, tables->Table(i));
      MILLRACE_ASSIGN_OR_RETURN(Field child, ReadField(table, depth + 1));
      children.push_back(std::move(child));
    }
    return children;
  }

  absl::StatusOr<Type> ReadList(const FlatTable& field, uint8_t type_type, const FlatTable& type,
                                int depth) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<Field> children, ReadChildren(field, depth));
    if (children.size() != 1) {
      return absl::InvalidArgumentError(absl::StrCat("malformed flatbuffer: a ",
                                                     TypeTypeName(type_type),
                                                     " without exactly one element type"));
    }
    Field& element = children[0];
    if (type_type == arrow_ipc::kList) return Type::List(std::move(element.type), element.nullable);
    if (type_type == arrow_ipc::kLargeList) {
      return Type::LargeList(std::move(element.type), element.nullable);
    }
    MILLRACE_ASSIGN_OR_RETURN(const int32_t list_size, type.Scalar<int32_t>(0, 0));
    return Type::FixedSizeList(std::move(element.type), list_size, element.nullable);
  }

  absl::StatusOr<Type> ReadStruct(const FlatTable& field, int depth) {
    MILLRACE_ASSIGN_OR_RETURN(std::vector<Field> fields, ReadChildren(field, depth));
    return Type::Struct(std::move(fields));
  }

  size_t bytes_left_;
  std::string column_;  // the one being read, for messages
};

absl::Status FromNanoarrow(int code, const ArrowError& error) {
  if (code == NANOARROW_OK) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("encoding a schema: ", error.message));
}

}  // namespace

absl::StatusOr<Schema> DecodeSchema(absl::string_view message) {
  if (message.size() > kMaxSchemaMessageBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a Schema message of ", message.size(),
                                                   " bytes; at most ", kMaxSchemaMessageBytes,
                                                   " are allowed"));
  }
  MILLRACE_ASSIGN_OR_RETURN(const EncapsulatedMessage envelope,
                            ReadMessage(message, arrow_ipc::kSchemaHeader));
  MILLRACE_ASSIGN_OR_RETURN(const int16_t endianness,
                            envelope.header.Scalar<int16_t>(arrow_ipc::schema::kEndianness, 0));
  if (endianness != 0) return absl::InvalidArgumentError("the schema is not little-endian");
  MILLRACE_ASSIGN_OR_RETURN(const std::optional<FlatVector> columns,
                            envelope.header.Vector(arrow_ipc::schema::kFields, 4));
  const size_t count = columns.has_value() ? columns->size() : 0;
  if (count > static_cast<size_t>(kMaxColumns)) {
    return absl::InvalidArgumentError(
        absl::StrCat(count, " columns; a feed has at most ", kMaxColumns));
  }
  SchemaReader reader(message.size());
  std::vector<Field> fields;
  for (size_t i = 0; i < count; ++i) {
    MILLRACE_ASSIGN_OR_RETURN(const FlatTable table, columns->Table(i));
    MILLRACE_ASSIGN_OR_RETURN(Field field, reader.ReadField(table, 1));
    fields.push_back(std::move(field));
  }
  absl::StatusOr<Schema> schema = Schema::FromFields(std::move(fields));
  // The errors that are left are not damage: other users of Arrow may well have such schemas.
  if (!schema.ok()) return absl::UnimplementedError(schema.status().message());
  return schema;
}

absl::StatusOr<std::string> EncodeSchema(const Schema& schema) {
  ArrowError error;
  ArrowErrorInit(&error);
  nanoarrow::ipc::UniqueEncoder encoder;
  nanoarrow::UniqueBuffer buffer;
  MILLRACE_RETURN_IF_ERROR(FromNanoarrow(ArrowIpcEncoderInit(encoder.get()), error));
  MILLRACE_RETURN_IF_ERROR(
      FromNanoarrow(ArrowIpcEncoderEncodeSchema(encoder.get(), schema.c_schema(), &error), error));
  MILLRACE_RETURN_IF_ERROR(FromNanoarrow(
      ArrowIpcEncoderFinalizeBuffer(encoder.get(), /*encapsulate=*/1, buffer.get()), error));
  if (static_cast<size_t>(buffer->size_bytes) > kMaxSchemaMessageBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("the schema takes ", buffer->size_bytes,
                                                     " bytes as a message; at most ",
                                                     kMaxSchemaMessageBytes, " are allowed"));
  }
  return std::string(reinterpret_cast<const char*>(buffer->data),
                     static_cast<size_t>(buffer->size_bytes));
}

}  // namespace millrace
