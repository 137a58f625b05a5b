#include "millrace/schema.h"

#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "millrace/status_macros.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

// A column's name as it may appear in a message: short, and harmless to a terminal.
std::string Quoted(absl::string_view name) {
  return absl::StrCat("\"", EscapeControls(Ellipsize(name, 100)), "\"");
}

absl::Status Unsupported(absl::string_view column, absl::string_view type) {
  return absl::InvalidArgumentError(absl::StrCat("column ", Quoted(column), ": type ",
                                                 EscapeControls(Ellipsize(type, 200)),
                                                 " is not supported by feeds"));
}

// Text that C strings, and thus the C Data Interface, can hold.
bool IsPlainText(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8SequenceLength(text.substr(i));
    if (length == 0 || text[i] == '\0') return false;
    i += length;
  }
  return true;
}

absl::Status CheckName(absl::string_view name) {
  if (IsPlainText(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("column name ", Quoted(name), " is not UTF-8 text without NUL"));
}

absl::Status TooDeep(absl::string_view column) {
  return absl::InvalidArgumentError(
      absl::StrCat("column ", Quoted(column), ": nested deeper than ", kMaxNesting));
}

absl::Status CheckType(absl::string_view column, const Type& type, int depth);

absl::Status CheckFields(absl::string_view column, const Type& type, int depth) {
  if (type.children().empty() || type.children().size() > static_cast<size_t>(kMaxColumns)) {
    return Unsupported(column, absl::StrCat("struct of ", type.children().size(), " fields"));
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const Field& field : type.children()) {
    if (!IsPlainText(field.name)) {
      return absl::InvalidArgumentError(absl::StrCat("column ", Quoted(column), ": field name ",
                                                     Quoted(field.name),
                                                     " is not UTF-8 text without NUL"));
    }
    if (!names.insert(field.name).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "column ", Quoted(column), ": two fields have the name ", Quoted(field.name)));
    }
    MILLRACE_RETURN_IF_ERROR(CheckType(column, field.type, depth + 1));
  }
  return absl::OkStatus();
}

absl::Status CheckType(absl::string_view column, const Type& type, int depth) {
  if (depth > kMaxNesting) return TooDeep(column);
  if (type.is_struct()) return CheckFields(column, type, depth);
  if (type.id() == TypeId::kTimestamp && !IsPlainText(type.time_zone())) {
    return absl::InvalidArgumentError(absl::StrCat("column ", Quoted(column), ": time zone ",
                                                   Quoted(type.time_zone()),
                                                   " is not UTF-8 text without NUL"));
  }
  if (!type.is_list()) return absl::OkStatus();
  // More values per row than a batch may have together: no row could be sent, and sizes overflow.
  int64_t values = 1;
  for (const Type* list = &type; list->is_fixed_size_list(); list = &list->element().type) {
    values *= list->list_size();
    if (values < 1 || values > std::numeric_limits<int32_t>::max()) {
      return Unsupported(column, type.ToString());
    }
  }
  return CheckType(column, type.element().type, depth + 1);
}

absl::StatusOr<Type> TypeFromArrow(absl::string_view column, const ArrowSchema& schema, int depth);

absl::StatusOr<Field> FieldFromArrow(absl::string_view column, const ArrowSchema& schema,
                                     int depth) {
  Field field;
  field.name = schema.name == nullptr ? "" : schema.name;
  field.nullable = (schema.flags & ARROW_FLAG_NULLABLE) != 0;
  MILLRACE_ASSIGN_OR_RETURN(field.type, TypeFromArrow(column, schema, depth));
  return field;
}

