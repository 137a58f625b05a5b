// Data of unusual shapes: every Train and Inference call ends, with every row used once.

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/source.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

class FeedShapesTest : public FaultTest {
 protected:
  void StartCluster(int executors, const std::vector<std::string>& program_args = {},
                    int64_t feed_budget_bytes = int64_t{256} << 20) {
    ClusterOptions options = Options(executors);
    options.feed.budget_bytes = feed_budget_bytes;
    auto cluster = Run(options, Program("", "", program_args));
    ASSERT_THAT(cluster, IsOk());
    cluster_ = *std::move(cluster);
  }

  void ExpectTrainsAll(const MemorySource& source, int64_t rows, TrainOptions options = {}) {
    options.feed_timeout = kPatience;
    const auto result = cluster_->Train(source, options);
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->rows, rows * options.num_epochs);
    EXPECT_EQ(result->rows_refed, 0);
    EXPECT_FALSE(result->terminated);
  }

  // Ids [0, rows) go out; each comes back doubled, once, in order.
  void ExpectInfersAll(const MemorySource& source, int64_t rows) {
    ASSERT_THAT(cluster_->EndFeed(), IsOk());
    auto result =
        cluster_->Inference(std::make_shared<MemorySource>(source), {.feed_timeout = kPatience});
    ASSERT_THAT(result, IsOk());
    std::vector<int64_t> got;
    EXPECT_THAT(result->ForEach([&got](int, const RecordBatch& batch) {
      const auto values = Batch::Create(batch)->column<int64_t>("doubled");
      got.insert(got.end(), values.begin(), values.end());
      return absl::OkStatus();
    }),
                IsOk());
    std::vector<int64_t> want(static_cast<size_t>(rows));
    for (size_t i = 0; i < want.size(); ++i) want[i] = static_cast<int64_t>(2 * i);
    EXPECT_EQ(got, want);
  }

  void TearDown() override {
    if (cluster_ != nullptr) {
      EXPECT_THAT(cluster_->Shutdown({.timeout = kPatience}), IsOk());
    }
    cluster_.reset();
    FaultTest::TearDown();
  }

  // `rows` rows with a binary column of `bytes` each.
  static MemorySource FatRows(int64_t rows, size_t bytes) {
    std::vector<int64_t> ids(static_cast<size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    const std::vector<std::string> blobs(ids.size(), std::string(bytes, 'b'));
    BatchBuilder builder;
    const auto batch = builder.AddColumn("id", ids).AddBinary("blob", blobs).Build();
    EXPECT_THAT(batch, IsOk());
    return **MemorySource::Split(*batch, 1);
  }

  std::unique_ptr<Cluster> cluster_;
};

TEST_F(FeedShapesTest, RowsThatTheBatchSizeDoesNotDivide) {
  StartCluster(2, {"--batch_rows=64"});
  ExpectTrainsAll(RowSource(1001, 3), 1001, {.num_epochs = 3});
  ExpectTrainsAll(RowSource(1, 1), 1);
  ExpectInfersAll(RowSource(1001, 3), 1001);
}

TEST_F(FeedShapesTest, ABatchSizeBeyondAllRows) {
  StartCluster(2, {"--batch_rows=1000000"});
  ExpectTrainsAll(RowSource(1001, 7), 1001, {.num_epochs = 2});
  ExpectInfersAll(RowSource(1001, 7), 1001);
}

TEST_F(FeedShapesTest, MorePartitionsThanFeeders) {
  StartCluster(2);
  ExpectTrainsAll(RowSource(500, 200), 500);
  ExpectInfersAll(RowSource(500, 200), 500);
}

TEST_F(FeedShapesTest, EmptyPartitions) {
  StartCluster(2);
  ExpectTrainsAll(RowSource(3, 20), 3, {.num_epochs = 2});
  ExpectInfersAll(RowSource(3, 20), 3);
}

TEST_F(FeedShapesTest, NoRowsAtAll) {
  StartCluster(2);
  ExpectTrainsAll(RowSource(0, 4), 0, {.num_epochs = 2});
  ExpectTrainsAll(RowSource(10, 1), 10);
  ExpectInfersAll(RowSource(0, 4), 0);
}

TEST_F(FeedShapesTest, MoreNodesThanRows) {
  StartCluster(4);
  ExpectTrainsAll(RowSource(2, 1), 2);
  ExpectInfersAll(RowSource(2, 1), 2);
}

TEST_F(FeedShapesTest, OneHugeRowAgainstASmallBudget) {
  StartCluster(1, {}, /*feed_budget_bytes=*/int64_t{1} << 20);
  ExpectTrainsAll(FatRows(1, size_t{100} << 20), 1);
  ExpectTrainsAll(RowSource(100, 2), 100);
  ExpectInfersAll(FatRows(1, size_t{100} << 20), 1);
}

TEST_F(FeedShapesTest, BatchesLargerThanTheBudget) {
  StartCluster(1, {"--batch_rows=64"}, /*feed_budget_bytes=*/int64_t{1} << 20);
  ExpectTrainsAll(FatRows(200, size_t{100} << 10), 200, {.num_epochs = 2});
  ExpectInfersAll(FatRows(200, size_t{100} << 10), 200);
}

TEST_F(FeedShapesTest, TheSmallestBudgetThereIs) {
  StartCluster(2, {}, /*feed_budget_bytes=*/1);
  ExpectTrainsAll(RowSource(1000, 5), 1000, {.batch_bytes = 100});
  ExpectInfersAll(RowSource(1000, 5), 1000);
}

TEST_F(FeedShapesTest, ManyTrainCallsInARow) {
  StartCluster(2, {"--batch_rows=7"});
  for (int64_t rows = 0; rows < 20; ++rows) ExpectTrainsAll(RowSource(rows, 3), rows);
}

}  // namespace
}  // namespace millrace::faults
