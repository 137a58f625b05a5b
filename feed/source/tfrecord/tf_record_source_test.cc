#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "feed/source/tfrecord/record_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/tf_record.h"
#include "millrace/types.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

RecordBatch Rows(int64_t first, int64_t rows) {
  std::vector<int64_t> ids;
  std::vector<std::string> names;
  for (int64_t r = first; r < first + rows; ++r) {
    ids.push_back(r);
    names.push_back(absl::StrCat("row ", r));
  }
  return *BatchBuilder().AddColumn("id", std::move(ids)).AddStrings("name", names).Build();
}

class TfRecordSourceTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  std::string Write(const std::string& name, const std::vector<RecordBatch>& batches,
                    TfRecordCompression compression = TfRecordCompression::kNone) const {
    auto writer =
        TfRecordWriter::Create(Path(name), batches.front().schema(), {.compression = compression});
    EXPECT_THAT(writer, IsOk());
    for (const RecordBatch& batch : batches) EXPECT_THAT((*writer)->Write(batch), IsOk());
    EXPECT_THAT((*writer)->Finish(), IsOk());
    return Path(name);
  }
  // Records that are what they are.
  std::string WriteRaw(const std::string& name, const std::vector<std::string>& records) const {
    auto writer = RecordWriter::Create(Path(name), TfRecordCompression::kNone);
    EXPECT_THAT(writer, IsOk());
    for (const std::string& record : records) EXPECT_THAT((*writer)->Append(record), IsOk());
    EXPECT_THAT((*writer)->Finish(), IsOk());
    return Path(name);
  }
  static absl::StatusOr<std::vector<RecordBatch>> Batches(const TfRecordSource& source,
                                                          int partition) {
    auto reader = source.Open(partition, 0);
    if (!reader.ok()) return reader.status();
    EXPECT_EQ((*reader)->schema(), source.schema());
    std::vector<RecordBatch> batches;
    while (true) {
      absl::StatusOr<std::optional<RecordBatch>> batch = (*reader)->Next();
      if (!batch.ok()) return batch.status();
      if (!batch->has_value()) break;
      batches.push_back(**std::move(batch));
    }
    EXPECT_FALSE((*reader)->Next()->has_value());
    return batches;
  }
  // All rows of a partition.
  static absl::StatusOr<RecordBatch> Read(const TfRecordSource& source, int partition = 0) {
    absl::StatusOr<std::vector<RecordBatch>> batches = Batches(source, partition);
    if (!batches.ok()) return batches.status();
    return RecordBatch::Concat(*batches);
  }

  TempDir dir_ = *TempDir::Create("tfrecord-source");
};

TEST_F(TfRecordSourceTest, AFileIsAPartitionHoweverItIsCompressed) {
  Write("a", {Rows(0, 3)});
  Write("b", {Rows(3, 2), Rows(5, 1)}, TfRecordCompression::kGzip);
  Write("c", {Rows(6, 4)}, TfRecordCompression::kZlib);
  Write("d", {Rows(0, 0)});
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({dir_.path()});
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT((*source)->files(), ElementsAre(Path("a"), Path("b"), Path("c"), Path("d")));
  EXPECT_EQ((*source)->num_partitions(), 4);
  EXPECT_TRUE((*source)->deterministic());
  EXPECT_EQ((*source)->schema().ToString(), "id: int64, name: utf8");
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_TRUE(Read(**source, 0)->Equals(Rows(0, 3)));
    EXPECT_TRUE(Read(**source, 1)->Equals(Rows(3, 3)));
    EXPECT_TRUE(Read(**source, 2)->Equals(Rows(6, 4)));
    EXPECT_TRUE(Batches(**source, 3)->empty());
  }
  EXPECT_THAT((*source)->Open(4, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT((*source)->Open(-1, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(TfRecordSourceTest, ASchemaSaysWhichFeaturesAreReadAndAsWhat) {
  const RecordBatch rows = *BatchBuilder()
                                .AddFixedSizeList("x", std::vector<float>{1, 2, 3, 4}, 2)
                                .AddColumn("label", std::vector<int64_t>{7, 8})
                                .AddStrings("unused", std::vector<std::string>{"a", "b"})
                                .Build();
  TfRecordSourceOptions options;
  options.schema = *SchemaBuilder()
                        .Add("label", Type::Int8(), /*nullable=*/false)
                        .Add("x", Type::FixedSizeList(Type::Float64(), 2))
                        .Add("nowhere", Type::LargeUtf8())
                        .Build();
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({Write("a", {rows})}, options);
  ASSERT_THAT(source, IsOk());
  const absl::StatusOr<RecordBatch> read = Read(**source);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->schema(), *options.schema);
  EXPECT_EQ(read->column(0).values<int8_t>()[1], 8);
  EXPECT_EQ(read->column(1).Elements().values<double>()[3], 4);
  EXPECT_TRUE(read->column(2).IsNull(0));
}

TEST_F(TfRecordSourceTest, TheSampleIsTheFirstRecordsOfAllFiles) {
  const RecordBatch items =
      *BatchBuilder().AddColumn("item", std::vector<int64_t>{1, 2, 3}).Build();
  const RecordBatch lists =
      *BatchBuilder().AddList("id", std::vector<int64_t>{1, 2}, items).Build();
  Write("a", {Rows(0, 2)});
  Write("b", {lists});
  TfRecordSourceOptions options;
  options.sample_records = 3;
  absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({dir_.path()}, options);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->schema().ToString(), "id: int64, name: utf8");
  EXPECT_THAT(Read(**source, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("b, record 1 (byte 31): feature \"id\": has 2 values, the column "
                                 "is int64")));
  options.sample_records = 4;
  source = TfRecordSource::Create({dir_.path()}, options);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->schema().ToString(), "id: list<int64>, name: utf8");
  EXPECT_THAT(Read(**source, 1), IsOk());
}

TEST_F(TfRecordSourceTest, ANamedFeatureIsBinary) {
  TfRecordSourceOptions options;
  options.binary_features = {"name"};
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({Write("a", {Rows(0, 2)})}, options);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->schema().ToString(), "id: int64, name: binary");
  EXPECT_EQ(Read(**source)->column(1).BytesAt(1), "row 1");
}

