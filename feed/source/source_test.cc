#include "millrace/source.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "nanoarrow/nanoarrow.hpp"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RecordBatch Numbers(int64_t first, int64_t count) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(first + i);
  return *BatchBuilder().AddColumn("n", std::move(values)).Build();
}

// The values of "n", in order.
absl::StatusOr<std::vector<int64_t>> ReadAll(RecordBatchReader& reader) {
  std::vector<int64_t> values;
  while (true) {
    absl::StatusOr<std::optional<RecordBatch>> batch = reader.Next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) return values;
    const int64_t* data = (*batch)->column(0).values<int64_t>();
    values.insert(values.end(), data, data + (*batch)->num_rows());
  }
}

absl::StatusOr<std::vector<int64_t>> ReadPartition(const PartitionedSource& source, int partition) {
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = source.Open(partition, 0);
  if (!reader.ok()) return reader.status();
  return ReadAll(**reader);
}

TEST(MemorySourceTest, SplitsRowsEvenly) {
  absl::StatusOr<std::unique_ptr<MemorySource>> source = MemorySource::Split(Numbers(0, 8), 3);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->num_partitions(), 3);
  EXPECT_TRUE((*source)->deterministic());
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT(ReadPartition(**source, 0), IsOkAndHolds(ElementsAre(0, 1, 2)));
    EXPECT_THAT(ReadPartition(**source, 1), IsOkAndHolds(ElementsAre(3, 4, 5)));
    EXPECT_THAT(ReadPartition(**source, 2), IsOkAndHolds(ElementsAre(6, 7)));
  }
  EXPECT_THAT((*source)->Open(3, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT((*source)->Open(-1, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(MemorySourceTest, HasEmptyPartitionsIfThereAreFewRows) {
  absl::StatusOr<std::unique_ptr<MemorySource>> source = MemorySource::Split(Numbers(0, 1), 2);
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT(ReadPartition(**source, 0), IsOkAndHolds(ElementsAre(0)));
  EXPECT_THAT(ReadPartition(**source, 1), IsOkAndHolds(ElementsAre()));
}

TEST(MemorySourceTest, SplitsSeveralBatchesIntoRangesOfAllTheirRows) {
  const std::vector<RecordBatch> batches = {Numbers(0, 2), Numbers(2, 0), Numbers(2, 5),
                                            Numbers(7, 1)};
  absl::StatusOr<std::unique_ptr<MemorySource>> source = MemorySource::Split(batches, 3);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->num_partitions(), 3);
  EXPECT_THAT(ReadPartition(**source, 0), IsOkAndHolds(ElementsAre(0, 1)));
  EXPECT_THAT(ReadPartition(**source, 1), IsOkAndHolds(ElementsAre(2, 3, 4)));
  EXPECT_THAT(ReadPartition(**source, 2), IsOkAndHolds(ElementsAre(5, 6, 7)));
  EXPECT_EQ((*MemorySource::Split(batches, 100))->num_partitions(), 8);

  absl::StatusOr<std::unique_ptr<MemorySource>> empty =
      MemorySource::Split(std::vector<RecordBatch>{Numbers(0, 0)}, 3);
  ASSERT_THAT(empty, IsOk());
  EXPECT_THAT(ReadPartition(**empty, 0), IsOkAndHolds(ElementsAre()));
  EXPECT_THAT(MemorySource::Split(std::vector<RecordBatch>(), 3),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MemorySource::Split(batches, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(MemorySourceTest, RefusesNothingAndMixedSchemas) {
  EXPECT_THAT(MemorySource::Split(Numbers(0, 1), 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MemorySource::Create({}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(MemorySource::Create({{}, {}}), StatusIs(absl::StatusCode::kInvalidArgument));
  const RecordBatch other = *BatchBuilder().AddColumn("n", std::vector<float>{1}).Build();
  EXPECT_THAT(MemorySource::Create({{Numbers(0, 1)}, {other}}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column \"n\"")));
}

TEST(StreamTest, SurvivesTheCStreamInterface) {
  absl::StatusOr<std::unique_ptr<MemorySource>> memory =
      MemorySource::Create({{Numbers(0, 2), Numbers(2, 0), Numbers(2, 3)}});
  ASSERT_THAT(memory, IsOk());
  const absl::StatusOr<std::unique_ptr<StreamSource>> source = StreamSource::Create(
      1,
      [&memory](int partition, int64_t epoch, ArrowArrayStream* out) {
        absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader =
            (*memory)->Open(partition, epoch);
        if (reader.ok()) ExportReader(*std::move(reader), out);
        return reader.status();
      },
      /*deterministic=*/false);
  ASSERT_THAT(source, IsOk());
  EXPECT_FALSE((*source)->deterministic());
  EXPECT_THAT(ReadPartition(**source, 0), IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4)));
  EXPECT_THAT((*source)->Open(1, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(StreamTest, RefusesNoPartitionAndNoFunction) {
  const auto open = [](int, int64_t, ArrowArrayStream*) { return absl::OkStatus(); };
  EXPECT_THAT(StreamSource::Create(0, open, true), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(StreamSource::Create(1, nullptr, true), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(StreamTest, StaysAtTheEnd) {
  absl::StatusOr<std::unique_ptr<MemorySource>> memory = MemorySource::Split(Numbers(0, 2), 1);
  nanoarrow::UniqueArrayStream stream;
  ExportReader(*(*memory)->Open(0, 0), stream.get());
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = MakeStreamReader(stream.get());
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ(stream->release, nullptr);
  EXPECT_THAT(ReadAll(**reader), IsOkAndHolds(ElementsAre(0, 1)));
  EXPECT_THAT(ReadAll(**reader), IsOkAndHolds(ElementsAre()));
}

class FailingReader final : public RecordBatchReader {
 public:
  explicit FailingReader(absl::Status status) : status_(std::move(status)) {}
  const Schema& schema() const override { return schema_; }
  absl::StatusOr<std::optional<RecordBatch>> Next() override { return status_; }

 private:
  const absl::Status status_;
  Schema schema_;
};

TEST(StreamTest, CarriesErrorsWithTheirMessage) {
  // Those of which errno knows.
  for (const absl::StatusCode code :
       {absl::StatusCode::kCancelled, absl::StatusCode::kInvalidArgument,
        absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kNotFound,
        absl::StatusCode::kAlreadyExists, absl::StatusCode::kPermissionDenied,
        absl::StatusCode::kResourceExhausted, absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kAborted, absl::StatusCode::kOutOfRange, absl::StatusCode::kUnimplemented,
        absl::StatusCode::kUnavailable}) {
    nanoarrow::UniqueArrayStream stream;
    ExportReader(std::make_unique<FailingReader>(absl::Status(code, "no access to the table")),
                 stream.get());
    absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = MakeStreamReader(stream.get());
    ASSERT_THAT(reader, IsOk());
    EXPECT_THAT((*reader)->Next(),
                StatusIs(code, AllOf(HasSubstr("no access"), HasSubstr("Arrow stream"))));
  }
}

TEST(StreamTest, WhoMadeAStreamKnowsItsError) {
  const absl::Status lost =
      absl::DataLossError("the file is cut short");  // errno has no such thing
  nanoarrow::UniqueArrayStream stream;
  EXPECT_THAT(ExportedStatus(*stream.get()), StatusIs(absl::StatusCode::kInvalidArgument));
  ExportReader(std::make_unique<FailingReader>(lost), stream.get());
  EXPECT_THAT(ExportedStatus(*stream.get()), IsOk());
  ArrowArray array = {};
  EXPECT_EQ(stream->get_next(stream.get(), &array), EIO);
  nanoarrow::UniqueArrayStream moved(stream.get());
  EXPECT_EQ(ExportedStatus(*moved.get()), lost);
  EXPECT_THAT(ExportedStatus(*stream.get()), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(StreamTest, RefusesAReleasedStreamAndAnUnsupportedSchema) {
  nanoarrow::UniqueArrayStream released;
  EXPECT_THAT(MakeStreamReader(released.get()), StatusIs(absl::StatusCode::kInvalidArgument));

  nanoarrow::UniqueSchema schema;
  ArrowSchemaInit(schema.get());
  ASSERT_EQ(ArrowSchemaSetTypeStruct(schema.get(), 1), NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaSetType(schema->children[0], NANOARROW_TYPE_INTERVAL_MONTHS), NANOARROW_OK);
  ASSERT_EQ(ArrowSchemaSetName(schema->children[0], "age"), NANOARROW_OK);
  nanoarrow::UniqueArrayStream stream;
  ASSERT_EQ(ArrowBasicArrayStreamInit(stream.get(), schema.get(), 0), NANOARROW_OK);
  EXPECT_THAT(MakeStreamReader(stream.get()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("\"age\""), HasSubstr("interval_months"))));
}

}  // namespace
}  // namespace millrace
