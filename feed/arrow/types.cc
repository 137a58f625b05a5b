#include "millrace/types.h"

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace millrace {

struct [[gnu::visibility("hidden")]] Type::Details {
  std::vector<Field> children;
  std::string time_zone;
};

namespace {

std::vector<Field> Element(Type type, bool nullable) {
  std::vector<Field> element;
  element.push_back({"item", std::move(type), nullable});
  return element;
}

absl::string_view UnitName(TimeUnit unit) {
  switch (unit) {
    case TimeUnit::kSecond:
      return "s";
    case TimeUnit::kMilli:
      return "ms";
    case TimeUnit::kMicro:
      return "us";
    case TimeUnit::kNano:
      return "ns";
  }
  return "?";
}

std::string Describe(const Field& field) {
  return absl::StrCat(field.type.ToString(), field.nullable ? "" : " not null");
}

}  // namespace

Type Type::Timestamp(TimeUnit unit, absl::string_view time_zone) {
  Type type(TypeId::kTimestamp);
  type.time_unit_ = unit;
  if (!time_zone.empty()) {
    type.details_ = std::make_shared<const Details>(Details{{}, std::string(time_zone)});
  }
  return type;
}

Type Type::Scalar(TypeId id) {
  return id == TypeId::kTimestamp ? Timestamp(TimeUnit::kMicro, "UTC") : Type(id);
}

Type Type::List(Type element, bool element_nullable) {
  Type type(TypeId::kList);
  type.details_ =
      std::make_shared<const Details>(Details{Element(std::move(element), element_nullable), ""});
  return type;
}

Type Type::LargeList(Type element, bool element_nullable) {
  Type type = List(std::move(element), element_nullable);
  type.id_ = TypeId::kLargeList;
  return type;
}

Type Type::FixedSizeList(Type element, int32_t list_size, bool element_nullable) {
  Type type = List(std::move(element), element_nullable);
  type.id_ = TypeId::kFixedSizeList;
  type.list_size_ = list_size;
  return type;
}

Type Type::Struct(std::vector<Field> fields) {
  Type type(TypeId::kStruct);
  type.details_ = std::make_shared<const Details>(Details{std::move(fields), ""});
  return type;
}

absl::string_view Type::time_zone() const {
  return details_ == nullptr ? absl::string_view() : details_->time_zone;
}

const Field& Type::element() const { return details_->children[0]; }

const std::vector<Field>& Type::children() const {
  static const auto* const none = new std::vector<Field>();
  return details_ == nullptr ? *none : details_->children;
}

int Type::FindField(absl::string_view name) const {
  if (!is_struct()) return -1;
  for (size_t i = 0; i < children().size(); ++i) {
    if (children()[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

int64_t Type::byte_width() const {
  switch (id_) {
    case TypeId::kInt8:
    case TypeId::kUint8:
      return 1;
    case TypeId::kInt16:
    case TypeId::kUint16:
    case TypeId::kFloat16:
      return 2;
    case TypeId::kInt32:
    case TypeId::kUint32:
    case TypeId::kFloat32:
    case TypeId::kDate32:
      return 4;
    case TypeId::kInt64:
    case TypeId::kUint64:
    case TypeId::kFloat64:
    case TypeId::kDate64:
    case TypeId::kTimestamp:
      return 8;
    case TypeId::kBool:
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
    case TypeId::kList:
    case TypeId::kLargeList:
    case TypeId::kFixedSizeList:
    case TypeId::kStruct:
      return 0;
  }
  return 0;
}

std::string Type::ToString() const {
  std::string name(TypeIdName(id_));
  if (id_ == TypeId::kTimestamp) {
    absl::StrAppend(&name, "[", UnitName(time_unit_), time_zone().empty() ? "" : ", ", time_zone(),
                    "]");
  } else if (is_list()) {
    absl::StrAppend(&name, "<", Describe(element()), ">");
    if (is_fixed_size_list()) absl::StrAppend(&name, "[", list_size_, "]");
  } else if (is_struct()) {
    absl::StrAppend(&name, "<",
                    absl::StrJoin(children(), ", ",
                                  [](std::string* out, const Field& f) {
                                    absl::StrAppend(out, f.name, ": ", Describe(f));
                                  }),
                    ">");
  }
  return name;
}

bool operator==(const Type& a, const Type& b) {
  if (a.id_ != b.id_ || a.list_size_ != b.list_size_ || a.time_unit_ != b.time_unit_) return false;
  if (a.details_ == b.details_) return true;
  if (a.is_list()) {
    return a.element().type == b.element().type && a.element().nullable == b.element().nullable;
  }
  return a.time_zone() == b.time_zone() && a.children() == b.children();
}

absl::string_view TypeIdName(TypeId id) {
  switch (id) {
    case TypeId::kBool:
      return "bool";
    case TypeId::kInt8:
      return "int8";
    case TypeId::kInt16:
      return "int16";
    case TypeId::kInt32:
      return "int32";
    case TypeId::kInt64:
      return "int64";
    case TypeId::kUint8:
      return "uint8";
    case TypeId::kUint16:
      return "uint16";
    case TypeId::kUint32:
      return "uint32";
    case TypeId::kUint64:
      return "uint64";
    case TypeId::kFloat16:
      return "float16";
    case TypeId::kFloat32:
      return "float32";
    case TypeId::kFloat64:
      return "float64";
    case TypeId::kDate32:
      return "date32";
    case TypeId::kDate64:
      return "date64";
    case TypeId::kTimestamp:
      return "timestamp";
    case TypeId::kUtf8:
      return "utf8";
    case TypeId::kLargeUtf8:
      return "large_utf8";
    case TypeId::kBinary:
      return "binary";
    case TypeId::kLargeBinary:
      return "large_binary";
    case TypeId::kList:
      return "list";
    case TypeId::kLargeList:
      return "large_list";
    case TypeId::kFixedSizeList:
      return "fixed_size_list";
    case TypeId::kStruct:
      return "struct";
  }
  return "unknown";
}

absl::Time Timestamp::ToTime(TimeUnit unit) const {
  switch (unit) {
    case TimeUnit::kSecond:
      return absl::FromUnixSeconds(value);
    case TimeUnit::kMilli:
      return absl::FromUnixMillis(value);
    case TimeUnit::kMicro:
      return absl::FromUnixMicros(value);
    case TimeUnit::kNano:
      return absl::FromUnixNanos(value);
  }
  return absl::InfinitePast();
}

float Float16::ToFloat() const {
  const uint32_t sign = static_cast<uint32_t>(bits >> 15) << 31;
  const uint32_t exponent = (bits >> 10) & 0x1f;
  const uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace millrace
