#include "millrace/record_batch.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "feed/arrow/record_batch_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/schema.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr Nulls kAllNulls[] = {Nulls::kNone, Nulls::kSome, Nulls::kAll};

// Through the C Data Interface and back.
absl::StatusOr<RecordBatch> Reimport(const RecordBatch& batch) {
  nanoarrow::UniqueArray array;
  batch.Export(array.get());
  return RecordBatch::FromArrowArray(batch.schema(), array.get());
}

TEST(RecordBatchTest, IsEmptyByDefault) {
  EXPECT_EQ(RecordBatch().num_rows(), 0);
  EXPECT_EQ(RecordBatch().num_columns(), 0);
  EXPECT_TRUE(RecordBatch().Equals(RecordBatch()));
}

// Flat and nested batches of so many rows.
std::vector<RecordBatch> Samples(int64_t rows, uint64_t seed) {
  std::vector<RecordBatch> samples;
  for (Nulls nulls : kAllNulls) {
    samples.push_back(RandomBatch(rows, nulls, seed));
    for (uint64_t i = 0; i < 5; ++i)
      samples.push_back(RandomNestedBatch(rows, nulls, 10 * seed + i));
  }
  return samples;
}

TEST(RecordBatchTest, SurvivesTheCDataInterfaceAtEveryOffset) {
  for (const RecordBatch& batch : Samples(70, 1)) {
    for (int64_t first : {0, 1, 7, 8, 9, 63, 64, 65, 70}) {
      for (int64_t rows : {0, 1, 2, 5}) {
        if (first + rows > 70) continue;
        const RecordBatch slice = batch.Slice(first, rows);
        absl::StatusOr<RecordBatch> back = Reimport(slice);
        ASSERT_THAT(back, IsOk());
        EXPECT_TRUE(back->Equals(slice)) << first << " " << rows;
        // A slice of what came back, so that offsets add up.
        if (rows > 2) {
          EXPECT_TRUE(back->Slice(1, rows - 1).Equals(slice.Slice(1, rows - 1)));
        }
      }
    }
  }
}

TEST(RecordBatchTest, ExportedChildrenOutliveBatchAndParent) {
  nanoarrow::UniqueArray child;
  {
    nanoarrow::UniqueArray root;
    BatchBuilder builder;
    absl::StatusOr<RecordBatch> batch =
        builder.AddColumn("x", std::vector<int64_t>{1, 2, 3}).Build();
    ASSERT_THAT(batch, IsOk());
    batch->Slice(1, 2).Export(root.get());
    ArrowArrayMove(root->children[0], child.get());
  }
  EXPECT_EQ(child->length, 2);
  EXPECT_EQ(static_cast<const int64_t*>(child->buffers[1])[child->offset], 2);
}

TEST(RecordBatchTest, ImportKeepsBuffersWhereTheyAre) {
  const RecordBatch batch = RandomBatch(100, Nulls::kSome, 2);
  absl::StatusOr<RecordBatch> back = Reimport(batch);
  ASSERT_THAT(back, IsOk());
  for (int i = 0; i < batch.num_columns(); ++i) {
    EXPECT_EQ(back->column(i).data().data, batch.column(i).data().data) << i;
  }
}

TEST(RecordBatchTest, ImportCopiesBuffersThatAreNotAligned) {
  const RecordBatch batch = RandomBatch(50, Nulls::kSome, 3);
  nanoarrow::UniqueArray array;
  batch.Export(array.get());
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  for (int i = 0; i < batch.num_columns(); ++i) {
    ArrowArray* child = array->children[i];
    if (batch.column(i).type().is_list()) child = child->children[0];
    const ColumnView view = batch.column(i);
    const int64_t bytes = view.type().is_variable() ? 51 * (view.type().is_large() ? 8 : 4)
                          : view.type().is_list()   ? view.Elements().data().data_bytes
                                                    : view.data().data_bytes;
    memory.push_back(std::make_unique<uint8_t[]>(static_cast<size_t>(bytes) + 1));
    std::memcpy(memory.back().get() + 1, child->buffers[1], static_cast<size_t>(bytes));
    child->buffers[1] = memory.back().get() + 1;
  }
  absl::StatusOr<RecordBatch> back = RecordBatch::FromArrowArray(batch.schema(), array.get());
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(back->Equals(batch));
}

