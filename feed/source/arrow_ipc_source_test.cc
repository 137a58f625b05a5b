#include <cstdint>
#include <cstring>
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
#include "feed/ipc/ipc.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {
namespace {

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

// As Arrow's writers do: the body's parts with padding between them.
std::string Message(const RecordBatch& batch) {
  const EncodedBatch encoded = *EncodeBatch(batch);
  std::string out = encoded.metadata;
  for (const BodyPart& part : encoded.parts) {
    out.append(reinterpret_cast<const char*>(part.data), part.size);
    out.append((8 - part.size % 8) % 8, '\0');
  }
  return out;
}

std::string Stream(const std::vector<RecordBatch>& batches) {
  std::string out = *EncodeSchema(batches.front().schema());
  for (const RecordBatch& batch : batches) out += Message(batch);
  return out + std::string("\xff\xff\xff\xff\0\0\0\0", 8);
}

class ArrowIpcSourceTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    const std::string path = JoinPath(dir_->path(), name);
    EXPECT_THAT(WriteFileAtomic(path, bytes), IsOk());
    return path;
  }
  // The column "id" of the whole file.
  static absl::StatusOr<std::vector<int64_t>> Read(const std::string& path) {
    absl::StatusOr<std::unique_ptr<ArrowIpcSource>> source = ArrowIpcSource::Create({path});
    if (!source.ok()) return source.status();
    absl::StatusOr<std::unique_ptr<RecordBatchReader>> reader = (*source)->Open(0, 0);
    if (!reader.ok()) return reader.status();
    std::vector<int64_t> ids;
    while (true) {
      absl::StatusOr<std::optional<RecordBatch>> rows = (*reader)->Next();
      if (!rows.ok()) return rows.status();
      if (!rows->has_value()) return ids;
      const absl::StatusOr<Batch> batch = Batch::Create(**std::move(rows));
      if (!batch.ok()) return batch.status();
      const auto column = batch->TryColumn<int64_t>("id");
      if (!column.ok()) return column.status();
      ids.insert(ids.end(), column->begin(), column->end());
    }
  }

  std::unique_ptr<TempDir> dir_ = std::make_unique<TempDir>(*TempDir::Create("arrow-ipc"));
};

TEST_F(ArrowIpcSourceTest, ReadsStreamsAndFiles) {
  const std::string stream = Stream({Rows(0, 3), Rows(3, 2)});
  EXPECT_THAT(Read(Write("stream", stream)), IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4)));
  const std::string file = absl::StrCat(std::string("ARROW1\0\0", 8), stream, "a footer", "ARROW1");
  EXPECT_THAT(Read(Write("file", file)), IsOkAndHolds(ElementsAre(0, 1, 2, 3, 4)));
}

TEST_F(ArrowIpcSourceTest, AFileIsAPartitionAndIsReadAgain) {
  const std::string a = Write("a", Stream({Rows(0, 1)}));
  const std::string b = Write("b", Stream({Rows(7, 2)}));
  absl::StatusOr<std::unique_ptr<ArrowIpcSource>> source = ArrowIpcSource::Create({a, b});
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->num_partitions(), 2);
  EXPECT_TRUE((*source)->deterministic());
  EXPECT_EQ((*source)->schema().num_columns(), 2);
  for (int epoch = 0; epoch < 2; ++epoch) {
    auto reader = (*source)->Open(1, epoch);
    ASSERT_THAT(reader, IsOk());
    EXPECT_EQ((**(*reader)->Next()).num_rows(), 2);
    EXPECT_FALSE((*reader)->Next()->has_value());
    EXPECT_FALSE((*reader)->Next()->has_value());
  }
  EXPECT_THAT((*source)->Open(2, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT((*source)->Open(-1, 0), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(ArrowIpcSourceTest, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(ArrowIpcSource::Create({}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ArrowIpcSource::Create({"/no/such/file"}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(ArrowIpcSource::Create({"/dev/null"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no regular file")));
  EXPECT_THAT(ArrowIpcSource::Create({Write("csv", "id,name\n1,x\n2,y\n")}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no Arrow IPC message")));
  const RecordBatch other = *BatchBuilder().AddColumn("x", std::vector<float>{1}).Build();
  EXPECT_THAT(
      ArrowIpcSource::Create({Write("a", Stream({Rows(0, 1)})), Write("b", Stream({other}))}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another schema")));
}

TEST_F(ArrowIpcSourceTest, ATruncatedFileNeverReadsAsAWholeOne) {
  const std::string whole = Stream({Rows(0, 3), Rows(3, 2)});
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::StatusOr<std::vector<int64_t>> ids = Read(Write("cut", whole.substr(0, size)));
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kDataLoss) << size << ": " << ids.status();
  }
}

// Lengths are what a file may lie about; nothing is allocated for what is not there.
TEST_F(ArrowIpcSourceTest, AnyByteMayBeWrong) {
  const std::string whole = Stream({Rows(0, 3)});
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string bytes = whole;
      bytes[at] = byte;
      const absl::StatusOr<std::vector<int64_t>> ids = Read(Write("wrong", bytes));
      EXPECT_TRUE(!ids.ok() || ids->size() <= 3u);
    }
  }
  for (const int64_t length :
       {int64_t{1} << 60, int64_t{1} << 61, (int64_t{1} << 61) + 1, int64_t{-1}, INT64_MAX}) {
    for (size_t at = EncodeSchema(Rows(0, 1).schema())->size(); at + 8 <= whole.size(); at += 8) {
      std::string bytes = whole;
      std::memcpy(bytes.data() + at, &length, sizeof(length));
      const absl::StatusOr<std::vector<int64_t>> ids = Read(Write("long", bytes));
      EXPECT_TRUE(!ids.ok() || ids->size() <= 3u);
    }
  }
}

}  // namespace
}  // namespace millrace
