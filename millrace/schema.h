// File: millrace/schema.h
//
// The columns of batches: names, types and nullability, in order.
//
// Defines: Schema, SchemaBuilder.
//
//   absl::StatusOr<Schema> schema = SchemaBuilder()
//                                       .Add("id", Type::Int64())
//                                       .Add("x", Type::FixedSizeList(Type::Float32(), 64))
//                                       .Add("tags", Type::List(Type::Utf8()))
//                                       .Build();
//   schema->type(1).ToString();   // "fixed_size_list<float32>[64]"
//   schema->Find("id");           // 0
//
// A Schema carries only types that millrace/types.h knows; Arrow's others (null, time, duration,
// interval, decimal, fixed_size_binary, map, union, dictionary, run_end_encoded, views) are refused
// with the column's name. Arrow's custom metadata, extension names among it, is dropped: a column
// is its storage.

#ifndef MILLRACE_SCHEMA_H_
#define MILLRACE_SCHEMA_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/types.h"

struct ArrowSchema;  // Arrow C Data Interface

namespace millrace {

// Limits of the feed protocol (docs/feed_protocol.md, section 7).
inline constexpr int kMaxColumns = 65536;  // of a schema, and fields of one struct
inline constexpr int kMaxNesting = 32;     // a column of numbers is 1 deep, a list of them 2

// Ownership: a handle to shared, immutable data; copies are cheap.
// Thread safety: immutable; any thread may use and copy it.
class Schema {
 public:
  // No columns.
  Schema();

  // Returns INVALID_ARGUMENT, naming column and type, if a type is not supported (a list of size
  // 0, fixed_size_lists of more than 2^31-1 values per row, a struct without fields, deeper than
  // kMaxNesting), if a name is not UTF-8 or holds a NUL, and if there are more than kMaxColumns
  // columns, or two with one name in the schema or a struct.
  [[nodiscard]] static absl::StatusOr<Schema> FromFields(std::vector<Field> fields);

  // From the C Data Interface: a struct (as every record batch's schema is) whose children become
  // the columns. `schema` is read, not moved; the caller still releases it. Errors as FromFields,
  // and INVALID_ARGUMENT if it is no struct.
  [[nodiscard]] static absl::StatusOr<Schema> FromArrowSchema(const ArrowSchema& schema);

  [[nodiscard]] int num_columns() const;
  [[nodiscard]] const Field& field(int i) const;
  [[nodiscard]] const std::vector<Field>& fields() const;
  [[nodiscard]] const std::string& name(int i) const { return field(i).name; }
  [[nodiscard]] const Type& type(int i) const { return field(i).type; }
  [[nodiscard]] std::optional<int> Find(absl::string_view name) const;

  // Equal names, types and nullability in equal order.
  [[nodiscard]] bool Equals(const Schema& other) const;
  friend bool operator==(const Schema& a, const Schema& b) { return a.Equals(b); }

  // What differs first, for people: "column \"x\": float32 before, float64 now"; empty if equal.
  // `a` is the earlier schema.
  [[nodiscard]] static std::string DescribeDifference(const Schema& a, const Schema& b);

  // Never null; lives as long as any copy of this Schema. The caller must not release it.
  [[nodiscard]] const ArrowSchema* c_schema() const;
  // Makes a copy for a consumer of the C Data Interface, which releases it.
  void Export(ArrowSchema* out) const;

  // "id: int64, x: fixed_size_list<float32>[64] not null".
  [[nodiscard]] std::string ToString() const;

 private:
  struct Data;
  explicit Schema(std::shared_ptr<const Data> data);

  std::shared_ptr<const Data> data_;  // never null
};

// Not thread-safe.
class SchemaBuilder {
 public:
  SchemaBuilder& Add(absl::string_view name, Type type, bool nullable = true) {
    fields_.push_back({std::string(name), std::move(type), nullable});
    return *this;
  }
  // Errors as Schema::FromFields.
  [[nodiscard]] absl::StatusOr<Schema> Build() const { return Schema::FromFields(fields_); }

 private:
  std::vector<Field> fields_;
};

}  // namespace millrace

#endif  // MILLRACE_SCHEMA_H_
