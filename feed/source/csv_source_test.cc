#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// All rows of one partition in one batch.
absl::StatusOr<RecordBatch> ReadPartition(const CsvSource& source, int partition) {
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = source.Open(partition, 0);
  if (!reader.ok()) return reader.status();
  std::vector<RecordBatch> batches;
  while (true) {
    absl::StatusOr<std::optional<RecordBatch>> batch = (*reader)->Next();
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) break;
    EXPECT_GT((*batch)->num_rows(), 0);
    batches.push_back(**std::move(batch));
  }
  absl::StatusOr<std::optional<RecordBatch>> behind = (*reader)->Next();
  EXPECT_TRUE(behind.ok() && !behind->has_value());
  if (batches.empty()) return absl::NotFoundError("no rows");
  return RecordBatch::Concat(batches);
}

absl::StatusOr<RecordBatch> ReadText(std::string text, const CsvSourceOptions& options = {}) {
  absl::StatusOr<std::unique_ptr<CsvSource>> source =
      CsvSource::FromText(std::move(text), options, "data.csv");
  if (!source.ok()) return source.status();
  return ReadPartition(**source, 0);
}

TEST(CsvSourceTest, InfersTypes) {
  absl::StatusOr<RecordBatch> batch = ReadText(
      "i,f,s,mixed,none\n"
      "1,1.5,a,1,\n"
      "-9223372036854775808,-2e300,,x,\n"
      "+7,nan,c,2.5,\n"
      ",3,d,,\n");
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->schema().ToString(), "i: int64, f: float64, s: utf8, mixed: utf8, none: utf8");
  EXPECT_EQ(batch->column(0).values<int64_t>()[1], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(batch->column(0).values<int64_t>()[2], 7);
  EXPECT_TRUE(batch->column(0).IsNull(3));
  EXPECT_EQ(batch->column(0).CountNulls(), 1);
  EXPECT_TRUE(std::isnan(batch->column(1).values<double>()[2]));
  EXPECT_EQ(batch->column(1).values<double>()[3], 3.0);
  EXPECT_EQ(batch->column(2).CountNulls(), 0);
  EXPECT_EQ(batch->column(2).BytesAt(1), "");
  EXPECT_EQ(batch->column(3).BytesAt(2), "2.5");
}

TEST(CsvSourceTest, AnIntegerOutOfRangeMakesAColumnFloat64) {
  absl::StatusOr<RecordBatch> batch = ReadText("x\n1\n9223372036854775808\n");
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->schema().ToString(), "x: float64");
}

TEST(CsvSourceTest, ReadsQuotesLineEndsAndAByteOrderMark) {
  absl::StatusOr<RecordBatch> batch = ReadText(
      "\xef\xbb\xbf\"a\",b\r\n"
      "\"one, two\",\"say \"\"hi\"\"\"\r\n"
      "\r\n"
      "\"two\nlines\",\"\"\n"
      "\n"
      "x\"y, z \n"
      "last,no line end");
  ASSERT_THAT(batch, IsOk());
  ASSERT_EQ(batch->num_rows(), 4);
  EXPECT_EQ(batch->schema().ToString(), "a: utf8, b: utf8");
  EXPECT_EQ(batch->column(0).BytesAt(0), "one, two");
  EXPECT_EQ(batch->column(1).BytesAt(0), "say \"hi\"");
  EXPECT_EQ(batch->column(0).BytesAt(1), "two\nlines");
  EXPECT_EQ(batch->column(1).BytesAt(1), "");
  EXPECT_EQ(batch->column(0).BytesAt(2), "x\"y");
  EXPECT_EQ(batch->column(1).BytesAt(2), " z ");
  EXPECT_EQ(batch->column(1).BytesAt(3), "no line end");
}