// The type of a C Data Interface schema node.
absl::StatusOr<Type> TypeFromArrow(absl::string_view column, const ArrowSchema& schema, int depth) {
  if (depth > kMaxNesting) return TooDeep(column);
  ArrowError error;
  ArrowErrorInit(&error);
  ArrowSchemaView view;
  if (ArrowSchemaViewInit(&view, &schema, &error) != NANOARROW_OK) {
    return absl::InvalidArgumentError(
        absl::StrCat("column ", Quoted(column), ": ", EscapeControls(error.message)));
  }
  // view.type, unlike storage_type, tells a dictionary and a timestamp from an integer.
  switch (view.type) {
    case NANOARROW_TYPE_BOOL:
      return Type::Bool();
    case NANOARROW_TYPE_INT8:
      return Type::Int8();
    case NANOARROW_TYPE_INT16:
      return Type::Int16();
    case NANOARROW_TYPE_INT32:
      return Type::Int32();
    case NANOARROW_TYPE_INT64:
      return Type::Int64();
    case NANOARROW_TYPE_UINT8:
      return Type::Uint8();
    case NANOARROW_TYPE_UINT16:
      return Type::Uint16();
    case NANOARROW_TYPE_UINT32:
      return Type::Uint32();
    case NANOARROW_TYPE_UINT64:
      return Type::Uint64();
    case NANOARROW_TYPE_HALF_FLOAT:
      return Type::Float16();
    case NANOARROW_TYPE_FLOAT:
      return Type::Float32();
    case NANOARROW_TYPE_DOUBLE:
      return Type::Float64();
    case NANOARROW_TYPE_DATE32:
      return Type::Date32();
    case NANOARROW_TYPE_DATE64:
      return Type::Date64();
    case NANOARROW_TYPE_TIMESTAMP:
      return Type::Timestamp(static_cast<TimeUnit>(view.time_unit),
                             view.timezone == nullptr ? "" : view.timezone);
    case NANOARROW_TYPE_STRING:
      return Type::Utf8();
    case NANOARROW_TYPE_LARGE_STRING:
      return Type::LargeUtf8();
    case NANOARROW_TYPE_BINARY:
      return Type::Binary();
    case NANOARROW_TYPE_LARGE_BINARY:
      return Type::LargeBinary();
    // ArrowSchemaViewInit checked that a list's element is there.
    case NANOARROW_TYPE_LIST:
    case NANOARROW_TYPE_LARGE_LIST:
    case NANOARROW_TYPE_FIXED_SIZE_LIST: {
      MILLRACE_ASSIGN_OR_RETURN(Field element,
                                FieldFromArrow(column, *schema.children[0], depth + 1));
      if (view.type == NANOARROW_TYPE_LIST) {
        return Type::List(std::move(element.type), element.nullable);
      }
      if (view.type == NANOARROW_TYPE_LARGE_LIST) {
        return Type::LargeList(std::move(element.type), element.nullable);
      }
      return Type::FixedSizeList(std::move(element.type), view.fixed_size, element.nullable);
    }
    case NANOARROW_TYPE_STRUCT: {
      if (schema.n_children > kMaxColumns) {
        return Unsupported(column, absl::StrCat("struct of ", schema.n_children, " fields"));
      }
      std::vector<Field> fields;
      for (int64_t i = 0; i < schema.n_children; ++i) {
        MILLRACE_ASSIGN_OR_RETURN(Field field,
                                  FieldFromArrow(column, *schema.children[i], depth + 1));
        fields.push_back(std::move(field));
      }
      return Type::Struct(std::move(fields));
    }
    default: {
      const char* name = ArrowTypeString(view.type);
      return Unsupported(column, name == nullptr ? schema.format : name);
    }
  }
}