TEST(RecordBatchTest, ImportTakesARootWithAnOffset) {
  for (const RecordBatch& batch : Samples(40, 4)) {
    nanoarrow::UniqueArray array;
    batch.Export(array.get());
    array->offset = 9;
    array->length = 20;
    absl::StatusOr<RecordBatch> back = RecordBatch::FromArrowArray(batch.schema(), array.get());
    ASSERT_THAT(back, IsOk());
    EXPECT_TRUE(back->Equals(batch.Slice(9, 20)));
  }
}

TEST(RecordBatchTest, ImportTakesArrayAndSchema) {
  const RecordBatch batch = RandomNestedBatch(40, Nulls::kSome, 4);
  nanoarrow::UniqueArray array;
  nanoarrow::UniqueSchema schema;
  batch.schema().Export(schema.get());
  batch.Export(array.get());
  absl::StatusOr<RecordBatch> back = RecordBatch::Import(schema.get(), array.get());
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(back->Equals(batch));
  EXPECT_EQ(schema->release, nullptr);
  EXPECT_EQ(array->release, nullptr);
}

TEST(RecordBatchTest, ImportOfASliceLooksAtItsRowsOnly) {
  // Text that is no UTF-8 and offsets that decrease, but in rows that are not asked for.
  const RecordBatch words =
      *BatchBuilder().AddBinary("w", std::vector<std::string>{"\xff", "a", "b", "\xfe"}).Build();
  const std::vector<int64_t> lengths = {1, 1, 1, 1};
  const RecordBatch batch = *BatchBuilder().AddList("l", lengths, words).Build();
  const Schema text = *SchemaBuilder().Add("l", Type::List(Type::Utf8())).Build();
  nanoarrow::UniqueArray array;
  batch.Slice(1, 2).Export(array.get());
  absl::StatusOr<RecordBatch> slice = RecordBatch::FromArrowArray(text, array.get());
  ASSERT_THAT(slice, IsOk());
  EXPECT_EQ(slice->column(0).ListAt(1).BytesAt(0), "b");
  nanoarrow::UniqueArray all;
  batch.Export(all.get());
  EXPECT_THAT(RecordBatch::FromArrowArray(text, all.get()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("column \"l\": values of the list: row 0 is not valid UTF-8")));
}

