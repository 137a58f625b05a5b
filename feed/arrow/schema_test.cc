#include "millrace/schema.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<Type> AllTypes() {
  std::vector<Type> types;
  for (int id = 0; id < static_cast<int>(TypeId::kList); ++id) {
    if (static_cast<TypeId>(id) != TypeId::kTimestamp) {
      types.push_back(Type::Scalar(static_cast<TypeId>(id)));
    }
  }
  for (TimeUnit unit : {TimeUnit::kSecond, TimeUnit::kMilli, TimeUnit::kMicro, TimeUnit::kNano}) {
    for (const char* zone : {"", "UTC", "+05:30"}) types.push_back(Type::Timestamp(unit, zone));
  }
  const std::vector<Type> scalars = types;
  for (const Type& scalar : scalars) {
    types.push_back(Type::FixedSizeList(scalar, 3));
    types.push_back(Type::FixedSizeList(scalar, 64, /*element_nullable=*/false));
    types.push_back(Type::List(scalar));
    types.push_back(Type::LargeList(scalar, /*element_nullable=*/false));
    types.push_back(Type::List(Type::List(scalar)));
    types.push_back(Type::Struct({{"a", scalar}}));
    types.push_back(Type::Struct({{"b", scalar}}));
    types.push_back(Type::Struct({{"a", scalar}, {"b", Type::List(scalar), false}}));
  }
  return types;
}

TEST(TypeTest, HasAReadableName) {
  EXPECT_EQ(Type::Float32().ToString(), "float32");
  EXPECT_EQ(Type::FixedSizeList(Type::Float32(), 64).ToString(), "fixed_size_list<float32>[64]");
  EXPECT_EQ(Type::FixedSizeList(Type::Int8(), 2, false).ToString(),
            "fixed_size_list<int8 not null>[2]");
  EXPECT_EQ(Type::Timestamp(TimeUnit::kNano, "Europe/Berlin").ToString(),
            "timestamp[ns, Europe/Berlin]");
  EXPECT_EQ(Type::Timestamp(TimeUnit::kSecond).ToString(), "timestamp[s]");
  EXPECT_EQ(Type::LargeList(Type::List(Type::Utf8()), false).ToString(),
            "large_list<list<utf8> not null>");
  EXPECT_EQ(
      Type::Struct({{"x", Type::Float64(), false}, {"tags", Type::List(Type::Utf8())}}).ToString(),
      "struct<x: float64 not null, tags: list<utf8>>");
}

TEST(TypeTest, ComparesStructurally) {
  const std::vector<Type> types = AllTypes();
  for (size_t i = 0; i < types.size(); ++i) {
    for (size_t j = 0; j < types.size(); ++j) EXPECT_EQ(types[i] == types[j], i == j);
  }
}

TEST(TimestampTest, ConvertsToTime) {
  EXPECT_EQ(Timestamp{-1}.ToTime(TimeUnit::kSecond), absl::FromUnixSeconds(-1));
  EXPECT_EQ(Timestamp{1500}.ToTime(TimeUnit::kMilli), absl::FromUnixMillis(1500));
  EXPECT_EQ(Timestamp{1500}.ToTime(TimeUnit::kMicro), absl::FromUnixMicros(1500));
  EXPECT_EQ(Timestamp{1500}.ToTime(TimeUnit::kNano), absl::FromUnixNanos(1500));
}

TEST(Float16Test, ConvertsToFloat) {
  EXPECT_EQ((Float16{0x0000}).ToFloat(), 0.0f);
  EXPECT_EQ((Float16{0x3c00}).ToFloat(), 1.0f);
  EXPECT_EQ((Float16{0xc000}).ToFloat(), -2.0f);
  EXPECT_EQ((Float16{0x7bff}).ToFloat(), 65504.0f);
  EXPECT_EQ((Float16{0x0001}).ToFloat(), 0x1p-24f);
  EXPECT_EQ((Float16{0x8400}).ToFloat(), -0x1p-14f);
  EXPECT_EQ((Float16{0x7c00}).ToFloat(), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan((Float16{0x7e00}).ToFloat()));
}

TEST(SchemaTest, SurvivesTheCDataInterfaceForEveryType) {
  SchemaBuilder builder;
  for (const Type& type : AllTypes()) {
    builder.Add(type.ToString(), type).Add(type.ToString() + "!", type, /*nullable=*/false);
  }
  absl::StatusOr<Schema> schema = builder.Build();
  ASSERT_THAT(schema, IsOk());
  nanoarrow::UniqueSchema exported;
  schema->Export(exported.get());
  absl::StatusOr<Schema> back = Schema::FromArrowSchema(*exported.get());
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(*schema, *back);
  EXPECT_EQ(Schema::DescribeDifference(*schema, *back), "");
  EXPECT_THAT(Schema::FromArrowSchema(*schema->c_schema()), IsOkAndHolds(*schema));
}

TEST(SchemaTest, FindsColumns) {
  absl::StatusOr<Schema> schema =
      SchemaBuilder().Add("id", Type::Int64()).Add("x", Type::Float32(), false).Build();
  ASSERT_THAT(schema, IsOk());
  EXPECT_EQ(schema->Find("id"), 0);
  EXPECT_EQ(schema->Find("x"), 1);
  EXPECT_EQ(schema->Find("y"), std::nullopt);
  EXPECT_EQ(schema->ToString(), "id: int64, x: float32 not null");
  EXPECT_EQ(Schema().num_columns(), 0);
}

