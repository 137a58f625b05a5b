#include "feed/feeder/feeder_partition.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/source/id_source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Partition 0 has the rows 0 to 9 in batches of 4, 0 and 6; counts how often it is opened.
class CountingSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return true; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int partition,
                                                          int64_t data_epoch) const override {
    ++opened;
    return source_.Open(partition, data_epoch);
  }
  mutable int opened = 0;

 private:
  MemorySource source_ = **MemorySource::Create({{Ids(0, 4), Ids(0, 0), Ids(4, 6)}});
};

class FailingSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return false; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    return absl::NotFoundError("no such file");
  }
};

// The first value of each batch from here to the end.
std::vector<int64_t> Firsts(FeederPartition& rows) {
  std::vector<int64_t> firsts;
  while (true) {
    auto batch = rows.Next();
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || !batch->has_value()) return firsts;
    EXPECT_FALSE((*batch)->empty());
    firsts.push_back((*batch)->column(0).values<int64_t>()[0]);
  }
}

TEST(FeederPartitionTest, CutsBatchesToTheTargetSize) {
  CountingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, /*target_bytes=*/16, &keep);
  ASSERT_THAT(rows.Seek(0), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_EQ(rows.position(), 10);
}

TEST(FeederPartitionTest, KeptRowsComeAgainWithoutTheSource) {
  CountingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, 1 << 20, &keep);
  ASSERT_THAT(rows.Seek(0), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(0, 4));
  rows.Release(5);  // in the middle of the second batch, which stays
  ASSERT_THAT(rows.Seek(5), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(5));
  ASSERT_THAT(rows.Seek(10), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre());
  EXPECT_EQ(source.opened, 1);
}

TEST(FeederPartitionTest, RowsThatWereLetGoAreReadAgain) {
  CountingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, 1 << 20, &keep);
  ASSERT_THAT(rows.Seek(0), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(0, 4));
  rows.Release(10);
  ASSERT_THAT(rows.Seek(2), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(2, 4));
  EXPECT_EQ(source.opened, 2);
  ASSERT_THAT(rows.Seek(0), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(0, 4));
}

TEST(FeederPartitionTest, WhatIsKeptHasABudgetAndTheSourceIsReadAgainBeyondIt) {
  CountingSource source;
  KeepBudget keep(4 * sizeof(int64_t));
  std::optional<FeederPartition> rows;
  rows.emplace(&source, 0, 0, /*target_bytes=*/16, &keep);
  ASSERT_THAT(rows->Seek(0), IsOk());
  EXPECT_THAT(Firsts(*rows), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_LE(keep.bytes(), 6 * 8) << "no more than the source's last batch";
  ASSERT_THAT(rows->Seek(8), IsOk());
  EXPECT_THAT(Firsts(*rows), ElementsAre(8));
  EXPECT_EQ(source.opened, 1) << "kept";
  ASSERT_THAT(rows->Seek(1), IsOk());
  EXPECT_THAT(Firsts(*rows), ElementsAre(1, 2, 4, 6, 8));
  EXPECT_EQ(source.opened, 2) << "not kept";
  rows.reset();
  EXPECT_EQ(keep.bytes(), 0);
}

TEST(FeederPartitionTest, WithoutKeepingSeekOpensTheSourceAgain) {
  CountingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, 1 << 20, /*keep=*/nullptr);
  ASSERT_THAT(rows.Seek(0), IsOk());
  ASSERT_THAT(rows.Next(), IsOk());
  ASSERT_THAT(rows.Seek(0), IsOk());
  EXPECT_THAT(Firsts(rows), ElementsAre(0, 4));
  EXPECT_EQ(source.opened, 2);
}

// Another partition of the feed has used the budget up.
TEST(FeederPartitionTest, ABatchWithoutRowsAddsNothingToWhatIsKept) {
  CountingSource source;
  KeepBudget keep(1);
  FeederPartition other(&source, 0, 0, 1 << 20, &keep);
  ASSERT_THAT(other.Seek(0), IsOk());
  ASSERT_THAT(other.Next(), IsOk());
  FeederPartition rows(&source, 0, 0, 1 << 20, &keep);
  ASSERT_THAT(rows.Seek(0), IsOk());
  ASSERT_THAT(rows.Next(), IsOk());
  rows.Release(4);
  EXPECT_THAT(Firsts(rows), ElementsAre(4));
}

