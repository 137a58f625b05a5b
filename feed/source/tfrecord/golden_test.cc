// Files that TensorFlow has written (testing/tfrecord/README.md).

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/column_view.h"
#include "millrace/record_batch.h"
#include "millrace/tf_record.h"

namespace millrace {
namespace {

void ExpectGoldenRows(const RecordBatch& batch) {
  ASSERT_EQ(batch.num_rows(), 3);
  const auto column = [&batch](absl::string_view name) {
    return batch.column(*batch.schema().Find(name));
  };
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(column("id").values<int64_t>()[i], i);
    const ColumnView extremes = column("extremes").ListAt(i);
    constexpr int64_t kExtremes[] = {
        std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max(), -1, 0, 127, 128};
    ASSERT_EQ(extremes.length(), 6);
    for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(extremes.values<int64_t>()[k], kExtremes[k]);
    std::string image;
    for (int64_t k = 0; k < i; ++k) image += std::string("\xff\0", 2);
    EXPECT_EQ(column("image").BytesAt(i), image);
    EXPECT_EQ(column("name").BytesAt(i), absl::StrCat("row ", i, " \xc3\xbc"));
    const ColumnView tags = column("tags").ListAt(i);
    ASSERT_EQ(tags.length(), i);
    for (int64_t k = 0; k < i; ++k) EXPECT_EQ(tags.BytesAt(k), absl::StrCat("tag ", k));
    const ColumnView x = column("x").ListAt(i);
    ASSERT_EQ(x.length(), 2);
    EXPECT_EQ(x.values<float>()[0], static_cast<float>(i));
    EXPECT_EQ(x.values<float>()[1], static_cast<float>(i) + 0.5f);
    EXPECT_EQ(column("score").IsNull(i), i == 1);
    if (i != 1) EXPECT_EQ(column("score").values<float>()[i], static_cast<float>(i) / 4);
  }
}

TEST(GoldenTest, FilesOfTensorFlowAreReadHoweverTheyAreCompressed) {
  for (const char* name : {"none", "gzip", "zlib"}) {
    SCOPED_TRACE(name);
    const absl::StatusOr<std::unique_ptr<TfRecordSource>> source =
        TfRecordSource::Create({absl::StrCat("testing/tfrecord/golden/", name, ".tfrecord")});
    ASSERT_THAT(source, IsOk());
    EXPECT_EQ((*source)->schema().ToString(),
              "extremes: list<int64>, id: int64, image: binary, name: utf8, score: float32, "
              "tags: list<utf8>, x: list<float32>");
    const auto reader = (*source)->Open(0, 0);
    ASSERT_THAT(reader, IsOk());
    const absl::StatusOr<std::optional<RecordBatch>> batch = (*reader)->Next();
    ASSERT_THAT(batch, IsOk());
    ASSERT_TRUE(batch->has_value());
    ExpectGoldenRows(**batch);
  }
}

}  // namespace
}  // namespace millrace
