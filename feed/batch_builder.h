// File: feed/batch_builder.h
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

#ifndef FEED_BATCH_BUILDER_H_
#define FEED_BATCH_BUILDER_H_

#include <cstdint>
#include <iterator>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "feed/record_batch.h"

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

  // Numbers: any contiguous range of a type that feed/types.h maps (std::vector, std::span, array).
  template <std::ranges::contiguous_range R>
  requires FeedValue<std::ranges::range_value_t<R>> BatchBuilder& AddColumn(
      absl::string_view name, R&& values, std::span<const bool> valid = {}) {
    using T = std::ranges::range_value_t<R>;
    Adopted<T> kept(std::forward<R>(values));
    return AddValues(name, Type::Scalar(TypeIdOf<T>::value), kept.size, kept.data,
                     std::move(kept.owner), valid);
  }

  // Numbers, `list_size` to a row: values.size() must be a multiple of list_size, which is > 0.
  template <std::ranges::contiguous_range R>
  requires FeedValue<std::ranges::range_value_t<R>> BatchBuilder& AddFixedSizeList(
      absl::string_view name, R&& values, int32_t list_size, std::span<const bool> valid = {}) {
    using T = std::ranges::range_value_t<R>;
    Adopted<T> kept(std::forward<R>(values));
    return AddList(name, Type::Scalar(TypeIdOf<T>::value), kept.size, kept.data,
                   std::move(kept.owner), list_size, valid);
  }

  BatchBuilder& AddBools(absl::string_view name, const std::vector<bool>& values,
                         std::span<const bool> valid = {});

  // Text (utf8, checked) or bytes (binary); at most 2 GiB together, larger needs `large`.
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
  // has not one entry per row, or text is not UTF-8; RESOURCE_EXHAUSTED if strings pass 2 GiB.
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

  // Of std::string, std::string_view, absl::string_view or const char*. The views point into
  // `values`.
  template <typename R>
  static std::vector<absl::string_view> Views(const R& values) {
    std::vector<absl::string_view> views;
    for (const auto& value : values) {
      const std::string_view view(value);
      views.emplace_back(view.data(), view.size());
    }
    return views;
  }

  BatchBuilder& AddValues(absl::string_view name, Type type, int64_t size, const uint8_t* data,
                          std::shared_ptr<const void> owner, std::span<const bool> valid);
  BatchBuilder& AddList(absl::string_view name, Type element, int64_t size, const uint8_t* data,
                        std::shared_ptr<const void> owner, int32_t list_size,
                        std::span<const bool> valid);
  BatchBuilder& AddBytes(absl::string_view name, Type type,
                         const std::vector<absl::string_view>& values, std::span<const bool> valid);
  BatchBuilder& AddData(absl::string_view name, ColumnData column, std::span<const bool> valid);
  void Fail(absl::Status status);

  std::vector<Field> fields_;
  std::vector<ColumnData> columns_;
  std::vector<std::shared_ptr<const void>> owners_;
  absl::Status status_;  // the first error
};

}  // namespace millrace

#endif  // FEED_BATCH_BUILDER_H_
