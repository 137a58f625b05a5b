#include "feed/arrow/record_batch_testing.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/log.h"
#include "feed/arrow/make_record_batch.h"
#include "millrace/batch_builder.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"

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

// Columns of any type, as batches of one column.
class ColumnMaker {
 public:
  ColumnMaker(Nulls nulls, std::mt19937_64* random) : nulls_(nulls), random_(*random) {}

  RecordBatch Make(absl::string_view name, const Type& type, int64_t rows) {
    BatchBuilder builder;
    const std::unique_ptr<bool[]> valid = Valid(rows);
    const std::span<const bool> nulls(valid.get(), valid ? static_cast<size_t>(rows) : 0);
    if (type.is_struct()) {
      builder.AddStruct(name, Fields(type.children(), rows), nulls);
    } else if (type.is_fixed_size_list()) {
      builder.AddFixedSizeList(name, Make("item", type.element().type, rows * type.list_size()),
                               type.list_size(), nulls);
    } else if (type.is_list()) {
      std::vector<int64_t> lengths;
      int64_t elements = 0;
      for (int64_t i = 0; i < rows; ++i) {
        lengths.push_back(static_cast<int64_t>(random_() % 4));
        elements += lengths.back();
      }
      builder.AddList(name, lengths, Make("item", type.element().type, elements), nulls,
                      type.is_large());
    } else {
      Scalars(name, type, rows, nulls, &builder);
    }
    return Built(&builder);
  }

  RecordBatch Fields(const std::vector<Field>& fields, int64_t rows) {
    std::vector<RecordBatch> columns;
    for (const Field& field : fields) columns.push_back(Make(field.name, field.type, rows));
    return Join(columns);
  }

 private:
  // The columns of several batches side by side.
  static RecordBatch Join(const std::vector<RecordBatch>& batches) {
    std::vector<ColumnData> columns;
    std::vector<Field> fields;
    std::vector<std::shared_ptr<const void>> owners;
    for (const RecordBatch& batch : batches) {
      columns.push_back(batch.column(0).data());
      fields.push_back(batch.schema().field(0));
      owners.push_back(batch.owner());
    }
    absl::StatusOr<Schema> schema = Schema::FromFields(std::move(fields));
    MILLRACE_CHECK(schema.ok()) << schema.status().message();
    return internal::MakeRecordBatch(*schema, batches[0].num_rows(), std::move(columns),
                                     std::move(owners));
  }

  static RecordBatch Built(BatchBuilder* builder) {
    absl::StatusOr<RecordBatch> batch = builder->Build();
    MILLRACE_CHECK(batch.ok()) << batch.status().message();
    return *std::move(batch);
  }

  std::unique_ptr<bool[]> Valid(int64_t rows) {
    if (nulls_ == Nulls::kNone) return nullptr;
    auto valid = std::make_unique<bool[]>(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) valid[i] = nulls_ == Nulls::kSome && random_() % 3 != 0;
    return valid;
  }