TEST(SchemaTest, DescribesTheFirstDifference) {
  const auto difference = [](SchemaBuilder a, SchemaBuilder b) {
    return Schema::DescribeDifference(*a.Build(), *b.Build());
  };
  const SchemaBuilder a = SchemaBuilder().Add("x", Type::Float32()).Add("y", Type::Int8());
  EXPECT_EQ(difference(a, SchemaBuilder().Add("x", Type::Float64()).Add("z", Type::Int8())),
            "column \"x\": float32 before, float64 now");
  EXPECT_EQ(difference(a, SchemaBuilder().Add("x", Type::Float32(), false)),
            "column \"x\": float32 before, float32 not null now");
  EXPECT_EQ(difference(a, SchemaBuilder().Add("z", Type::Float32())),
            "column 0: name \"x\" before, \"z\" now");
  EXPECT_EQ(difference(a, SchemaBuilder().Add("x", Type::Float32())),
            "column \"y\" is missing now");
  EXPECT_EQ(difference(SchemaBuilder().Add("x", Type::Float32()), a), "column \"y\" is new");
}

TEST(SchemaTest, RefusesWhatAFeedDoesNotCarry) {
  EXPECT_THAT(SchemaBuilder().Add("a", Type::Int8()).Add("a", Type::Int8()).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two columns")));
  EXPECT_THAT(SchemaBuilder().Add("s", Type::FixedSizeList(Type::Int8(), 0)).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("column \"s\": type fixed_size_list<int8>[0] is not supported")));
  const Type wide = Type::FixedSizeList(Type::Int8(), INT32_MAX);
  EXPECT_THAT(SchemaBuilder().Add("s", wide).Build(), IsOk());
  for (const Type& wider : {Type::FixedSizeList(wide, 2), Type::FixedSizeList(wide, INT32_MAX),
                            Type::FixedSizeList(Type::FixedSizeList(wide, INT32_MAX), INT32_MAX)}) {
    EXPECT_THAT(SchemaBuilder().Add("s", Type::List(wider)).Build(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not supported")));
  }
  EXPECT_THAT(SchemaBuilder().Add("s", Type::List(Type::Struct({}))).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("struct of 0 fields")));
  EXPECT_THAT(
      SchemaBuilder().Add("s", Type::Struct({{"a", Type::Int8()}, {"a", Type::Int8()}})).Build(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("column \"s\": two fields have the name \"a\"")));
  EXPECT_THAT(SchemaBuilder().Add("s", Type::Struct({{"\xff", Type::Int8()}})).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(SchemaBuilder().Add("s", Type::Timestamp(TimeUnit::kNano, "\xff")).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("time zone")));
  EXPECT_THAT(SchemaBuilder().Add("\xff", Type::Int8()).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
  EXPECT_THAT(SchemaBuilder().Add(std::string("a\0b", 3), Type::Int8()).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(SchemaTest, NestsAtMost32Deep) {
  Type type = Type::Int8();
  for (int depth = 1; depth < kMaxNesting; ++depth) type = Type::List(type);
  absl::StatusOr<Schema> deep = SchemaBuilder().Add("deep", type).Build();
  ASSERT_THAT(deep, IsOk());
  EXPECT_THAT(Schema::FromArrowSchema(*deep->c_schema()), IsOkAndHolds(*deep));
  EXPECT_THAT(SchemaBuilder().Add("deep", Type::Struct({{"a", type}})).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("column \"deep\": nested deeper than 32")));
}

TEST(SchemaTest, DescribesADifferenceWithinAStruct) {
  const auto schema = [](Type inner) {
    return *SchemaBuilder()
                .Add("p", Type::Struct({{"x", Type::Int8()}, {"q", Type::Struct({{"y", inner}})}}))
                .Build();
  };
  EXPECT_EQ(Schema::DescribeDifference(schema(Type::Int8()), schema(Type::List(Type::Utf8()))),
            "column \"p.q.y\": int8 before, list<utf8> now");
}

TEST(SchemaTest, NamesColumnAndTypeOfAnUnsupportedArrowType) {
  nanoarrow::UniqueSchema schema;
  ArrowSchemaInit(schema.get());
  ASSERT_EQ(ArrowSchemaSetTypeStruct(schema.get(), 1), NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaSetTypeDateTime(schema->children[0], NANOARROW_TYPE_DURATION,
                                       NANOARROW_TIME_UNIT_MICRO, nullptr),
            NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaSetName(schema->children[0], "when"), NANOARROW_OK);
  EXPECT_THAT(Schema::FromArrowSchema(*schema.get()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"when\""), HasSubstr("duration"))));
  EXPECT_THAT(Schema::FromArrowSchema(*schema->children[0]),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("struct")));
}

TEST(SchemaTest, TakesAtMost65536Columns) {
  SchemaBuilder builder;
  for (int i = 0; i < kMaxColumns; ++i) builder.Add("c" + std::to_string(i), Type::Int8());
  EXPECT_THAT(builder.Build(), IsOk());
  EXPECT_THAT(builder.Add("one more", Type::Int8()).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
