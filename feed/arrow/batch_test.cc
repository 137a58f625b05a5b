#include "millrace/batch.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "feed/arrow/batch_layout.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.hpp"

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
  EXPECT_FALSE(batch.has_column("x"));
  EXPECT_TRUE(batch.column<Timestamp>("x").empty());
  EXPECT_EQ(batch.times("x").size(), 0u);
  EXPECT_EQ(batch.list("x").size(), 0u);
  EXPECT_TRUE(batch.list("x").elements().values<double>().empty());
  EXPECT_TRUE(batch.at("x").field("y").strings().size() == 0);
  EXPECT_TRUE(batch.tensor<float>("x").values.empty());
  EXPECT_THAT(batch.tensor<float>("x").shape, ElementsAre(0));
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

// tags: [["a", "bb"], null, [], ["c", null, "d"]]
// point: {x: 1, inner: {n: 10}}, null, {x: 3, inner: null}, {x: 4, inner: {n: 40}}
// image: 4 x 2 x 3 float32
// day, at: dates and timestamps
RecordBatch NestedRows() {
  const bool row1_null[] = {true, false, true, true};
  const bool row2_null[] = {true, true, false, true};
  const bool word4_null[] = {true, true, true, false, true};
  const auto build = [](BatchBuilder& builder) { return *builder.Build(); };
  const RecordBatch words = build(BatchBuilder().AddStrings(
      "w", std::vector<std::string>{"a", "bb", "c", "hidden", "d"}, word4_null));
  const RecordBatch inner =
      build(BatchBuilder().AddColumn("n", std::vector<int32_t>{10, 20, 30, 40}));
  const RecordBatch point = build(BatchBuilder()
                                      .AddColumn("x", std::vector<double>{1, 2, 3, 4})
                                      .AddStruct("inner", inner, row2_null)
                                      .AddColumn("a.b", std::vector<int8_t>{5, 6, 7, 8}));
  std::vector<float> pixels(24);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i);
  const RecordBatch lines = build(BatchBuilder().AddFixedSizeList("line", std::move(pixels), 3));
  const std::vector<int64_t> lengths = {2, 0, 0, 3};
  return build(BatchBuilder()
                   .AddList("tags", lengths, words, row1_null)
                   .AddStruct("point", point, row1_null)
                   .AddFixedSizeList("image", lines, 2)
                   .AddColumn("day", std::vector<Date32>{{0}, {1}, {-1}, {19000}})
                   .AddTimestamps("at", std::vector<Timestamp>{{0}, {1500}, {-1}, {7}},
                                  TimeUnit::kMilli, "UTC")
                   .AddColumn("point.flat", std::vector<int64_t>{1, 2, 3, 4}));
}

TEST(BatchTest, ShowsListsByRowAndTogether) {
  const Batch batch = *Batch::Create(NestedRows());
  const ListColumn tags = batch.list("tags");
  ASSERT_EQ(tags.size(), 4u);
  EXPECT_FALSE(tags.validity()[1]);
  EXPECT_EQ(tags[0].strings()[1], "bb");
  EXPECT_EQ(tags[2].size(), 0u);
  EXPECT_TRUE(tags[3].IsNull(1));
  EXPECT_EQ(tags[3].strings()[2], "d");
  EXPECT_EQ(tags.offset(3), 2u);
  EXPECT_EQ(tags.length(3), 3u);
  EXPECT_EQ(tags.elements().strings().size(), 5u);
  EXPECT_EQ(batch.element_validity("tags").null_count(), 1);

  const Batch slice = *Batch::Create(NestedRows().Slice(2, 2));
  EXPECT_EQ(slice.list("tags").offset(1), 0u);
  EXPECT_EQ(slice.list("tags").offset(2), 3u);
  EXPECT_EQ(slice.list("tags").elements().strings()[0], "c");
  EXPECT_EQ(slice.list("tags")[1].strings()[2], "d");
  EXPECT_EQ(slice.element_validity("tags").size(), 3u);
}