ArrowType ArrowTypeOf(TypeId id) {
  switch (id) {
    case TypeId::kBool:
      return NANOARROW_TYPE_BOOL;
    case TypeId::kInt8:
      return NANOARROW_TYPE_INT8;
    case TypeId::kInt16:
      return NANOARROW_TYPE_INT16;
    case TypeId::kInt32:
      return NANOARROW_TYPE_INT32;
    case TypeId::kInt64:
      return NANOARROW_TYPE_INT64;
    case TypeId::kUint8:
      return NANOARROW_TYPE_UINT8;
    case TypeId::kUint16:
      return NANOARROW_TYPE_UINT16;
    case TypeId::kUint32:
      return NANOARROW_TYPE_UINT32;
    case TypeId::kUint64:
      return NANOARROW_TYPE_UINT64;
    case TypeId::kFloat16:
      return NANOARROW_TYPE_HALF_FLOAT;
    case TypeId::kFloat32:
      return NANOARROW_TYPE_FLOAT;
    case TypeId::kFloat64:
      return NANOARROW_TYPE_DOUBLE;
    case TypeId::kDate32:
      return NANOARROW_TYPE_DATE32;
    case TypeId::kDate64:
      return NANOARROW_TYPE_DATE64;
    case TypeId::kTimestamp:
      return NANOARROW_TYPE_TIMESTAMP;
    case TypeId::kUtf8:
      return NANOARROW_TYPE_STRING;
    case TypeId::kLargeUtf8:
      return NANOARROW_TYPE_LARGE_STRING;
    case TypeId::kBinary:
      return NANOARROW_TYPE_BINARY;
    case TypeId::kLargeBinary:
      return NANOARROW_TYPE_LARGE_BINARY;
    case TypeId::kList:
      return NANOARROW_TYPE_LIST;
    case TypeId::kLargeList:
      return NANOARROW_TYPE_LARGE_LIST;
    case TypeId::kFixedSizeList:
      return NANOARROW_TYPE_FIXED_SIZE_LIST;
    case TypeId::kStruct:
      return NANOARROW_TYPE_STRUCT;
  }
  return NANOARROW_TYPE_UNINITIALIZED;
}

// Fills `out`, which ArrowSchemaInit() has prepared. Fails only without memory.
ArrowErrorCode ToArrow(const Field& field, ArrowSchema* out) {
  const Type& type = field.type;
  if (type.is_fixed_size_list()) {
    NANOARROW_RETURN_NOT_OK(
        ArrowSchemaSetTypeFixedSize(out, NANOARROW_TYPE_FIXED_SIZE_LIST, type.list_size()));
  } else if (type.is_struct()) {
    NANOARROW_RETURN_NOT_OK(
        ArrowSchemaSetTypeStruct(out, static_cast<int64_t>(type.children().size())));
  } else if (type.id() == TypeId::kTimestamp) {
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetTypeDateTime(out, NANOARROW_TYPE_TIMESTAMP,
                                                       static_cast<ArrowTimeUnit>(type.time_unit()),
                                                       std::string(type.time_zone()).c_str()));
  } else {
    NANOARROW_RETURN_NOT_OK(ArrowSchemaSetType(out, ArrowTypeOf(type.id())));
  }
  for (size_t i = 0; i < type.children().size(); ++i) {
    NANOARROW_RETURN_NOT_OK(ToArrow(type.children()[i], out->children[i]));
  }
  out->flags = field.nullable ? ARROW_FLAG_NULLABLE : 0;
  return ArrowSchemaSetName(out, field.name.c_str());
}

ArrowErrorCode ToArrow(const std::vector<Field>& fields, ArrowSchema* out) {
  ArrowSchemaInit(out);
  NANOARROW_RETURN_NOT_OK(ArrowSchemaSetTypeStruct(out, static_cast<int64_t>(fields.size())));
  for (size_t i = 0; i < fields.size(); ++i) {
    NANOARROW_RETURN_NOT_OK(ToArrow(fields[i], out->children[i]));
  }
  out->flags = 0;
  return ArrowSchemaSetName(out, "");
}

std::string Describe(const Field& field) {
  return absl::StrCat(EscapeControls(field.type.ToString()), field.nullable ? "" : " not null");
}

// The first place at which two types differ, for people: "" if it is the types themselves,
// otherwise a place within them.
std::string DescribeTypes(const Field& before, const Field& now, absl::string_view place) {
  const std::vector<Field>& was = before.type.children();
  const std::vector<Field>& is = now.type.children();
  if (before.type.is_struct() && now.type.is_struct() && before.nullable == now.nullable &&
      was.size() == is.size()) {
    for (size_t i = 0; i < was.size(); ++i) {
      if (was[i].name != is[i].name) break;
      if (was[i] != is[i]) {
        return DescribeTypes(was[i], is[i], absl::StrCat(place, ".", was[i].name));
      }
    }
  }
  return absl::StrCat("column ", Quoted(place), ": ", Ellipsize(Describe(before), 300), " before, ",
                      Ellipsize(Describe(now), 300), " now");
}

}  // namespace

