#include "feed/ipc/ipc.h"

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
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/types.h"
#include "nanoarrow/nanoarrow.hpp"
#include "nanoarrow/nanoarrow_ipc.hpp"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr Nulls kAllNulls[] = {Nulls::kNone, Nulls::kSome, Nulls::kAll};

absl::StatusOr<RecordBatch> RoundTrip(const RecordBatch& batch) {
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  if (!encoded.ok()) return encoded.status();
  return BatchDecoder(batch.schema())
      .Decode(encoded->metadata, static_cast<uint32_t>(batch.num_rows()),
              std::move(encoded->parts));
}

// The body in one piece, parts padded, as another Arrow reader wants it.
std::string JoinBody(const EncodedBatch& encoded) {
  std::string body;
  for (const BodyPart& part : encoded.parts) {
    body.append(reinterpret_cast<const char*>(part.data), part.size);
    body.resize((body.size() + 7) / 8 * 8);
  }
  return body;
}

ArrowBufferView View(const std::string& bytes) {
  ArrowBufferView view;
  view.data.data = bytes.data();
  view.size_bytes = static_cast<int64_t>(bytes.size());
  return view;
}

// Flat and nested batches of so many rows.
std::vector<RecordBatch> Samples(int64_t rows, uint64_t seed) {
  std::vector<RecordBatch> samples;
  for (Nulls nulls : kAllNulls) {
    samples.push_back(RandomBatch(rows, nulls, seed));
    for (uint64_t i = 0; i < 4; ++i)
      samples.push_back(RandomNestedBatch(rows, nulls, 10 * seed + i));
  }
  return samples;
}

TEST(IpcSchemaTest, RoundTripsEveryType) {
  for (const RecordBatch& sample : Samples(1, 0)) {
    const Schema& schema = sample.schema();
    absl::StatusOr<std::string> message = EncodeSchema(schema);
    ASSERT_THAT(message, IsOk());
    EXPECT_EQ(message->size() % 8, 0u);
    EXPECT_THAT(DecodeSchema(*message), IsOkAndHolds(schema));
  }
  EXPECT_THAT(DecodeSchema(*EncodeSchema(Schema())), IsOkAndHolds(Schema()));
}

TEST(IpcSchemaTest, RoundTripsNullabilityAndForeignNames) {
  const Schema schema = *SchemaBuilder()
                             .Add("", Type::Int8(), false)
                             .Add("\xc3\xbc", Type::FixedSizeList(Type::Bool(), 1, false), false)
                             .Build();
  EXPECT_THAT(DecodeSchema(*EncodeSchema(schema)), IsOkAndHolds(schema));
}

TEST(IpcSchemaTest, RoundTripsTypesNestedAsDeepAsAFeedMayHave) {
  Type type = Type::Struct({{"x", Type::Utf8(), false}});
  while (SchemaBuilder().Add("deep", Type::List(type)).Build().ok()) type = Type::List(type);
  const Schema schema = *SchemaBuilder().Add("deep", type).Build();
  EXPECT_THAT(DecodeSchema(*EncodeSchema(schema)), IsOkAndHolds(schema));
  type = Type::Utf8();
  for (int depth = 1; depth < kMaxNesting; ++depth) {
    type = depth % 2 == 0 ? Type::FixedSizeList(type, 1) : Type::Struct({{"x", type}});
  }
  const RecordBatch batch =
      RandomBatchOf(*SchemaBuilder().Add("deep", type).Build(), 30, Nulls::kSome, 1);
  absl::StatusOr<RecordBatch> back = RoundTrip(batch);
  ASSERT_THAT(back, IsOk());
  EXPECT_TRUE(back->Equals(batch));
}

TEST(IpcSchemaTest, RoundTripsAsManyColumnsAsAFeedMayHave) {
  SchemaBuilder builder;
  for (int i = 0; i < kMaxColumns; ++i) builder.Add(std::to_string(i), Type::Int32());
  const Schema schema = *builder.Build();
  EXPECT_THAT(DecodeSchema(*EncodeSchema(schema)), IsOkAndHolds(schema));
}