TEST(RecordBatchTest, ImportRefusesNestedArraysThatDoNotFit) {
  const std::vector<int64_t> lengths = {1, 2, 0};
  const RecordBatch inner = *BatchBuilder().AddColumn("n", std::vector<int8_t>{1, 2, 3}).Build();
  const RecordBatch batch =
      *BatchBuilder().AddList("l", lengths, inner).AddStruct("s", inner).Build();
  const auto import = [&](auto damage) {
    nanoarrow::UniqueArray array;
    batch.Export(array.get());
    damage(array->children[0], array->children[1]);
    return RecordBatch::FromArrowArray(batch.schema(), array.get()).status();
  };
  const auto bad = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(import([](ArrowArray*, ArrowArray*) {}), IsOk());
  EXPECT_THAT(import([](ArrowArray* l, ArrowArray*) { l->children[0]->length = 2; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("values of the list")));
  EXPECT_THAT(import([](ArrowArray*, ArrowArray* s) { s->children[0]->length = 2; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("field \"n\"")));
  EXPECT_THAT(import([](ArrowArray*, ArrowArray* s) { s->n_children = 0; }), bad);
  EXPECT_THAT(import([](ArrowArray*, ArrowArray* s) { s->n_buffers = 2; }), bad);
  EXPECT_THAT(import([](ArrowArray* l, ArrowArray*) { l->buffers[1] = nullptr; }), bad);
  EXPECT_THAT(import([](ArrowArray* l, ArrowArray*) {
                static const int32_t offsets[] = {0, 3, 1, 3};
                l->buffers[1] = offsets;
              }),
              bad);
  EXPECT_THAT(import([](ArrowArray* l, ArrowArray*) {
                static const int32_t offsets[] = {1, INT32_MIN, 3, 3};
                l->buffers[1] = offsets;
              }),
              bad);
}

TEST(RecordBatchTest, SelectRenamesColumnsWithoutACopy) {
  const RecordBatch batch = RandomBatch(30, Nulls::kSome, 4).Slice(3, 20);
  const Schema schema =
      *SchemaBuilder().Add("f", Type::Float32()).Add("i", Type::Int8(), false).Build();
  const int columns[] = {10, 1};
  const RecordBatch selected = batch.Select(columns, schema);
  EXPECT_EQ(selected.schema(), schema);
  EXPECT_EQ(selected.num_rows(), 20);
  EXPECT_EQ(selected.column(0).values<float>(), batch.column(10).values<float>());
  EXPECT_EQ(selected.column(1).values<int8_t>(), batch.column(1).values<int8_t>());
}

TEST(RecordBatchTest, ImportRefusesWhatDoesNotFit) {
  const RecordBatch batch = RandomBatch(10, Nulls::kSome, 5);
  const auto import = [&](auto damage) {
    nanoarrow::UniqueArray array;
    batch.Export(array.get());
    damage(array.get());
    return RecordBatch::FromArrowArray(batch.schema(), array.get()).status();
  };
  const auto bad = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(import([](ArrowArray*) {}), IsOk());
  EXPECT_THAT(import([](ArrowArray* a) { a->length = 11; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->length = -1; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->offset = INT64_MAX; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->n_children = 3; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->children[3]->length = 9; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("\"int32\"")));
  EXPECT_THAT(import([](ArrowArray* a) { a->children[3]->offset = INT64_MAX; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->children[3]->n_buffers = 1; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->children[3]->buffers[1] = nullptr; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->children[16]->children[0]->length = 29; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) { a->children[16]->n_children = 0; }), bad);
  EXPECT_THAT(import([](ArrowArray* a) {
                static const int32_t offsets[] = {0, 5, 4, 5, 5, 5, 5, 5, 5, 5, 5};
                static const char data[] = "abcde";
                a->children[12]->buffers[1] = offsets;
                a->children[12]->buffers[2] = data;
              }),
              bad);
  EXPECT_THAT(import([](ArrowArray* a) {
                static const int32_t offsets[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
                a->children[12]->null_count = 0;
                a->children[12]->buffers[1] = offsets;
                a->children[12]->buffers[2] = "\xff";
              }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 0 is not valid UTF-8")));
}

TEST(RecordBatchTest, ConcatJoinsSlicesOfAnyOffset) {
  for (const RecordBatch& batch : Samples(200, 6)) {
    const RecordBatch pieces[] = {batch.Slice(0, 13), batch.Slice(13, 0), batch.Slice(13, 100),
                                  batch.Slice(113, 1), batch.Slice(114, 86)};
    absl::StatusOr<RecordBatch> whole = RecordBatch::Concat(pieces);
    ASSERT_THAT(whole, IsOk());
    EXPECT_TRUE(whole->Equals(batch));
    EXPECT_TRUE(RecordBatch::Concat(std::vector<RecordBatch>{batch.Slice(3, 4)})
                    ->Equals(batch.Slice(3, 4)));
  }
}

TEST(RecordBatchTest, ConcatMixesBatchesWithAndWithoutNulls) {
  const RecordBatch a = RandomBatch(13, Nulls::kNone, 7);
  const RecordBatch b = RandomBatch(14, Nulls::kSome, 8);
  absl::StatusOr<RecordBatch> whole = RecordBatch::Concat(std::vector<RecordBatch>{a, b, a});
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(whole->Slice(0, 13).Equals(a));
  EXPECT_TRUE(whole->Slice(13, 14).Equals(b));
  EXPECT_TRUE(whole->Slice(27, 13).Equals(a));
}

TEST(RecordBatchTest, ConcatMixesListsOfAnyOffsetsAndNulls) {
  const RecordBatch a = RandomNestedBatch(13, Nulls::kNone, 7);
  const RecordBatch b = RandomBatchOf(a.schema(), 14, Nulls::kSome, 8);
  absl::StatusOr<RecordBatch> whole =
      RecordBatch::Concat(std::vector<RecordBatch>{a.Slice(2, 9), b.Slice(3, 7), a});
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(whole->Slice(0, 9).Equals(a.Slice(2, 9)));
  EXPECT_TRUE(whole->Slice(9, 7).Equals(b.Slice(3, 7)));
  EXPECT_TRUE(whole->Slice(16, 13).Equals(a));
}

TEST(RecordBatchTest, ConcatRefusesDifferentSchemas) {
  const RecordBatch a = *BatchBuilder().AddColumn("x", std::vector<float>{1}).Build();
  const RecordBatch b = *BatchBuilder().AddColumn("x", std::vector<double>{1}).Build();
  EXPECT_THAT(RecordBatch::Concat(std::vector<RecordBatch>{a, b}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column \"x\": float32")));
  EXPECT_THAT(RecordBatch::Concat({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(RecordBatchTest, CountsTheBytesOfItsRowsOnly) {
  const bool valid[] = {true, false, true};
  const RecordBatch batch = *BatchBuilder()
                                 .AddColumn("x", std::vector<int32_t>{1, 2, 3}, valid)
                                 .AddStrings("s", std::vector<std::string>{"a", "four", "xyz"})
                                 .AddFixedSizeList("l", std::vector<double>{1, 2, 3, 4, 5, 6}, 2)
                                 .Build();
  EXPECT_EQ(batch.byte_size(), (1 + 12) + (16 + 8) + 48);
  EXPECT_EQ(batch.Slice(1, 1).byte_size(), (1 + 4) + (8 + 4) + 16);
  EXPECT_EQ(batch.Slice(3, 0).byte_size(), 0);
  const std::vector<int64_t> lengths = {1, 0, 2};
  const RecordBatch nested =
      *BatchBuilder()
           .AddList("l", lengths,
                    batch.Slice(0, 3).Select(std::vector<int>{1},
                                             *SchemaBuilder().Add("s", Type::Utf8()).Build()),
                    valid)
           .AddStruct("p", batch)
           .Build();
  EXPECT_EQ(nested.byte_size(), (1 + 16 + 16 + 8) + batch.byte_size());
  EXPECT_EQ(nested.Slice(2, 1).byte_size(), (1 + 8 + 12 + 7) + batch.Slice(2, 1).byte_size());
}

class SliceBySizeTest : public testing::TestWithParam<bool> {};

TEST_P(SliceBySizeTest, CutsToAboutTheTarget) {
  const RecordBatch batch =
      GetParam() ? RandomNestedBatch(1000, Nulls::kSome, 9) : RandomBatch(1000, Nulls::kSome, 9);
  for (int64_t target : {int64_t{0}, int64_t{1}, int64_t{500}, int64_t{5000}, int64_t{1} << 30}) {
    int64_t rows = 0;
    for (const RecordBatch& slice : SliceBySize(batch, target)) {
      EXPECT_TRUE(slice.num_rows() == 1 || slice.byte_size() <= target);
      EXPECT_TRUE(slice.Equals(batch.Slice(rows, slice.num_rows())));
      rows += slice.num_rows();
    }
    EXPECT_EQ(rows, 1000);
  }
  EXPECT_TRUE(SliceBySize(RecordBatch()).empty());
  EXPECT_EQ(SliceBySize(batch, int64_t{1} << 30).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(FlatAndNested, SliceBySizeTest, testing::Bool());

TEST(SliceBySizeOfTextTest, GivesAHugeRowASliceOfItsOwn) {
  const RecordBatch batch =
      *BatchBuilder()
           .AddStrings("s", std::vector<std::string>{"a", "b", std::string(10000, 'x'), "c", "d"})
           .Build();
  const std::vector<RecordBatch> slices = SliceBySize(batch, 100);
  ASSERT_EQ(slices.size(), 3u);
  EXPECT_EQ(slices[1].num_rows(), 1);
}

}  // namespace
}  // namespace millrace