struct [[gnu::visibility("hidden")]] Schema::Data {
  std::vector<Field> fields;
  absl::flat_hash_map<std::string, int> index;
  nanoarrow::UniqueSchema c_schema;
};

Schema::Schema() {
  static const Schema* const empty = new Schema(*FromFields({}));
  data_ = empty->data_;
}

Schema::Schema(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

absl::StatusOr<Schema> Schema::FromFields(std::vector<Field> fields) {
  if (fields.size() > static_cast<size_t>(kMaxColumns)) {
    return absl::InvalidArgumentError(
        absl::StrCat(fields.size(), " columns; a feed has at most ", kMaxColumns));
  }
  auto data = std::make_shared<Data>();
  data->fields = std::move(fields);
  for (size_t i = 0; i < data->fields.size(); ++i) {
    const Field& field = data->fields[i];
    MILLRACE_RETURN_IF_ERROR(CheckName(field.name));
    MILLRACE_RETURN_IF_ERROR(CheckType(field.name, field.type, 1));
    if (!data->index.emplace(field.name, static_cast<int>(i)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("two columns have the name ", Quoted(field.name)));
    }
  }
  if (const ArrowErrorCode code = ToArrow(data->fields, data->c_schema.get());
      code != NANOARROW_OK) {
    return absl::InternalError(absl::StrCat("making an Arrow schema: error ", code));
  }
  return Schema(std::move(data));
}

absl::StatusOr<Schema> Schema::FromArrowSchema(const ArrowSchema& schema) {
  if (schema.format == nullptr || std::strcmp(schema.format, "+s") != 0 ||
      schema.dictionary != nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schema of a feed must be a struct of columns, found format \"",
        EscapeControls(Ellipsize(schema.format == nullptr ? "" : schema.format, 100)), "\""));
  }
  std::vector<Field> fields;
  if (schema.n_children > kMaxColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat(schema.n_children, " columns; a feed has at most ", kMaxColumns));
  }
  for (int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& child = *schema.children[i];
    MILLRACE_ASSIGN_OR_RETURN(
        Field field, FieldFromArrow(child.name == nullptr ? "" : child.name, child, /*depth=*/1));
    fields.push_back(std::move(field));
  }
  return FromFields(std::move(fields));
}

int Schema::num_columns() const { return static_cast<int>(data_->fields.size()); }

const Field& Schema::field(int i) const {
  MILLRACE_CHECK(i >= 0 && i < num_columns()) << "column " << i << " of " << num_columns();
  return data_->fields[static_cast<size_t>(i)];
}

const std::vector<Field>& Schema::fields() const { return data_->fields; }

std::optional<int> Schema::Find(absl::string_view name) const {
  const auto it = data_->index.find(name);
  if (it == data_->index.end()) return std::nullopt;
  return it->second;
}

bool Schema::Equals(const Schema& other) const {
  return data_ == other.data_ || data_->fields == other.data_->fields;
}

std::string Schema::DescribeDifference(const Schema& a, const Schema& b) {
  for (int i = 0; i < a.num_columns() && i < b.num_columns(); ++i) {
    const Field& before = a.field(i);
    const Field& now = b.field(i);
    if (before.name != now.name) {
      return absl::StrCat("column ", i, ": name ", Quoted(before.name), " before, ",
                          Quoted(now.name), " now");
    }
    if (before != now) {
      return DescribeTypes(before, now, before.name);
    }
  }
  if (a.num_columns() > b.num_columns()) {
    return absl::StrCat("column ", Quoted(a.name(b.num_columns())), " is missing now");
  }
  if (a.num_columns() < b.num_columns()) {
    return absl::StrCat("column ", Quoted(b.name(a.num_columns())), " is new");
  }
  return "";
}

const ArrowSchema* Schema::c_schema() const { return data_->c_schema.get(); }

void Schema::Export(ArrowSchema* out) const {
  MILLRACE_CHECK(ToArrow(data_->fields, out) == NANOARROW_OK) << "out of memory";
}

std::string Schema::ToString() const {
  return absl::StrJoin(data_->fields, ", ", [](std::string* out, const Field& field) {
    absl::StrAppend(out, EscapeControls(field.name), ": ", Describe(field));
  });
}

}  // namespace millrace