TEST(CsvSourceTest, ReadsGivenTypes) {
  CsvSourceOptions options;
  options.types = {
      {"b", Type::Bool()},    {"i8", Type::Int8()},           {"u64", Type::Uint64()},
      {"f", Type::Float32()}, {"bytes", Type::LargeBinary()}, {"t", Type::LargeUtf8()}};
  absl::StatusOr<RecordBatch> batch = ReadText(
      "b,i8,u64,f,bytes,t\n"
      "true,-128,18446744073709551615,0.1,\xff,\xc3\xbc\n"
      "0,,,1e60,,\n"
      ",127,0,-inf,x,y\n",
      options);
  ASSERT_THAT(batch, IsOk());
  EXPECT_TRUE(batch->column(0).BoolAt(0));
  EXPECT_FALSE(batch->column(0).BoolAt(1));
  EXPECT_TRUE(batch->column(0).IsNull(2));
  EXPECT_EQ(batch->column(1).values<int8_t>()[0], -128);
  EXPECT_TRUE(batch->column(1).IsNull(1));
  EXPECT_EQ(batch->column(2).values<uint64_t>()[0], std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(batch->column(3).values<float>()[0], 0.1f);
  EXPECT_EQ(batch->column(3).values<float>()[1], std::numeric_limits<float>::infinity());
  EXPECT_EQ(batch->column(4).BytesAt(0), "\xff");
  EXPECT_EQ(batch->column(5).BytesAt(0), "\xc3\xbc");
}

TEST(CsvSourceTest, GroupsColumnsAsAList) {
  CsvSourceOptions options;
  options.lists.push_back({.name = "x", .columns = CsvList::Range("p", 0, 3)});
  absl::StatusOr<RecordBatch> batch =
      ReadText("id,p0,p2,p1,label\n7,0,2,1,9\n8,,5.5,4,1\n", options);
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->schema().ToString(), "id: int64, x: fixed_size_list<float32>[3], label: int64");
  const ColumnView x = batch->column(1).Elements();
  EXPECT_EQ(x.length(), 6);
  EXPECT_EQ(x.values<float>()[1], 1.0f);
  EXPECT_EQ(x.values<float>()[2], 2.0f);
  EXPECT_TRUE(x.IsNull(3));
  EXPECT_EQ(x.values<float>()[5], 5.5f);
  EXPECT_EQ(batch->column(2).values<int64_t>()[0], 9);
}

TEST(CsvSourceTest, NamesThePlaceOfAMistake) {
  CsvSourceOptions options;
  options.types = {{"label", Type::Int64()}};
  EXPECT_THAT(ReadText("x,label\n1,2\n\n\"a\nb\",3\n1,abc\n", options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       "data.csv:6: column \"label\": \"abc\" is not an int64"));
  EXPECT_THAT(ReadText("x,label\n1, 2\n", options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.csv:2")));
  EXPECT_THAT(ReadText("a,b\n1,2\n1,2,3\n"), StatusIs(absl::StatusCode::kInvalidArgument,
                                                      "data.csv:3: 3 fields, the header has 2"));
  EXPECT_THAT(ReadText("a,b\n1,\"2\n3,4\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, "data.csv:2: a quote without an end"));
  EXPECT_THAT(ReadText("a,b\n1,\"2\"3\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.csv:2: text behind")));
  EXPECT_THAT(ReadText("a\n\xff\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not valid UTF-8")));
  EXPECT_THAT(ReadText(""), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no header")));
  EXPECT_THAT(ReadText("a,a\n"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data.csv:1: two columns")));
}

TEST(CsvSourceTest, RefusesOptionsThatDoNotFit) {
  const auto with = [](auto change) {
    CsvSourceOptions options;
    change(options);
    return ReadText("a,b\n1,2\n", options).status();
  };
  const auto bad = StatusIs(absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.num_partitions = 0; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.batch_bytes = 0; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.delimiter = '"'; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.types = {{"c", Type::Int8()}}; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.types = {{"a", Type::Float16()}}; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) {
                o.lists = {{.name = "l", .columns = {"a", "a"}}};
              }),
              bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.lists = {{.name = "b", .columns = {"a"}}}; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.lists = {{.name = "l", .columns = {}}}; }), bad);
  EXPECT_THAT(with([](CsvSourceOptions& o) { o.delimiter = ';'; }), IsOk());
}

TEST(CsvSourceTest, SplitsRecordsEvenlyWhateverTheirLength) {
  // More rows than checkpoints, and quoted line ends within them.
  std::string text = "n,s\n";
  constexpr int kRows = 3000;
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&text, i, ",\"", std::string(static_cast<size_t>(i % 7), '\n'), "\"\n");
  }
  for (int partitions : {1, 2, 7, 64}) {
    CsvSourceOptions options;
    options.num_partitions = partitions;
    options.batch_bytes = 200;
    absl::StatusOr<std::unique_ptr<CsvSource>> source = CsvSource::FromText(text, options);
    ASSERT_THAT(source, IsOk());
    EXPECT_EQ((*source)->num_rows(), kRows);
    EXPECT_EQ((*source)->num_partitions(), partitions);
    int64_t next = 0;
    for (int p = 0; p < partitions; ++p) {
      absl::StatusOr<RecordBatch> batch = ReadPartition(**source, p);
      ASSERT_THAT(batch, IsOk());
      EXPECT_TRUE(batch->num_rows() == kRows / partitions ||
                  batch->num_rows() == kRows / partitions + 1);
      for (int64_t row = 0; row < batch->num_rows(); ++row, ++next) {
        ASSERT_EQ(batch->column(0).values<int64_t>()[row], next);
        ASSERT_EQ(batch->column(1).BytesAt(row).size(), static_cast<size_t>(next % 7));
      }
    }
    EXPECT_EQ(next, kRows);
  }
}

