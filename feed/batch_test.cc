#include "feed/batch.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/batch_builder.h"
#include "feed/record_batch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RecordBatch Rows() {
  const bool valid[] = {true, false, true, true};
  const bool labels[] = {true, true, false, true};
  absl::StatusOr<RecordBatch> batch =
      BatchBuilder()
          .AddFixedSizeList("image", std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, 2, valid)
          .AddColumn("label", std::vector<int64_t>{10, 11, 12, 13}, labels)
          .AddStrings("name", std::vector<const char*>{"a", "", "c", "dd"})
          .AddBools("flag", {true, false, true, false})
          .Build();
  EXPECT_THAT(batch, IsOk());
  return *std::move(batch);
}

TEST(BatchTest, IsEmptyByDefaultWhateverColumnIsAskedFor) {
  const Batch batch;
  EXPECT_EQ(batch.num_rows(), 0);
  EXPECT_TRUE(batch.empty());
  EXPECT_TRUE(batch.names().empty());
  EXPECT_TRUE(batch.column<float>("x").empty());
  EXPECT_TRUE(batch.column<uint8_t>("x").empty());
  EXPECT_THAT(batch.TryColumn<int64_t>("x"), IsOk());
  EXPECT_EQ(batch.list_size("x"), 1);
  EXPECT_EQ(batch.strings("x").size(), 0u);
  EXPECT_EQ(batch.bools("x").size(), 0u);
  EXPECT_EQ(batch.validity("x").null_count(), 0);
  EXPECT_EQ(batch.element_validity("x").size(), 0u);
}

TEST(BatchTest, ShowsColumnsUnderTheirOwnNamesWithoutMapping) {
  absl::StatusOr<Batch> batch = Batch::Create(Rows());
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->names(), ElementsAre("image", "label", "name", "flag"));
  EXPECT_EQ(batch->num_rows(), 4);
  EXPECT_THAT(batch->column<int64_t>("label").subspan(0, 2), ElementsAre(10, 11));
}

TEST(BatchTest, ShowsMappedColumnsOnly) {
  absl::StatusOr<Batch> batch = Batch::Create(Rows(), {{"label", "y"}, {"image", "x"}});
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->names(), ElementsAre("y", "x"));
  EXPECT_FALSE(batch->has_column("name"));
  EXPECT_THAT(batch->column<float>("x"), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(batch->list_size("x"), 2);
  EXPECT_EQ(batch->list_size("y"), 1);
  EXPECT_THAT(batch->TryColumn<float>("image"), StatusIs(absl::StatusCode::kNotFound));
}

TEST(BatchTest, SpansPointIntoTheRows) {
  const RecordBatch rows = Rows();
  absl::StatusOr<Batch> batch = Batch::Create(rows.Slice(1, 2));
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->column<int64_t>("label").data(), rows.column(1).values<int64_t>() + 1);
  EXPECT_THAT(batch->column<float>("image"), ElementsAre(3, 4, 5, 6));
}

TEST(BatchTest, GivesAccessToTextBoolsAndNulls) {
  absl::StatusOr<Batch> batch = Batch::Create(Rows().Slice(1, 3));
  ASSERT_THAT(batch, IsOk());
  const StringColumn names = batch->strings("name");
  EXPECT_EQ(names.size(), 3u);
  EXPECT_EQ(names[0], "");
  EXPECT_EQ(names[2], "dd");
  const BoolColumn flags = batch->bools("flag");
  EXPECT_FALSE(flags[0]);
  EXPECT_TRUE(flags[1]);
  EXPECT_TRUE(batch->IsNull("image", 0));
  EXPECT_FALSE(batch->IsNull("image", 1));
  EXPECT_EQ(batch->validity("label").null_count(), 1);
  EXPECT_FALSE(batch->validity("label")[1]);
  EXPECT_TRUE(batch->validity("name")[0]);
  EXPECT_EQ(batch->validity("name").null_count(), 0);
  EXPECT_EQ(batch->element_validity("image").null_count(), 0);
}