// Yields rows 0 to 3, then waits for go, or for Cancel() for ever.
class WaitingSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return true; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    ++opened;
    return std::make_unique<Reader>(this);
  }
  Notification go;
  mutable Notification waiting, cancelled;
  mutable std::atomic<int> opened{0};

 private:
  class Reader final : public RecordBatchReader {
   public:
    explicit Reader(const WaitingSource* source) : source_(source) {}
    const Schema& schema() const override { return rows_.schema(); }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (!std::exchange(begun_, true)) return std::optional(rows_);
      source_->waiting.Notify();
      source_->go.WaitForNotification();
      return std::exchange(ended_, true) ? std::optional<RecordBatch>() : std::optional(Ids(4, 6));
    }
    void Cancel() override { source_->cancelled.Notify(); }

   private:
    const WaitingSource* const source_;
    const RecordBatch rows_ = Ids(0, 4);
    bool begun_ = false, ended_ = false;
  };
};

TEST(FeederPartitionTest, AnotherThreadGoesOnWhereOneWaitsForTheSource) {
  WaitingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, 1 << 20, &keep);
  ASSERT_THAT(rows.Seek(0), IsOk());
  EXPECT_FALSE(rows.TakeOver()) << "nobody waits";
  ASSERT_THAT(rows.Next(), IsOk());
  EXPECT_FALSE(rows.TakeOver()) << "nobody waits";
  absl::Status waited;
  Thread waiting("waiting", [&] { waited = rows.Next().status(); });
  source.waiting.WaitForNotification();
  ASSERT_TRUE(rows.TakeOver());
  EXPECT_FALSE(rows.TakeOver()) << "nobody holds it";
  ASSERT_THAT(rows.Seek(1), IsOk());
  auto again = rows.Next();
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ((*again)->num_rows(), 3);

  // One that waits for the first one is relieved like it.
  absl::Status second_waited;
  Thread second("second", [&] { second_waited = rows.Next().status(); });
  ASSERT_TRUE(Eventually([&] { return rows.TakeOver(); }));
  second.Join();
  EXPECT_THAT(second_waited, StatusIs(absl::StatusCode::kAborted));

  ASSERT_THAT(rows.Seek(1), IsOk());
  source.go.Notify();
  EXPECT_THAT(Firsts(rows), ElementsAre(1, 4)) << "the first one's row too";
  waiting.Join();
  EXPECT_THAT(waited, StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(source.opened, 1);
  EXPECT_FALSE(source.cancelled.HasBeenNotified());
}

TEST(FeederPartitionTest, AReaderThatIsLeftBehindIsCancelled) {
  WaitingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, 1 << 20, &keep);
  ASSERT_THAT(rows.Seek(0), IsOk());
  ASSERT_THAT(rows.Next(), IsOk());
  rows.Release(4);
  absl::Status waited;
  Thread waiting("waiting", [&] { waited = rows.Next().status(); });
  source.waiting.WaitForNotification();
  ASSERT_TRUE(rows.TakeOver());
  ASSERT_THAT(rows.Seek(0), IsOk());  // not kept
  EXPECT_TRUE(source.cancelled.HasBeenNotified());
  source.go.Notify();
  EXPECT_THAT(Firsts(rows), ElementsAre(0, 4)) << "nothing of the first reader";
  waiting.Join();
  EXPECT_THAT(waited, StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(source.opened, 2);
}

TEST(FeederPartitionTest, ASourceThatHasShrunkIsDataLoss) {
  CountingSource source;
  KeepBudget keep(1 << 20);
  FeederPartition rows(&source, 0, 0, 1 << 20, &keep);
  EXPECT_THAT(rows.Seek(11), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("has 10 rows")));
}

TEST(FeederPartitionTest, ErrorsOfTheSourceNameThePartition) {
  FailingSource source;
  FeederPartition rows(&source, 7, 2, 1 << 20, /*keep=*/nullptr);
  EXPECT_THAT(rows.Seek(0), StatusIs(absl::StatusCode::kNotFound,
                                     HasSubstr("partition 7, epoch 2, after row 0: no such file")));
}

}  // namespace
}  // namespace millrace