  void Scalars(absl::string_view name, const Type& type, int64_t rows, std::span<const bool> valid,
               BatchBuilder* builder) {
    const auto numbers = [&]<typename T>(T) {
      std::vector<T> values(static_cast<size_t>(rows));
      for (T& value : values) {
        const uint64_t bits = random_();
        std::memcpy(static_cast<void*>(&value), &bits, sizeof(value));
      }
      builder->AddColumn(name, std::move(values), valid);
    };
    switch (type.id()) {
      case TypeId::kBool: {
        std::vector<bool> values(static_cast<size_t>(rows));
        for (size_t i = 0; i < values.size(); ++i) values[i] = random_() % 2 == 0;
        builder->AddBools(name, values, valid);
        return;
      }
      case TypeId::kInt8:
        return numbers(int8_t{});
      case TypeId::kInt16:
        return numbers(int16_t{});
      case TypeId::kInt32:
        return numbers(int32_t{});
      case TypeId::kInt64:
        return numbers(int64_t{});
      case TypeId::kUint8:
        return numbers(uint8_t{});
      case TypeId::kUint16:
        return numbers(uint16_t{});
      case TypeId::kUint32:
        return numbers(uint32_t{});
      case TypeId::kUint64:
        return numbers(uint64_t{});
      case TypeId::kFloat16:
        return numbers(Float16{});
      case TypeId::kFloat32:
        return numbers(float{});
      case TypeId::kFloat64:
        return numbers(double{});
      case TypeId::kDate32:
        return numbers(Date32{});
      case TypeId::kDate64:
        return numbers(Date64{});
      case TypeId::kTimestamp: {
        std::vector<Timestamp> values(static_cast<size_t>(rows));
        for (Timestamp& value : values) value.value = static_cast<int64_t>(random_());
        builder->AddTimestamps(name, std::move(values), type.time_unit(), type.time_zone(), valid);
        return;
      }
      default: {
        std::vector<std::string> values(static_cast<size_t>(rows));
        for (std::string& value : values) {
          if (random_() % 4 != 0) value = absl::StrCat("\xc3\xbc", random_() % 1000);
        }
        if (type.is_utf8()) {
          builder->AddStrings(name, values, valid, type.is_large());
        } else {
          builder->AddBinary(name, values, valid, type.is_large());
        }
      }
    }
  }

  const Nulls nulls_;
  std::mt19937_64& random_;
};

}  // namespace

Type RandomType(int depth, std::mt19937_64* random) {
  const uint64_t kind = (*random)() % (depth > 1 ? 8 : 4);
  switch (kind) {
    case 4:
      return Type::List(RandomType(depth - 1, random));
    case 5:
      return Type::LargeList(RandomType(depth - 1, random));
    case 6:
      return Type::FixedSizeList(RandomType(depth - 1, random),
                                 static_cast<int32_t>(1 + (*random)() % 3));
    case 7: {
      std::vector<Field> fields;
      for (uint64_t i = 0, n = 1 + (*random)() % 3; i < n; ++i) {
        fields.push_back({absl::StrCat("f", i), RandomType(depth - 1, random), true});
      }
      return Type::Struct(std::move(fields));
    }
    default: {
      const auto id = static_cast<TypeId>((*random)() % static_cast<uint64_t>(TypeId::kList));
      if (id != TypeId::kTimestamp) return Type::Scalar(id);
      return Type::Timestamp(static_cast<TimeUnit>((*random)() % 4),
                             (*random)() % 2 == 0 ? "" : "Europe/Berlin");
    }
  }
}

RecordBatch RandomBatchOf(const Schema& schema, int64_t rows, Nulls nulls, uint64_t seed) {
  std::mt19937_64 random(seed);
  return ColumnMaker(nulls, &random).Fields(schema.fields(), rows);
}

RecordBatch RandomNestedBatch(int64_t rows, Nulls nulls, uint64_t seed) {
  std::mt19937_64 random(seed);
  SchemaBuilder builder;
  builder.Add("date32", Type::Date32())
      .Add("timestamp", Type::Timestamp(TimeUnit::kMicro, "UTC"))
      .Add("words", Type::List(Type::Utf8()))
      .Add("large", Type::LargeList(Type::Int16()))
      .Add("image", Type::FixedSizeList(Type::FixedSizeList(Type::Float32(), 3), 2))
      .Add("names", Type::FixedSizeList(Type::Utf8(), 2))
      .Add("point", Type::Struct({{"x", Type::Float64()}, {"tags", Type::List(Type::Bool())}}))
      .Add("points", Type::List(Type::Struct({{"x", Type::Int8()}, {"name", Type::Utf8()}})));
  for (int i = 0; i < 4; ++i) builder.Add(absl::StrCat("random", i), RandomType(3, &random));
  const absl::StatusOr<Schema> schema = builder.Build();
  MILLRACE_CHECK(schema.ok()) << schema.status().message();
  return RandomBatchOf(*schema, rows, nulls, seed + 1);
}

RecordBatch RandomBatch(int64_t rows, Nulls nulls, uint64_t seed) {
  return Maker(rows, nulls, seed).Make();
}

}  // namespace millrace