TEST(BatchTest, TryFormsSayWhatWasWantedAndFound) {
  absl::StatusOr<Batch> batch = Batch::Create(Rows());
  ASSERT_THAT(batch, IsOk());
  EXPECT_THAT(batch->TryColumn<float>("label"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "column \"label\": wanted float32, found int64"));
  EXPECT_THAT(batch->TryColumn<double>("image"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "column \"image\": wanted float64, found fixed_size_list<float32>[2]"));
  EXPECT_THAT(batch->TryColumn<float>("x"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"x\""), HasSubstr("image, label, name, flag"))));
  EXPECT_THAT(batch->TryStrings("label"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(batch->TryBools("label"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(batch->TryValidity("x"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(batch->TryStrings("name"), IsOk());
}

TEST(BatchDeathTest, PlainAccessorsEndTheProgram) {
  absl::StatusOr<Batch> batch = Batch::Create(Rows());
  ASSERT_THAT(batch, IsOk());
  EXPECT_DEATH((void)batch->column<float>("label"), "wanted float32, found int64");
  EXPECT_DEATH((void)batch->column<float>("x"), "no column");
  EXPECT_DEATH((void)batch->strings("label"), "wanted utf8 or binary");
  EXPECT_DEATH((void)batch->bools("label"), "wanted bool");
  EXPECT_DEATH((void)batch->IsNull("label", 4), "row 4 of 4");
}

TEST(BatchTest, KeepsItsMemory) {
  std::span<const float> image;
  absl::StatusOr<Batch> batch = absl::UnknownError("unset");
  {
    const RecordBatch rows = Rows();
    batch = Batch::Create(rows);
    image = batch->column<float>("image");
  }
  EXPECT_EQ(image[7], 8);
}

TEST(BatchTest, RefusesABadMapping) {
  EXPECT_THAT(
      Batch::Create(Rows(), {{"pixels", "x"}}),
      StatusIs(absl::StatusCode::kNotFound, AllOf(HasSubstr("pixels"), HasSubstr("image"))));
  EXPECT_THAT(Batch::Create(Rows(), {{"image", "x"}, {"label", "x"}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
  EXPECT_THAT(Batch::Create(Rows(), {{"image", ""}}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(BatchBuilderTest, AdoptsAMovedVector) {
  std::vector<double> values = {1, 2, 3};
  const double* const data = values.data();
  absl::StatusOr<RecordBatch> batch = BatchBuilder().AddColumn("x", std::move(values)).Build();
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->column(0).values<double>(), data);
}

TEST(BatchBuilderTest, CopiesSpansAndArrays) {
  const int32_t array[] = {1, 2, 3};
  std::vector<uint8_t> vector = {4, 5, 6};
  absl::StatusOr<RecordBatch> batch = BatchBuilder()
                                          .AddColumn("a", std::span<const int32_t>(array))
                                          .AddColumn("b", vector)
                                          .AddColumn("c", array)
                                          .AddBinary("d", std::vector<std::string>{"\xff", "", "x"})
                                          .Build();
  ASSERT_THAT(batch, IsOk());
  EXPECT_NE(batch->column(1).values<uint8_t>(), vector.data());
  EXPECT_EQ(batch->column(2).values<int32_t>()[2], 3);
  EXPECT_EQ(batch->schema().ToString(), "a: int32, b: uint8, c: int32, d: binary");
}

TEST(BatchBuilderTest, ReportsTheFirstMistake) {
  const bool two[] = {true, true};
  const std::vector<float> one = {1};
  EXPECT_THAT(
      BatchBuilder().AddColumn("a", one).AddColumn("b", std::vector<float>{1, 2}).Build(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"b\": 2 rows, \"a\" has 1")));
  EXPECT_THAT(BatchBuilder().AddColumn("a", one).AddColumn("a", one).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("two columns")));
  EXPECT_THAT(BatchBuilder().AddColumn("a", one, two).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("validity of 2 rows for 1")));
  EXPECT_THAT(BatchBuilder().AddFixedSizeList("a", one, 2).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("1 values in lists of 2")));
  EXPECT_THAT(BatchBuilder().AddFixedSizeList("a", one, 0).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(BatchBuilder().AddStrings("a", std::vector<std::string>{"\xff"}).Build(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("UTF-8")));
}

}  // namespace
}  // namespace millrace
