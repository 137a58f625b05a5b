// File: feed/types.h
//
// The column types that a feed carries: a subset of Arrow's, each with the name that errors print
// and, where it has one, the C++ type of its values.
//
// Defines: TypeId, Type, Field, Float16, TypeIdOf<T>, FeedValue.
//
//   Type t = Type::FixedSizeList(Type::Float32(), 64);
//   t.ToString();   // "fixed_size_list<float32>[64]"
//
// Everything is an ordinary, cheap value. Thread safety: immutable, thread-compatible.

#ifndef FEED_TYPES_H_
#define FEED_TYPES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"

namespace millrace {

enum class TypeId : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kFloat32,
  kFloat64,
  kUtf8,
  kLargeUtf8,
  kBinary,
  kLargeBinary,
  kFixedSizeList,
};

struct Field;

// A type. Equality is structural; the name of a list's element does not count, since
// implementations differ in it ("item", "element", "$data$").
class Type {
 public:
  Type() = default;  // bool

  static Type Bool() { return Type(TypeId::kBool); }
  static Type Int8() { return Type(TypeId::kInt8); }
  static Type Int16() { return Type(TypeId::kInt16); }
  static Type Int32() { return Type(TypeId::kInt32); }
  static Type Int64() { return Type(TypeId::kInt64); }
  static Type Uint8() { return Type(TypeId::kUint8); }
  static Type Uint16() { return Type(TypeId::kUint16); }
  static Type Uint32() { return Type(TypeId::kUint32); }
  static Type Uint64() { return Type(TypeId::kUint64); }
  static Type Float16() { return Type(TypeId::kFloat16); }
  static Type Float32() { return Type(TypeId::kFloat32); }
  static Type Float64() { return Type(TypeId::kFloat64); }
  static Type Utf8() { return Type(TypeId::kUtf8); }
  static Type LargeUtf8() { return Type(TypeId::kLargeUtf8); }
  static Type Binary() { return Type(TypeId::kBinary); }
  static Type LargeBinary() { return Type(TypeId::kLargeBinary); }
  // A scalar type by id; every id but kFixedSizeList.
  static Type Scalar(TypeId id) { return Type(id); }
  // `list_size` values of `element` per row. Whether the combination is one that a feed carries
  // (list_size > 0, a primitive element) is checked where a Schema is made.
  static Type FixedSizeList(Type element, int32_t list_size, bool element_nullable = true);

  [[nodiscard]] TypeId id() const { return id_; }

  // Lists only.
  [[nodiscard]] int32_t list_size() const { return list_size_; }
  [[nodiscard]] const Field& element() const { return *element_; }

  // Bytes of one value of a fixed-width scalar type; 0 for bool (one bit), strings and lists.
  [[nodiscard]] int64_t byte_width() const;
  // bool, integers and floats.
  [[nodiscard]] bool is_primitive() const { return id_ <= TypeId::kFloat64; }
  // utf8, binary and their large forms.
  [[nodiscard]] bool is_variable() const {
    return id_ >= TypeId::kUtf8 && id_ <= TypeId::kLargeBinary;
  }
  [[nodiscard]] bool is_utf8() const { return id_ == TypeId::kUtf8 || id_ == TypeId::kLargeUtf8; }
  // Strings with 64-bit offsets.
  [[nodiscard]] bool is_large() const {
    return id_ == TypeId::kLargeUtf8 || id_ == TypeId::kLargeBinary;
  }
  [[nodiscard]] bool is_list() const { return id_ == TypeId::kFixedSizeList; }

  // "int64", "fixed_size_list<float32>[64]".
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const Type& a, const Type& b);

 private:
  explicit Type(TypeId id) : id_(id) {}

  TypeId id_ = TypeId::kBool;
  int32_t list_size_ = 0;
  std::shared_ptr<const Field> element_;  // not null exactly for lists
};

// A named column, or the element of a list.
struct Field {
  std::string name;
  Type type;
  bool nullable = true;

  friend bool operator==(const Field&, const Field&) = default;
};

// "int64" for kInt64, "fixed_size_list" for kFixedSizeList.
[[nodiscard]] absl::string_view TypeIdName(TypeId id);

// The IEEE 754 binary16 value as it is stored.
struct Float16 {
  uint16_t bits = 0;

  [[nodiscard]] float ToFloat() const;
  friend bool operator==(Float16, Float16) = default;
};

// The type of a column whose values are T; defined for the types that a span of values can show.
template <typename T>
struct TypeIdOf;
template <>
struct TypeIdOf<int8_t> : std::integral_constant<TypeId, TypeId::kInt8> {};
template <>
struct TypeIdOf<int16_t> : std::integral_constant<TypeId, TypeId::kInt16> {};
template <>
struct TypeIdOf<int32_t> : std::integral_constant<TypeId, TypeId::kInt32> {};
template <>
struct TypeIdOf<int64_t> : std::integral_constant<TypeId, TypeId::kInt64> {};
template <>
struct TypeIdOf<uint8_t> : std::integral_constant<TypeId, TypeId::kUint8> {};
template <>
struct TypeIdOf<uint16_t> : std::integral_constant<TypeId, TypeId::kUint16> {};
template <>
struct TypeIdOf<uint32_t> : std::integral_constant<TypeId, TypeId::kUint32> {};
template <>
struct TypeIdOf<uint64_t> : std::integral_constant<TypeId, TypeId::kUint64> {};
template <>
struct TypeIdOf<Float16> : std::integral_constant<TypeId, TypeId::kFloat16> {};
template <>
struct TypeIdOf<float> : std::integral_constant<TypeId, TypeId::kFloat32> {};
template <>
struct TypeIdOf<double> : std::integral_constant<TypeId, TypeId::kFloat64> {};

// C++ types that stand for a column type: int8_t .. uint64_t, Float16, float, double. (bool is one
// bit in Arrow, so it has accessors of its own.)
template <typename T>
concept FeedValue = requires {
  TypeIdOf<T>::value;
};

}  // namespace millrace

#endif  // FEED_TYPES_H_
