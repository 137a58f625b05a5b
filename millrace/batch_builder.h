// File: millrace/batch_builder.h
//
// Makes record batches from C++ values: results for DataFeed::BatchResults, data for MemorySource.
//
// Defines: BatchBuilder.
//
//   std::vector<int64_t> prediction = ...;
//   std::vector<float> score = ...;                       // rows * 10
//   MILLRACE_ASSIGN_OR_RETURN(RecordBatch results, BatchBuilder()
//                                                      .AddColumn("prediction", prediction)
//                                                      .AddFixedSizeList("score", score, 10)
//                                                      .Build());
//
// Nested columns are made from the inside out, of record batches:
//
//   RecordBatch words = *BatchBuilder().AddStrings("word", std::vector{"a", "b", "c"}).Build();
//   BatchBuilder().AddList("tags", std::vector<int64_t>{2, 0, 1}, words);  // ["a", "b"], [], ["c"]

#ifndef MILLRACE_BATCH_BUILDER_H_
#define MILLRACE_BATCH_BUILDER_H_

#include <cstdint>
#include <iterator>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "millrace/record_batch.h"

namespace millrace {

// Every Add takes the column's name, its values, and, if some rows are null, `valid`: one bool per
// row, false for null (empty: no nulls; the column is declared nullable either way). Values are
// copied, except those of a std::vector given with std::move. All columns have equally many rows.
//
// Errors appear in Build(). Not thread-safe; use it once.
class BatchBuilder {
 public:
  BatchBuilder() = default;
  BatchBuilder(const BatchBuilder&) = delete;
  BatchBuilder& operator=(const BatchBuilder&) = delete;

  // Numbers and dates: any contiguous range of a type that millrace/types.h maps (std::vector,
  // std::span, array).
  template <std::ranges::contiguous_range R>
  requires(FeedValue<std::ranges::range_value_t<R>> &&
           !std::is_same_v<std::ranges::range_value_t<R>, Timestamp>)
      BatchBuilder& AddColumn(absl::string_view name, R&& values,
                              std::span<const bool> valid = {}) {
    using T = std::ranges::range_value_t<R>;
    Adopted<T> kept(std::forward<R>(values));
    return AddValues(name, Type::Scalar(TypeIdOf<T>::value), kept.size, kept.data,
                     std::move(kept.owner), valid);
  }

  // Numbers, `list_size` to a row: values.size() must be a multiple of list_size, which is > 0.
  template <std::ranges::contiguous_range R>
  requires(FeedValue<std::ranges::range_value_t<R>> &&
           !std::is_same_v<std::ranges::range_value_t<R>, Timestamp>)
      BatchBuilder& AddFixedSizeList(absl::string_view name, R&& values, int32_t list_size,
                                     std::span<const bool> valid = {}) {
    using T = std::ranges::range_value_t<R>;
    Adopted<T> kept(std::forward<R>(values));
    owners_.push_back(std::move(kept.owner));
    ColumnData column;
    column.type = Type::Scalar(TypeIdOf<T>::value);
    column.length = kept.size;
    column.data = kept.data;
    column.data_bytes = kept.size * int64_t{sizeof(T)};
    return AddListOf(name, std::move(column), /*nullable=*/true, list_size, valid);
  }

  // Timestamps: a contiguous range of Timestamp, which count `unit`.
  template <std::ranges::contiguous_range R>
  requires std::is_same_v<std::ranges::range_value_t<R>, Timestamp> BatchBuilder& AddTimestamps(
      absl::string_view name, R&& values, TimeUnit unit, absl::string_view time_zone = "",
      std::span<const bool> valid = {}) {
    Adopted<Timestamp> kept(std::forward<R>(values));
    return AddValues(name, Type::Timestamp(unit, time_zone), kept.size, kept.data,
                     std::move(kept.owner), valid);
  }

  // The columns below share the memory of the batches that they are made of; nothing is copied.