TEST(IpcSchemaTest, DoesNotSendMoreThanAFrameHolds) {
  const Schema schema = *SchemaBuilder().Add(std::string(17 << 20, 'x'), Type::Int8()).Build();
  EXPECT_THAT(EncodeSchema(schema), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(IpcBatchTest, RoundTripsEveryTypeAtEveryOffset) {
  for (const RecordBatch& batch : Samples(100, 1)) {
    for (int64_t first : {0, 1, 3, 7, 8, 9, 16, 63, 64, 65}) {
      for (int64_t rows : {1, 2, 7, 8, 9, 30}) {
        const RecordBatch slice = batch.Slice(first, rows);
        absl::StatusOr<RecordBatch> back = RoundTrip(slice);
        ASSERT_THAT(back, IsOk());
        ASSERT_TRUE(back->Equals(slice)) << first << " " << rows;
      }
    }
  }
}

TEST(IpcBatchTest, RoundTripsBuffersThatTravelAlone) {
  for (const RecordBatch& batch :
       {RandomBatch(10000, Nulls::kSome, 2), RandomNestedBatch(10000, Nulls::kSome, 2)}) {
    for (const RecordBatch& slice : {batch, batch.Slice(3, 9990), batch.Slice(8, 9900)}) {
      absl::StatusOr<RecordBatch> back = RoundTrip(slice);
      ASSERT_THAT(back, IsOk());
      EXPECT_TRUE(back->Equals(slice));
    }
  }
}

TEST(IpcBatchTest, RoundTripsBitmapsThatTravelAlone) {
  constexpr int64_t kRows = 270000;
  std::vector<bool> values(kRows);
  const auto valid = std::make_unique<bool[]>(kRows);
  for (size_t i = 0; i < kRows; ++i) {
    values[i] = i % 3 == 0;
    valid[i] = i % 7 != 0;
  }
  const RecordBatch batch =
      *BatchBuilder().AddBools("b", values, {valid.get(), static_cast<size_t>(kRows)}).Build();
  for (const RecordBatch& slice :
       {batch, batch.Slice(3, kRows - 4), batch.Slice(8, kRows - 8), batch.Slice(8, kRows - 11)}) {
    EXPECT_EQ(EncodeBatch(slice)->parts.size(), 2u);
    absl::StatusOr<RecordBatch> back = RoundTrip(slice);
    ASSERT_THAT(back, IsOk());
    EXPECT_TRUE(back->Equals(slice));
  }
}

TEST(IpcBatchTest, SendsLargeBuffersFromWhereTheyLie) {
  const RecordBatch batch = BatchBuilder()
                                .AddColumn("small", std::vector<int8_t>(20000, 1))
                                .AddColumn("large", std::vector<double>(20000, 1.5))
                                .AddStrings("text", std::vector<std::string>(20000, "some text"))
                                .Build()
                                ->Slice(100, 19000);
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  ASSERT_THAT(encoded, IsOk());
  ASSERT_EQ(encoded->parts.size(), 4u);  // gathered, values, rebased offsets, text
  EXPECT_EQ(encoded->parts[1].data,
            reinterpret_cast<const uint8_t*>(batch.column(1).values<double>()));
  EXPECT_EQ(encoded->parts[1].size, 19000 * sizeof(double));
  EXPECT_EQ(encoded->parts[3].data,
            reinterpret_cast<const uint8_t*>(batch.column(2).BytesAt(0).data()));
  EXPECT_EQ(encoded->parts[3].size, 19000u * 9);
  EXPECT_LT(encoded->byte_size(), 19000u * (1 + 8 + 4 + 9) + 1000);

  // And the receiver uses them where they arrive.
  const uint8_t* const arrived = encoded->parts[1].data;
  absl::StatusOr<RecordBatch> back =
      BatchDecoder(batch.schema()).Decode(encoded->metadata, 19000, encoded->parts);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(reinterpret_cast<const uint8_t*>(back->column(1).values<double>()), arrived);
}

TEST(IpcBatchTest, SendsOnlyTheBytesOfTheRows) {
  const RecordBatch batch = RandomBatch(10000, Nulls::kSome, 3);
  const RecordBatch slice = batch.Slice(5001, 3);
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(slice);
  ASSERT_THAT(encoded, IsOk());
  size_t body = 0;
  for (const BodyPart& part : encoded->parts) body += part.size;
  EXPECT_LT(body, static_cast<size_t>(slice.byte_size()) + 60 * 8);
}

TEST(IpcBatchTest, SendsOnlyTheValuesOfTheListsOfTheRows) {
  const RecordBatch numbers =
      *BatchBuilder().AddColumn("n", std::vector<int64_t>(100000, 7)).Build();
  const RecordBatch batch =
      *BatchBuilder().AddList("l", std::vector<int64_t>(1000, 100), numbers).Build();
  absl::StatusOr<EncodedBatch> few = EncodeBatch(batch.Slice(500, 3));
  ASSERT_THAT(few, IsOk());
  EXPECT_LT(few->byte_size(), 300 * sizeof(int64_t) + 400);
  // Many travel from where they lie.
  absl::StatusOr<EncodedBatch> many = EncodeBatch(batch.Slice(100, 800));
  ASSERT_THAT(many, IsOk());
  ASSERT_EQ(many->parts.size(), 2u);
  EXPECT_EQ(many->parts[1].data,
            reinterpret_cast<const uint8_t*>(numbers.column(0).values<int64_t>() + 10000));
}

TEST(IpcBatchTest, ReadsSlicedChildrenAsNanoarrowSendsThem) {
  // A list's values may be longer than its offsets say, and begin behind 0.
  const RecordBatch numbers = *BatchBuilder().AddColumn("n", std::vector<int8_t>(9, 7)).Build();
  const RecordBatch batch =
      *BatchBuilder().AddList("l", std::vector<int64_t>{2, 3, 4}, numbers).Build();
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  ASSERT_THAT(encoded, IsOk());
  ASSERT_EQ(encoded->parts.size(), 1u);
  std::string body(reinterpret_cast<const char*>(encoded->parts[0].data), encoded->parts[0].size);
  const int32_t offsets[] = {1, 3, 3, 8};
  std::memcpy(body.data(), offsets, sizeof(offsets));
  absl::StatusOr<RecordBatch> back =
      BatchDecoder(batch.schema())
          .Decode(encoded->metadata, 3,
                  {{reinterpret_cast<const uint8_t*>(body.data()), body.size(), nullptr}});
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->column(0).ListAt(2).length(), 5);
  absl::StatusOr<RecordBatch> again = RoundTrip(*back);
  ASSERT_THAT(again, IsOk());
  EXPECT_TRUE(again->Equals(*back));
}

TEST(IpcBatchTest, DecodesPartsThatAreNotAligned) {
  for (const RecordBatch& batch : Samples(1500, 4)) {
    absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
    ASSERT_THAT(encoded, IsOk());
    for (size_t shift : {0, 1, 2, 4, 7}) {
      std::vector<BodyPart> parts;
      for (const BodyPart& part : encoded->parts) {
        auto memory = std::make_shared<std::vector<uint8_t>>(part.size + shift);
        std::memcpy(memory->data() + shift, part.data, part.size);
        parts.push_back({memory->data() + shift, part.size, memory});
      }
      // The metadata need not be aligned either.
      const std::string metadata = std::string(shift, 'x') + encoded->metadata;
      absl::StatusOr<RecordBatch> back =
          BatchDecoder(batch.schema())
              .Decode(absl::string_view(metadata).substr(shift), 1500, std::move(parts));
      ASSERT_THAT(back, IsOk());
      EXPECT_TRUE(back->Equals(batch));
    }
  }
}

TEST(IpcBatchTest, IsWhatNanoarrowReads) {
  for (const RecordBatch& sample : Samples(3000, 5)) {
    const RecordBatch batch = sample.Slice(5, 2990);
    absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
    ASSERT_THAT(encoded, IsOk());
    const std::string body = JoinBody(*encoded);

    nanoarrow::ipc::UniqueDecoder decoder;
    ArrowError error;
    ASSERT_EQ(ArrowIpcDecoderInit(decoder.get()), NANOARROW_OK);
    ASSERT_EQ(ArrowIpcDecoderSetSchema(decoder.get(), batch.schema().c_schema(), &error),
              NANOARROW_OK);
    ASSERT_EQ(ArrowIpcDecoderSetEndianness(decoder.get(), NANOARROW_IPC_ENDIANNESS_LITTLE),
              NANOARROW_OK);
    ASSERT_EQ(ArrowIpcDecoderVerifyHeader(decoder.get(), View(encoded->metadata), &error),
              NANOARROW_OK)
        << error.message;
    EXPECT_EQ(decoder->body_size_bytes, static_cast<int64_t>(body.size()));
    ASSERT_EQ(ArrowIpcDecoderDecodeHeader(decoder.get(), View(encoded->metadata), &error),
              NANOARROW_OK)
        << error.message;
    nanoarrow::UniqueArray array;
    ASSERT_EQ(ArrowIpcDecoderDecodeArray(decoder.get(), View(body), -1, array.get(),
                                         NANOARROW_VALIDATION_LEVEL_FULL, &error),
              NANOARROW_OK)
        << error.message;
    absl::StatusOr<RecordBatch> back = RecordBatch::FromArrowArray(batch.schema(), array.get());
    ASSERT_THAT(back, IsOk());
    EXPECT_TRUE(back->Equals(batch));
  }
}

// nanoarrow's encoder takes null counts as they are.
void CountNulls(ArrowArrayView* view) {
  view->null_count = ArrowArrayViewComputeNullCount(view);
  for (int64_t i = 0; i < view->n_children; ++i) CountNulls(view->children[i]);
}

TEST(IpcBatchTest, ReadsWhatNanoarrowWrites) {
  for (const RecordBatch& sample : Samples(300, 6)) {
    const RecordBatch batch = *RecordBatch::Concat(std::vector<RecordBatch>{sample});
    nanoarrow::UniqueArray array;
    batch.Export(array.get());
    nanoarrow::UniqueArrayView view;
    ArrowError error;
    ASSERT_EQ(ArrowArrayViewInitFromSchema(view.get(), batch.schema().c_schema(), &error),
              NANOARROW_OK);
    ASSERT_EQ(ArrowArrayViewSetArray(view.get(), array.get(), &error), NANOARROW_OK);
    CountNulls(view.get());
    nanoarrow::ipc::UniqueEncoder encoder;
    nanoarrow::UniqueBuffer body;
    nanoarrow::UniqueBuffer message;
    ASSERT_EQ(ArrowIpcEncoderInit(encoder.get()), NANOARROW_OK);
    ASSERT_EQ(ArrowIpcEncoderEncodeSimpleRecordBatch(encoder.get(), view.get(), body.get(), &error),
              NANOARROW_OK)
        << error.message;
    ASSERT_EQ(ArrowIpcEncoderFinalizeBuffer(encoder.get(), 1, message.get()), NANOARROW_OK);
    absl::StatusOr<RecordBatch> back =
        BatchDecoder(batch.schema())
            .Decode({reinterpret_cast<const char*>(message->data),
                     static_cast<size_t>(message->size_bytes)},
                    300, {{body->data, static_cast<size_t>(body->size_bytes), nullptr}});
    ASSERT_THAT(back, IsOk());
    EXPECT_TRUE(back->Equals(batch));
  }
}

TEST(IpcBatchTest, RefusesToSendNoRows) {
  EXPECT_THAT(EncodeBatch(RecordBatch()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("0 rows")));
}

TEST(IpcBatchTest, KeepsThePartsAliveThatItUses) {
  auto memory = std::make_shared<std::vector<int64_t>>(100, 7);
  const RecordBatch batch = *BatchBuilder().AddColumn("x", *memory).Build();
  absl::StatusOr<EncodedBatch> encoded = EncodeBatch(batch);
  ASSERT_THAT(encoded, IsOk());
  ASSERT_EQ(encoded->parts.size(), 1u);
  const std::weak_ptr<std::vector<int64_t>> watch = memory;
  std::vector<BodyPart> parts = {
      {reinterpret_cast<const uint8_t*>(memory->data()), 800, std::move(memory)}};
  {
    absl::StatusOr<RecordBatch> back =
        BatchDecoder(batch.schema()).Decode(encoded->metadata, 100, std::move(parts));
    ASSERT_THAT(back, IsOk());
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(back->column(0).values<int64_t>()[99], 7);
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace millrace
