#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/schema.h"
#include "millrace/tf_record.h"
#include "millrace/types.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

RecordBatch Ids(std::vector<int64_t> ids) {
  return *BatchBuilder().AddColumn("id", std::move(ids)).Build();
}

class TfRecordWriterTest : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  std::unique_ptr<TfRecordWriter> Create(const Schema& schema,
                                         const TfRecordWriterOptions& options = {}) const {
    auto writer = TfRecordWriter::Create(Path("out"), schema, options);
    EXPECT_THAT(writer, IsOk());
    return *std::move(writer);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  TempDir dir_ = *TempDir::Create("tfrecord-writer");
};

TEST_F(TfRecordWriterTest, TheFileIsThereOnceItIsComplete) {
  ASSERT_THAT(WriteFileAtomic(Path("out"), "before"), IsOk());
  auto writer = Create(Ids({}).schema());
  EXPECT_THAT(writer->Write(Ids({1, 2})), IsOk());
  EXPECT_EQ(Names().size(), 2u);
  EXPECT_THAT(ReadFile(Path("out")), IsOkAndHolds("before"));
  // Nobody who reads the folder takes what is not complete.
  EXPECT_THAT(TfRecordSource::Create({dir_.path()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("out is no TFRecord file")));
  EXPECT_THAT(writer->Finish(), IsOk());
  EXPECT_THAT(Names(), ElementsAre("out"));
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({Path("out")});
  ASSERT_THAT(source, IsOk());
  EXPECT_TRUE((**(*(*source)->Open(0, 0))->Next()).Equals(Ids({1, 2})));
  EXPECT_THAT(writer->Write(Ids({3})), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(writer->Finish(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(TfRecordWriterTest, TheModeIsWhatTheUmaskLeaves) {
  const mode_t before = umask(0027);
  auto writer = Create(Ids({}).schema());
  EXPECT_THAT(writer->Finish(), IsOk());
  umask(before);
  struct stat status {};
  ASSERT_EQ(stat(Path("out").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(TfRecordWriterTest, AnErrorLeavesNothingBehind) {
  { auto abandoned = Create(Ids({}).schema()); }
  EXPECT_THAT(Names(), IsEmpty());

  auto writer = Create(Ids({}).schema());
  const RecordBatch other = *BatchBuilder().AddColumn("x", std::vector<float>{1}).Build();
  EXPECT_THAT(writer->Write(other),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another schema")));
  EXPECT_THAT(Names(), IsEmpty());
  EXPECT_THAT(writer->Finish(), StatusIs(absl::StatusCode::kFailedPrecondition));

  const RecordBatch large =
      *BatchBuilder().AddColumn("big", std::vector<uint64_t>{1, ~uint64_t{0}}).Build();
  writer = Create(large.schema());
  EXPECT_THAT(writer->Write(large.Slice(0, 1)), IsOk());
  EXPECT_THAT(writer->Write(large), StatusIs(absl::StatusCode::kInvalidArgument,
                                             HasSubstr("out, row 2: column \"big\"")));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(TfRecordWriterTest, AFullDiskLeavesNothingBehind) {
  // A limit on the size of files stands for it.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const TfRecordCompression compression :
       {TfRecordCompression::kNone, TfRecordCompression::kGzip}) {
    auto writer = Create(Ids({}).schema(), {.compression = compression});
    EXPECT_THAT(writer->Write(Ids({1, 2, 3})), IsOk());
    const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    const absl::Status status = writer->Finish();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr(Path("out")));
    EXPECT_THAT(Names(), IsEmpty());
  }
}

TEST_F(TfRecordWriterTest, WhatCannotBeWrittenIsSaidBeforehand) {
  EXPECT_THAT(TfRecordWriter::Create(Path("nowhere/out"), Ids({}).schema()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("nowhere/out")));
  for (const std::string& path : {std::string(), dir_.path() + "/"}) {
    EXPECT_THAT(TfRecordWriter::Create(path, Ids({}).schema()),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("does not name a file")));
  }
  EXPECT_THAT(
      TfRecordWriter::Create(Path("out"), *SchemaBuilder().Add("day", Type::Date32()).Build()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column \"day\"")));
  EXPECT_THAT(TfRecordWriter::Create(Path("out"), Ids({}).schema(), {.raw = true}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("raw records")));
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(TfRecordWriterTest, RawRecordsAreWrittenAsTheyAre) {
  const bool valid[] = {true, true, false};
  const RecordBatch records =
      *BatchBuilder().AddBinary("r", std::vector<std::string>{"", "\xff", ""}, valid).Build();
  auto writer = Create(records.schema(), {.compression = TfRecordCompression::kZlib, .raw = true});
  EXPECT_THAT(writer->Write(records.Slice(0, 2)), IsOk());
  EXPECT_THAT(writer->Finish(), IsOk());
  const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
      TfRecordSource::Create({Path("out")}, {.raw = true});
  ASSERT_THAT(source, IsOk());
  const RecordBatch read = **(*(*source)->Open(0, 0))->Next();
  EXPECT_EQ(read.num_rows(), 2);
  EXPECT_EQ(read.column(0).BytesAt(1), "\xff");
  writer = Create(records.schema(), {.raw = true});
  EXPECT_THAT(writer->Write(records),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("row 2: the value is null")));
}

}  // namespace
}  // namespace millrace