TEST(BatchTest, ShowsFixedSizeListsAsTensorsAndAsLists) {
  const Batch batch = *Batch::Create(NestedRows().Slice(1, 3));
  const Tensor<float> image = batch.tensor<float>("image");
  EXPECT_THAT(image.shape, ElementsAre(3, 2, 3));
  EXPECT_EQ(image.row_size(), 6u);
  EXPECT_THAT(image[2], ElementsAre(18, 19, 20, 21, 22, 23));
  EXPECT_EQ(image.values.data(), batch.column<float>("image").data());
  EXPECT_EQ(batch.column<float>("image").size(), 18u);
  EXPECT_EQ(batch.list_size("image"), 6);
  EXPECT_EQ(batch.element_validity("image").size(), 18u);
  EXPECT_THAT(batch.tensor<double>("point.x").shape, ElementsAre(3));
  const ListColumn lines = batch.list("image");
  EXPECT_EQ(lines.offset(2), 4u);
  EXPECT_THAT(lines[1].list()[1].values<float>(), ElementsAre(15, 16, 17));
  EXPECT_THAT(batch.TryTensor<double>("image"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "column \"image\": wanted float64, found "
                       "fixed_size_list<fixed_size_list<float32>[3]>[2]"));
}

TEST(BatchTest, NamesFieldsOfStructs) {
  const Batch batch = *Batch::Create(NestedRows().Slice(1, 3), {{"point", "p"}});
  EXPECT_THAT(batch.column<double>("p.x"), ElementsAre(2, 3, 4));
  EXPECT_THAT(batch.column<int32_t>("p.inner.n"), ElementsAre(20, 30, 40));
  EXPECT_THAT(batch.column<int8_t>("p.a.b"), ElementsAre(6, 7, 8));
  EXPECT_TRUE(batch.has_column("p.inner.n"));
  EXPECT_FALSE(batch.has_column("p.inner.m"));
  EXPECT_THAT(batch.at("p").field("inner").field("n").values<int32_t>(), ElementsAre(20, 30, 40));
  EXPECT_EQ(batch.type("p.inner").ToString(), "struct<n: int32>");
  // Null where a struct around it is, but each level on its own too.
  EXPECT_EQ(batch.validity("p.inner.n").null_count(), 2);
  EXPECT_TRUE(batch.IsNull("p.inner.n", 0));
  EXPECT_TRUE(batch.IsNull("p.inner.n", 1));
  EXPECT_FALSE(batch.IsNull("p.inner.n", 2));
  EXPECT_EQ(batch.at("p.inner").field("n").validity().null_count(), 0);
  EXPECT_EQ(batch.at("p.inner").validity().null_count(), 1);
  // A column's own name comes first.
  EXPECT_THAT(Batch::Create(NestedRows())->column<int64_t>("point.flat"), ElementsAre(1, 2, 3, 4));
}