TEST(CsvSourceTest, KeepsFewCheckpointsOfMuchText) {
  std::string text = "n\n";
  constexpr int64_t kRows = 70000;  // more than 1,024 checkpoints, one every 64 rows
  for (int64_t i = 0; i < kRows; ++i) absl::StrAppend(&text, i % 10, "\n");
  CsvSourceOptions options;
  options.num_partitions = 5;
  absl::StatusOr<std::unique_ptr<CsvSource>> source = CsvSource::FromText(text, options);
  ASSERT_THAT(source, IsOk());
  absl::StatusOr<RecordBatch> last = ReadPartition(**source, 4);
  ASSERT_THAT(last, IsOk());
  EXPECT_EQ(last->num_rows(), kRows / 5);
  EXPECT_EQ(last->column(0).values<int64_t>()[kRows / 5 - 1], 9);
}

TEST(CsvSourceTest, HasEmptyPartitionsIfThereAreFewRows) {
  CsvSourceOptions options;
  options.num_partitions = 3;
  absl::StatusOr<std::unique_ptr<CsvSource>> source = CsvSource::FromText("a\n1\n", options);
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT(ReadPartition(**source, 0), IsOk());
  EXPECT_THAT(ReadPartition(**source, 2), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT((*source)->Open(3, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CsvSourceTest, ReadsSeveralFilesAsOne) {
  absl::StatusOr<TempDir> dir = TempDir::Create("csv");
  ASSERT_THAT(dir, IsOk());
  std::vector<std::string> paths;
  int next = 0;
  for (int rows : {3, 0, 4}) {
    std::string text = "n\n";
    for (int i = 0; i < rows; ++i) absl::StrAppend(&text, next++, "\n");
    paths.push_back(JoinPath(dir->path(), absl::StrCat(paths.size(), ".csv")));
    ASSERT_THAT(WriteFileAtomic(paths.back(), text), IsOk());
  }
  CsvSourceOptions options;
  options.num_partitions = 2;
  absl::StatusOr<std::unique_ptr<CsvSource>> source = CsvSource::FromFiles(paths, options);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->num_rows(), 7);
  absl::StatusOr<RecordBatch> first = ReadPartition(**source, 0);  // over all three files
  absl::StatusOr<RecordBatch> second = ReadPartition(**source, 1);
  ASSERT_THAT(first, IsOk());
  ASSERT_THAT(second, IsOk());
  EXPECT_TRUE(
      RecordBatch::Concat(std::vector<RecordBatch>{*first, *second})
          ->Equals(
              *BatchBuilder().AddColumn("n", std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6}).Build()));

  ASSERT_THAT(WriteFileAtomic(paths[1], "m\n"), IsOk());
  EXPECT_THAT(CsvSource::FromFiles(paths), StatusIs(absl::StatusCode::kInvalidArgument,
                                                    HasSubstr("1.csv:1: the header differs")));
}

TEST(CsvSourceTest, NoticesThatAFileHasChanged) {
  absl::StatusOr<TempDir> dir = TempDir::Create("csv");
  ASSERT_THAT(dir, IsOk());
  const std::string path = JoinPath(dir->path(), "a.csv");
  ASSERT_THAT(WriteFileAtomic(path, "n\n1\n2\n"), IsOk());
  absl::StatusOr<std::unique_ptr<CsvSource>> source = CsvSource::FromFiles({path});
  ASSERT_THAT(source, IsOk());
  EXPECT_THAT(ReadPartition(**source, 0), IsOk());
  ASSERT_THAT(WriteFileAtomic(path, "n\n1\n2\n3\n"), IsOk());
  EXPECT_THAT(ReadPartition(**source, 0),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("has changed")));
  EXPECT_THAT(CsvSource::FromFiles({path + ".none"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("a.csv.none")));
  EXPECT_THAT(CsvSource::FromFiles({dir->path()}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(CsvSource::FromFiles({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(CsvSourceTest, ReadsARecordLongerThanItsBuffer) {
  const std::string big(3 << 20, 'x');
  absl::StatusOr<RecordBatch> batch =
      ReadText(absl::StrCat("a,b\n1,\"", big, "\"\n2,\"\"\"", big, "\"\n3,c\n"));
  ASSERT_THAT(batch, IsOk());
  EXPECT_EQ(batch->column(1).BytesAt(0), big);
  EXPECT_EQ(batch->column(1).BytesAt(1), absl::StrCat("\"", big));
  EXPECT_EQ(batch->column(1).BytesAt(2), "c");
}

TEST(CsvSourceTest, RefusesARecordThatNeverEnds) {
  EXPECT_THAT(ReadText(absl::StrCat("a\n\"", std::string((16 << 20) + 1, 'x'), "\"\n")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a record of more than")));
}

}  // namespace
}  // namespace millrace