TEST_F(TfRecordSourceTest, RawRecordsAreReadAsTheyAre) {
  TfRecordSourceOptions options;
  options.raw = true;
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source = TfRecordSource::Create(
      {WriteRaw("a", {"no example", "", "\xff"}), WriteRaw("b", {})}, options);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->schema().ToString(), "record: binary not null");
  const absl::StatusOr<RecordBatch> read = Read(**source);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read->num_rows(), 3);
  EXPECT_EQ(read->column(0).BytesAt(0), "no example");
  EXPECT_EQ(read->column(0).BytesAt(1), "");
  EXPECT_EQ(read->column(0).BytesAt(2), "\xff");
  EXPECT_TRUE(Batches(**source, 1)->empty());
}

TEST_F(TfRecordSourceTest, BatchesEndAtTheirSize) {
  TfRecordSourceOptions options;
  options.batch_bytes = 1000;
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({Write("a", {Rows(0, 500)})}, options);
  ASSERT_THAT(source, IsOk());
  const absl::StatusOr<std::vector<RecordBatch>> batches = Batches(**source, 0);
  ASSERT_THAT(batches, IsOk());
  EXPECT_GT(batches->size(), 10u);
  for (const RecordBatch& batch : *batches) EXPECT_LE(batch.byte_size(), 1200);
  EXPECT_TRUE(RecordBatch::Concat(*batches)->Equals(Rows(0, 500)));
}

TEST_F(TfRecordSourceTest, OptionsThatMakeNoSenseAreRefused) {
  const std::string file = Write("a", {Rows(0, 1)});
  const auto message = [&file](const TfRecordSourceOptions& options) {
    const absl::Status status = TfRecordSource::Create({file}, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const Schema schema = *SchemaBuilder().Add("id", Type::Int64()).Build();
  EXPECT_THAT(message({.sample_records = 0}), HasSubstr("sample_records"));
  EXPECT_THAT(message({.batch_bytes = 0}), HasSubstr("batch_bytes"));
  EXPECT_THAT(message({.schema = schema, .raw = true}), HasSubstr("raw"));
  EXPECT_THAT(message({.schema = schema, .binary_features = {"id"}}), HasSubstr("binary_features"));
  EXPECT_THAT(message({.binary_features = {"id"}, .raw = true}), HasSubstr("binary_features"));
  EXPECT_THAT(message({.schema = *SchemaBuilder().Add("t", Type::Date32()).Build()}),
              HasSubstr("column \"t\""));
  EXPECT_THAT(TfRecordSource::Create({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(TfRecordSourceTest, WhatIsWrongWithAFileIsSaidAtOnce) {
  const std::string good = Write("good", {Rows(0, 1)});
  const std::string csv = Path("csv");
  ASSERT_THAT(WriteFileAtomic(csv, "id,name\n1,x\n"), IsOk());
  EXPECT_THAT(TfRecordSource::Create({good, csv}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("csv"), HasSubstr("no TFRecord file"))));
  EXPECT_THAT(TfRecordSource::Create({good, Path("nowhere")}),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(TfRecordSource::Create({WriteRaw("raw", {"no example"})}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("raw, record 0 (byte 0): it is no tensorflow.Example")));
  EXPECT_THAT(TfRecordSource::Create({WriteRaw("empty", {})}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("give a schema")));
}

TEST_F(TfRecordSourceTest, AFileThatIsCutShortMeanwhileIsAnError) {
  const std::string path = Write("a", {Rows(0, 100)});
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source = TfRecordSource::Create({path});
  ASSERT_THAT(source, IsOk());
  ASSERT_THAT(WriteFileAtomic(path, ReadFile(path)->substr(0, 1000)), IsOk());
  EXPECT_THAT(Read(**source), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cut short")));
}

}  // namespace
}  // namespace millrace