TEST(BatchTest, SaysWhatIsWrongWithinNestedColumns) {
  const Batch batch = *Batch::Create(NestedRows());
  EXPECT_THAT(
      batch.TryColumn<float>("point.x"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("column \"point.x\": wanted float32, found float64 within struct<")));
  EXPECT_THAT(batch.TryColumn<float>("point.inner.m"),
              StatusIs(absl::StatusCode::kNotFound,
                       "column \"point.inner\" has no field \"m\"; it is struct<n: int32>"));
  EXPECT_THAT(batch.TryColumn<float>("tags.x"), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(batch.list("tags").elements().TryValues<float>(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "column \"tags\": wanted float32, found utf8 within list<utf8>"));
  EXPECT_THAT(batch.TryList("point"), StatusIs(absl::StatusCode::kInvalidArgument,
                                               HasSubstr("wanted a list, found struct<")));
  EXPECT_THAT(batch.at("tags").TryField("x"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "column \"tags\": wanted a struct, found list<utf8>"));
  EXPECT_THAT(batch.TryTimes("tags"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(batch.TryAt("."), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(batch.TryAt("point."), StatusIs(absl::StatusCode::kNotFound));
}

TEST(BatchTest, ShowsDatesAndTimestampsAsTimes) {
  const Batch batch = *Batch::Create(NestedRows().Slice(1, 3));
  EXPECT_EQ(batch.times("day")[0], absl::UnixEpoch() + absl::Hours(24));
  EXPECT_EQ(batch.times("day")[1], absl::UnixEpoch() - absl::Hours(24));
  EXPECT_EQ(batch.times("at")[0], absl::FromUnixMillis(1500));
  EXPECT_EQ(batch.column<Timestamp>("at")[0].value, 1500);
  EXPECT_EQ(batch.column<Date32>("day")[2].days, 19000);
  EXPECT_EQ(batch.type("at").time_unit(), TimeUnit::kMilli);
  EXPECT_THAT(batch.TryColumn<int64_t>("at"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "column \"at\": wanted int64, found timestamp[ms, UTC]"));
}

TEST(BatchTest, GivesRows) {
  const Batch batch = *Batch::Create(NestedRows());
  const Row row = batch.row(3);
  EXPECT_EQ(row.index(), 3);
  EXPECT_EQ(row.value<double>("point.x"), 4);
  EXPECT_THAT(row.values<float>("image"), ElementsAre(18, 19, 20, 21, 22, 23));
  EXPECT_EQ(row.elements("tags").strings()[0], "c");
  EXPECT_EQ(row.time("at"), absl::FromUnixMillis(7));
  EXPECT_FALSE(row.IsNull("tags"));
  EXPECT_TRUE(batch.row(1).IsNull("point.x"));
  const Batch flat = *Batch::Create(Rows());
  EXPECT_EQ(flat.row(3).text("name"), "dd");
  EXPECT_TRUE(flat.row(2).flag("flag"));
}

TEST(BatchTest, ColumnsOutliveTheNamesTheyWereAskedFor) {
  const Batch batch = *Batch::Create(NestedRows());
  std::string name = "point.inner";
  const Column inner = batch.at(name);
  name = "xxxxxxxxxxx";
  EXPECT_THAT(inner.TryStrings(), StatusIs(absl::StatusCode::kInvalidArgument,
                                           HasSubstr("column \"point\": wanted utf8")));
}

TEST(BatchTest, ExportsItsColumnsUnderTheirNames) {
  const Batch batch = *Batch::Create(NestedRows().Slice(1, 3), {{"point", "p"}, {"tags", "t"}});
  nanoarrow::UniqueSchema schema;
  nanoarrow::UniqueArray array;
  batch.Export(schema.get(), array.get());
  absl::StatusOr<Batch> back = Batch::Import(schema.get(), array.get());
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(back->names(), ElementsAre("p", "t"));
  EXPECT_EQ(back->num_rows(), 3);
  EXPECT_EQ(back->column<double>("p.x").data(), batch.column<double>("p.x").data());
  EXPECT_EQ(back->list("t")[2].strings()[2], "d");
}

TEST(BatchDeathTest, NestedAccessorsEndTheProgram) {
  const Batch batch = *Batch::Create(NestedRows());
  EXPECT_DEATH((void)batch.list("point"), "wanted a list");
  EXPECT_DEATH((void)batch.at("point").field("z"), "no field \"z\"");
  EXPECT_DEATH((void)batch.list("tags").elements().values<float>(), "found utf8 within list<utf8>");
  EXPECT_DEATH((void)batch.row(4), "row 4 of 4");
  EXPECT_DEATH((void)batch.element_validity("point"), "wanted a list");
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

TEST(BatchBuilderTest, SharesTheMemoryOfWhatItNests) {
  const RecordBatch numbers =
      *BatchBuilder().AddColumn("n", std::vector<int64_t>{1, 2, 3, 4, 5}).Build();
  const std::vector<int64_t> lengths = {1, 3};
  const RecordBatch batch = *BatchBuilder()
                                 .AddList("l", lengths, numbers.Slice(1, 4), {}, /*large=*/true)
                                 .AddFixedSizeList("f", numbers.Slice(1, 4), 2)
                                 .AddStruct("s", numbers.Slice(3, 2))
                                 .Build();
  EXPECT_EQ(batch.schema().ToString(),
            "l: large_list<int64>, f: fixed_size_list<int64>[2], s: struct<n: int64>");
  const int64_t* const data = numbers.column(0).values<int64_t>();
  EXPECT_EQ(batch.column(0).ListAt(1).values<int64_t>(), data + 2);
  EXPECT_EQ(batch.column(1).ListAt(1).values<int64_t>(), data + 3);
  EXPECT_EQ(batch.column(2).Child(0).values<int64_t>(), data + 3);
}

TEST(BatchBuilderTest, ReportsNestedMistakes) {
  const RecordBatch two = *BatchBuilder()
                               .AddColumn("a", std::vector<int8_t>{1, 2})
                               .AddColumn("b", std::vector<int8_t>{1, 2})
                               .Build();
  const RecordBatch one = *BatchBuilder().AddColumn("a", std::vector<int8_t>{1, 2}).Build();
  const auto bad = [](absl::string_view text) {
    return StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(std::string(text)));
  };
  for (const std::vector<int64_t>& lengths :
       {std::vector<int64_t>{1}, {3}, {-1, 3}, {INT64_MAX, INT64_MAX}, {2, 1}, {}}) {
    EXPECT_THAT(BatchBuilder().AddList("l", lengths, one).Build(), bad("do not add up to 2"));
  }
  EXPECT_THAT(BatchBuilder().AddList("l", std::vector<int64_t>{2}, two).Build(),
              bad("2 columns, not in one"));
  EXPECT_THAT(BatchBuilder().AddFixedSizeList("l", one, 3).Build(), bad("2 values in lists of 3"));
  EXPECT_THAT(BatchBuilder().AddStruct("s", RecordBatch()).Build(), bad("struct of 0 fields"));
  EXPECT_THAT(BatchBuilder().AddStruct("s", one).AddStruct("t", one.Slice(0, 1)).Build(),
              bad("1 rows"));
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

TEST(BatchBuilderTest, TakesTextOfEveryKind) {
  const std::vector<std::string> strings = {"a", "bc"};
  const std::vector<absl::string_view> views(strings.begin(), strings.end());
  const std::vector<std::string_view> std_views(strings.begin(), strings.end());
  const RecordBatch expected = *BatchBuilder().AddStrings("s", strings).Build();
  EXPECT_TRUE(BatchBuilder().AddStrings("s", views).Build()->Equals(expected));
  EXPECT_TRUE(BatchBuilder().AddStrings("s", std_views).Build()->Equals(expected));
  EXPECT_TRUE(BatchBuilder().AddStrings("s", std::array{"a", "bc"}).Build()->Equals(expected));
  const RecordBatch bytes = *BatchBuilder().AddBinary("s", strings).Build();
  EXPECT_TRUE(BatchBuilder().AddBinary("s", views).Build()->Equals(bytes));
  EXPECT_TRUE(BatchBuilder().AddBinary("s", std_views).Build()->Equals(bytes));
}

TEST(BatchTest, AMappedFieldOfAStructIsToldHowItIsRead) {
  const Schema schema =
      *SchemaBuilder().Add("point", Type::Struct({{"x", Type::Float64()}})).Build();
  EXPECT_THAT(internal::BatchLayout::Create(schema, {{"point.x", "p"}}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("Map \"point\" and read its field as \"p.x\"")));
  EXPECT_THAT(internal::BatchLayout::Create(schema, {{"point", "p"}}), IsOk());
}

}  // namespace
}  // namespace millrace