  // Lists: row i holds the next lengths[i] rows of `elements`, a batch of one column, whose rows
  // must be as many as all lengths together. The column's nullability becomes that of the elements;
  // its name is ignored.
  BatchBuilder& AddList(absl::string_view name, std::span<const int64_t> lengths,
                        const RecordBatch& elements, std::span<const bool> valid = {},
                        bool large = false);
  // `list_size` rows of `elements` to a row.
  BatchBuilder& AddFixedSizeList(absl::string_view name, const RecordBatch& elements,
                                 int32_t list_size, std::span<const bool> valid = {});
  // A struct, whose fields are the columns of `fields`.
  BatchBuilder& AddStruct(absl::string_view name, const RecordBatch& fields,
                          std::span<const bool> valid = {});

  BatchBuilder& AddBools(absl::string_view name, const std::vector<bool>& values,
                         std::span<const bool> valid = {});

  // Text (utf8, checked) or bytes (binary): any range of std::string, absl::string_view,
  // std::string_view or const char*. At most 2 GiB together; larger needs `large`.
  template <std::ranges::input_range R>
  BatchBuilder& AddStrings(absl::string_view name, const R& values,
                           std::span<const bool> valid = {}, bool large = false) {
    return AddBytes(name, large ? Type::LargeUtf8() : Type::Utf8(), Views(values), valid);
  }
  template <std::ranges::input_range R>
  BatchBuilder& AddBinary(absl::string_view name, const R& values, std::span<const bool> valid = {},
                          bool large = false) {
    return AddBytes(name, large ? Type::LargeBinary() : Type::Binary(), Views(values), valid);
  }

  // Returns INVALID_ARGUMENT, naming the column, if row counts differ, a name occurs twice, `valid`
  // has not one entry per row, lengths do not add up, or text is not UTF-8; RESOURCE_EXHAUSTED if
  // strings pass 2 GiB or lists 2^31-1 values; and errors as Schema::FromFields.
  [[nodiscard]] absl::StatusOr<RecordBatch> Build();

 private:
  // Values in memory of their own: moved from a vector, otherwise copied.
  template <typename T>
  struct Adopted {
    explicit Adopted(std::vector<T>&& values) { Keep(std::move(values)); }
    template <typename R>
    explicit Adopted(R&& values) {
      Keep(std::vector<T>(std::ranges::begin(values), std::ranges::end(values)));
    }
    void Keep(std::vector<T> values) {
      auto kept = std::make_shared<const std::vector<T>>(std::move(values));
      size = static_cast<int64_t>(kept->size());
      data = reinterpret_cast<const uint8_t*>(kept->data());
      owner = std::move(kept);
    }
    int64_t size = 0;
    const uint8_t* data = nullptr;
    std::shared_ptr<const void> owner;
  };

  // The views point into `values`.
  template <typename R>
  static std::vector<absl::string_view> Views(const R& values) {
    std::vector<absl::string_view> views;
    for (const auto& value : values) {
      if constexpr (requires { absl::string_view(value.data(), value.size()); }) {
        views.emplace_back(value.data(), value.size());
      } else {
        views.emplace_back(value);
      }
    }
    return views;
  }

  BatchBuilder& AddValues(absl::string_view name, Type type, int64_t size, const uint8_t* data,
                          std::shared_ptr<const void> owner, std::span<const bool> valid);
  BatchBuilder& AddListOf(absl::string_view name, ColumnData values, bool nullable,
                          int32_t list_size, std::span<const bool> valid);
  BatchBuilder& AddBytes(absl::string_view name, Type type,
                         const std::vector<absl::string_view>& values, std::span<const bool> valid);
  // Column 0 of `elements`, its nullability in *nullable; false if there is not exactly one.
  bool TakeElements(absl::string_view name, const RecordBatch& elements, ColumnData* out,
                    bool* nullable);
  BatchBuilder& AddData(absl::string_view name, ColumnData column, std::span<const bool> valid);
  void Fail(absl::Status status);

  std::vector<Field> fields_;
  std::vector<ColumnData> columns_;
  std::vector<std::shared_ptr<const void>> owners_;
  absl::Status status_;  // the first error
};

}  // namespace millrace

#endif  // MILLRACE_BATCH_BUILDER_H_
