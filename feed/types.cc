#include "feed/types.h"

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace millrace {

Type Type::FixedSizeList(Type element, int32_t list_size, bool element_nullable) {
  Type type(TypeId::kFixedSizeList);
  type.list_size_ = list_size;
  type.element_ =
      std::make_shared<const Field>(Field{"item", std::move(element), element_nullable});
  return type;
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
      return 4;
    case TypeId::kInt64:
    case TypeId::kUint64:
    case TypeId::kFloat64:
      return 8;
    case TypeId::kBool:
    case TypeId::kUtf8:
    case TypeId::kLargeUtf8:
    case TypeId::kBinary:
    case TypeId::kLargeBinary:
    case TypeId::kFixedSizeList:
      return 0;
  }
  return 0;
}

std::string Type::ToString() const {
  if (!is_list()) return std::string(TypeIdName(id_));
  return absl::StrCat("fixed_size_list<", element().type.ToString(),
                      element().nullable ? "" : " not null", ">[", list_size_, "]");
}

bool operator==(const Type& a, const Type& b) {
  if (a.id_ != b.id_ || a.list_size_ != b.list_size_) return false;
  return !a.is_list() ||
         (a.element().type == b.element().type && a.element().nullable == b.element().nullable);
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
    case TypeId::kUtf8:
      return "utf8";
    case TypeId::kLargeUtf8:
      return "large_utf8";
    case TypeId::kBinary:
      return "binary";
    case TypeId::kLargeBinary:
      return "large_binary";
    case TypeId::kFixedSizeList:
      return "fixed_size_list";
  }
  return "unknown";
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
