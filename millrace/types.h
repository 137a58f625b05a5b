// File: millrace/types.h
//
// The column types that a feed carries: a subset of Arrow's, each with the name that errors print
// and, where it has one, the C++ type of its values.
//
// Defines: TypeId, TimeUnit, Type, Field, Float16, Date32, Date64, Timestamp, TypeIdOf<T>,
// FeedValue.
//
//   Type x = Type::FixedSizeList(Type::Float32(), 64);
//   x.ToString();      // "fixed_size_list<float32>[64]"
//   Type tags = Type::List(Type::Utf8());
//   Type point = Type::Struct({{"x", Type::Float64()}, {"y", Type::Float64()}});
//   point.ToString();  // "struct<x: float64, y: float64>"
//
// Everything is an ordinary, cheap value. Thread safety: immutable, thread-compatible.

#ifndef MILLRACE_TYPES_H_
#define MILLRACE_TYPES_H_

#include <compare>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

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
  kDate32,
  kDate64,
  kTimestamp,
  kUtf8,
  kLargeUtf8,
  kBinary,
  kLargeBinary,
  kList,
  kLargeList,
  kFixedSizeList,
  kStruct,
};

// What a timestamp counts. The values are Arrow's.
enum class TimeUnit : uint8_t { kSecond, kMilli, kMicro, kNano };

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
  // Days since 1970-01-01.
  static Type Date32() { return Type(TypeId::kDate32); }
  // Milliseconds since 1970-01-01, of whole days.
  static Type Date64() { return Type(TypeId::kDate64); }
  // Units since 1970-01-01 00:00:00. With a time zone (an IANA name or "+07:30") the value counts
  // in UTC, and the zone says how people want to see it; without one it is the time of a wall clock
  // somewhere. The zone is not interpreted here.
  static Type Timestamp(TimeUnit unit, absl::string_view time_zone = "");
  static Type Utf8() { return Type(TypeId::kUtf8); }
  static Type LargeUtf8() { return Type(TypeId::kLargeUtf8); }
  static Type Binary() { return Type(TypeId::kBinary); }
  static Type LargeBinary() { return Type(TypeId::kLargeBinary); }
  // A scalar type by id; not of lists and structs. A kTimestamp counts microseconds of UTC.
  static Type Scalar(TypeId id);
  // Any number of values per row, at most 2^31-1 together in one batch.
  static Type List(Type element, bool element_nullable = true);
  static Type LargeList(Type element, bool element_nullable = true);
  // `list_size` values of `element` per row.
  static Type FixedSizeList(Type element, int32_t list_size, bool element_nullable = true);
  // Several values per row, each with a name. Whether a feed carries a type (list_size > 0, at
  // least one field, no two of one name, not too deep) is checked where a Schema is made.
  static Type Struct(std::vector<Field> fields);

  [[nodiscard]] TypeId id() const { return id_; }

  // Timestamps only; an empty zone is none.
  [[nodiscard]] TimeUnit time_unit() const { return time_unit_; }
  [[nodiscard]] absl::string_view time_zone() const;
  // Of a fixed_size_list; 0 otherwise.
  [[nodiscard]] int32_t list_size() const { return list_size_; }
  // Lists only.
  [[nodiscard]] const Field& element() const;
  // A list's element, a struct's fields; otherwise none.
  [[nodiscard]] const std::vector<Field>& children() const;
  // Structs only: the place of a field among children(), or -1.
  [[nodiscard]] int FindField(absl::string_view name) const;

  // Bytes of one value of a fixed-width scalar type; 0 for bool (one bit), strings, lists, structs.
  [[nodiscard]] int64_t byte_width() const;
  // Of fixed width: bool, integers, floats, dates and timestamps.
  [[nodiscard]] bool is_primitive() const { return id_ <= TypeId::kTimestamp; }
  // Dates and timestamps.
  [[nodiscard]] bool is_time() const { return id_ >= TypeId::kDate32 && id_ <= TypeId::kTimestamp; }
  // utf8, binary and their large forms.
  [[nodiscard]] bool is_variable() const {
    return id_ >= TypeId::kUtf8 && id_ <= TypeId::kLargeBinary;
  }
  [[nodiscard]] bool is_utf8() const { return id_ == TypeId::kUtf8 || id_ == TypeId::kLargeUtf8; }
  // Strings and lists with 64-bit offsets.
  [[nodiscard]] bool is_large() const {
    return id_ == TypeId::kLargeUtf8 || id_ == TypeId::kLargeBinary || id_ == TypeId::kLargeList;
  }
  [[nodiscard]] bool is_fixed_size_list() const { return id_ == TypeId::kFixedSizeList; }
  // list and large_list: lists with offsets.
  [[nodiscard]] bool is_variable_list() const {
    return id_ == TypeId::kList || id_ == TypeId::kLargeList;
  }
  [[nodiscard]] bool is_list() const {
    return id_ >= TypeId::kList && id_ <= TypeId::kFixedSizeList;
  }
  [[nodiscard]] bool is_struct() const { return id_ == TypeId::kStruct; }

  // "int64", "timestamp[us, UTC]", "list<utf8>", "fixed_size_list<float32>[64]",
  // "struct<a: int8 not null, b: utf8>".
  [[nodiscard]] std::string ToString() const;

  friend bool operator==(const Type& a, const Type& b);

 private:
  struct Details;  // what few types have
  explicit Type(TypeId id) : id_(id) {}

  TypeId id_ = TypeId::kBool;
  TimeUnit time_unit_ = TimeUnit::kSecond;
  int32_t list_size_ = 0;
  std::shared_ptr<const Details> details_;  // not null for lists, structs and zoned timestamps
};

// A named column, a struct's field, or the element of a list.
struct Field {
  std::string name;
  Type type;
  bool nullable = true;

  friend bool operator==(const Field&, const Field&) = default;
};

// "int64" for kInt64, "timestamp" for kTimestamp, "fixed_size_list" for kFixedSizeList.
[[nodiscard]] absl::string_view TypeIdName(TypeId id);

// The IEEE 754 binary16 value as it is stored.
struct Float16 {
  uint16_t bits = 0;

  [[nodiscard]] float ToFloat() const;
  friend bool operator==(Float16, Float16) = default;
};

// A date as it is stored: days since 1970-01-01.
struct Date32 {
  int32_t days = 0;

  friend auto operator<=>(Date32, Date32) = default;
};

// A date as it is stored: milliseconds since 1970-01-01.
struct Date64 {
  int64_t ms = 0;

  friend auto operator<=>(Date64, Date64) = default;
};

// A timestamp as it is stored: units since 1970-01-01 00:00:00. Its type says which unit.
struct Timestamp {
  int64_t value = 0;

  [[nodiscard]] absl::Time ToTime(TimeUnit unit) const;
  friend auto operator<=>(Timestamp, Timestamp) = default;
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
template <>
struct TypeIdOf<Date32> : std::integral_constant<TypeId, TypeId::kDate32> {};
template <>
struct TypeIdOf<Date64> : std::integral_constant<TypeId, TypeId::kDate64> {};
template <>
struct TypeIdOf<Timestamp> : std::integral_constant<TypeId, TypeId::kTimestamp> {};

// C++ types that stand for a column type: int8_t .. uint64_t, Float16, float, double, Date32,
// Date64, Timestamp. (bool is one bit in Arrow, so it has accessors of its own.)
template <typename T>
concept FeedValue = requires {
  TypeIdOf<T>::value;
};

}  // namespace millrace

#endif  // MILLRACE_TYPES_H_
