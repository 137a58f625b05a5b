#include "feed/record_batch_testing.h"

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "feed/batch_builder.h"
#include "feed/record_batch.h"

namespace millrace {
namespace {

class Maker {
 public:
  Maker(int64_t rows, Nulls nulls, uint64_t seed)
      : rows_(static_cast<size_t>(rows)), nulls_(nulls), random_(seed) {}

  RecordBatch Make() {
    Bools();
    Numbers<int8_t>("int8");
    Numbers<int16_t>("int16");
    Numbers<int32_t>("int32");
    Numbers<int64_t>("int64");
    Numbers<uint8_t>("uint8");
    Numbers<uint16_t>("uint16");
    Numbers<uint32_t>("uint32");
    Numbers<uint64_t>("uint64");
    Numbers<Float16>("float16");
    Numbers<float>("float32");
    Numbers<double>("float64");
    Strings("utf8", /*text=*/true, /*large=*/false);
    Strings("large_utf8", /*text=*/true, /*large=*/true);
    Strings("binary", /*text=*/false, /*large=*/false);
    Strings("large_binary", /*text=*/false, /*large=*/true);
    Lists<float>("list_float32", 3);
    Lists<int64_t>("list_int64", 1);
    Lists<uint8_t>("list_uint8", 5);
    absl::StatusOr<RecordBatch> batch = builder_.Build();
    MILLRACE_CHECK(batch.ok()) << batch.status().message();
    return *std::move(batch);
  }

 private:
  std::span<const bool> Valid() {
    if (nulls_ == Nulls::kNone) return {};
    valid_ = std::make_unique<bool[]>(rows_);
    for (size_t i = 0; i < rows_; ++i) valid_[i] = nulls_ == Nulls::kSome && random_() % 3 != 0;
    return {valid_.get(), rows_};
  }

  template <typename T>
  T Value() {
    if constexpr (std::is_same_v<T, Float16>) {
      return Float16{static_cast<uint16_t>(random_())};
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(static_cast<int32_t>(random_())) / T{64};
    } else {
      return static_cast<T>(random_());
    }
  }

  template <typename T>
  std::vector<T> Values(size_t count) {
    std::vector<T> values(count);
    for (T& value : values) value = Value<T>();
    return values;
  }

  template <typename T>
  void Numbers(absl::string_view name) {
    builder_.AddColumn(name, Values<T>(rows_), Valid());
  }

  template <typename T>
  void Lists(absl::string_view name, int32_t size) {
    builder_.AddFixedSizeList(name, Values<T>(rows_ * static_cast<size_t>(size)), size, Valid());
  }

  void Bools() {
    std::vector<bool> values(rows_);
    for (size_t i = 0; i < rows_; ++i) values[i] = random_() % 2 == 0;
    builder_.AddBools("bool", values, Valid());
  }

  void Strings(absl::string_view name, bool text, bool large) {
    static constexpr std::string_view kWords[] = {
        "", "row", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "a longer piece of text"};
    std::vector<std::string> values(rows_);
    for (std::string& value : values) {
      for (uint64_t n = random_() % 4; n > 0; --n) {
        value += text ? kWords[random_() % std::size(kWords)]
                      : std::string_view("\xff\x00\x80", 1 + random_() % 3);
      }
    }
    if (text) {
      builder_.AddStrings(name, values, Valid(), large);
    } else {
      builder_.AddBinary(name, values, Valid(), large);
    }
  }

  const size_t rows_;
  const Nulls nulls_;
  std::mt19937_64 random_;
  std::unique_ptr<bool[]> valid_;
  BatchBuilder builder_;
};

}  // namespace

RecordBatch RandomBatch(int64_t rows, Nulls nulls, uint64_t seed) {
  return Maker(rows, nulls, seed).Make();
}

}  // namespace millrace
