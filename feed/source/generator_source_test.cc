#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

RecordBatch Rows(std::vector<int64_t> values) {
  return *BatchBuilder().AddColumn("id", std::move(values)).Build();
}

using Next = absl::StatusOr<std::optional<RecordBatch>>;

TEST(GeneratorSourceTest, MakesTheBatchesOfAPartitionInOrderUntilThereAreNoMore) {
  absl::StatusOr<std::unique_ptr<GeneratorSource>> source = GeneratorSource::Create(
      Rows({0}).schema(), 2,
      [](int partition, int64_t epoch, int64_t batch) -> Next {
        if (batch == 3) return std::nullopt;
        return Rows(std::vector<int64_t>(static_cast<size_t>(partition + epoch + batch + 1), 0));
      },
      /*deterministic=*/true);
  ASSERT_THAT(source, IsOk());
  EXPECT_EQ((*source)->num_partitions(), 2);
  EXPECT_TRUE((*source)->deterministic());
  auto reader = (*source)->Open(1, 4);
  ASSERT_THAT(reader, IsOk());
  for (int64_t batch = 0; batch < 3; ++batch) {
    EXPECT_EQ((**(*reader)->Next()).num_rows(), 6 + batch);
  }
  EXPECT_FALSE((*reader)->Next()->has_value());
  EXPECT_FALSE((*reader)->Next()->has_value());
}

TEST(GeneratorSourceTest, SaysWhichPartitionWentWrong) {
  const auto generate = [](int partition, int64_t, int64_t) -> Next {
    if (partition == 0) return absl::UnavailableError("the well is dry");
    return *BatchBuilder().AddColumn("other", std::vector<float>{1}).Build();
  };
  const Schema schema = Rows({0}).schema();
  absl::StatusOr<std::unique_ptr<GeneratorSource>> source =
      GeneratorSource::Create(schema, 2, generate, false);
  ASSERT_THAT(source, IsOk());
  EXPECT_FALSE((*source)->deterministic());
  EXPECT_THAT((*(*source)->Open(0, 0))->Next(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("partition 0")));
  EXPECT_THAT((*(*source)->Open(1, 0))->Next(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("another schema")));
  EXPECT_THAT((*source)->Open(2, 0), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(GeneratorSource::Create(schema, 0, generate, false),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(GeneratorSource::Create(schema, 1, nullptr, false),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace millrace
