// Ranks that end together (docs/feed_protocol.md, section 11), on real clusters: whatever the
// partitions are, every rank takes equally many steps, and every row is in one batch or counted.

#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/source.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Rows x = 0, 1, 2, ... in partitions of these sizes.
MemorySource Source(const std::vector<int64_t>& sizes) {
  std::vector<std::vector<RecordBatch>> partitions;
  int64_t next = 0;
  for (const int64_t size : sizes) {
    std::vector<RecordBatch>& batches = partitions.emplace_back();
    // In several batches, so that a partition arrives bit by bit.
    for (int64_t done = 0; done < size;) {
      const int64_t rows = std::min<int64_t>(size - done, 50);
      std::vector<int64_t> x(rows);
      std::iota(x.begin(), x.end(), next);
      BatchBuilder builder;
      builder.AddColumn("x", x);
      batches.push_back(*builder.Build());
      next += rows;
      done += rows;
    }
    if (batches.empty()) {
      BatchBuilder builder;
      builder.AddColumn("x", std::vector<int64_t>());
      batches.push_back(*builder.Build());
    }
  }
  return **MemorySource::Create(std::move(partitions));
}

int64_t Sum(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
}

class EqualClusterTest : public ::testing::Test {
 protected:
  EqualClusterTest() {
    options_.num_executors = 3;
    options_.input_mode = InputMode::kFeed;
    options_.cluster_file = false;
    options_.observer.on_output = [this](const NodeOutput& output) {
      MutexLock lock(&mu_);
      for (const std::string& line : output.lines) lines_[std::string(output.node)].push_back(line);
    };
    options_.observer.on_metric = [this](absl::string_view, absl::string_view, int64_t rows,
                                         double sum) {
      MutexLock lock(&mu_);
      rows_ += rows;
      sum_ += sum;
    };
  }

  absl::StatusOr<std::unique_ptr<Cluster>> Start(const std::vector<std::string>& args) {
    NodeProgram program = NodeProgram::File(
        absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/equal_cluster_test_node"));
    program.Args(args);
    return Cluster::Run(launcher_, program, options_);
  }
  // What all nodes have printed; none is missing once the cluster has ended.
  std::map<std::string, std::vector<std::string>> lines() {
    MutexLock lock(&mu_);
    return lines_;
  }
  // The steps that every rank says it took; -1 if they differ.
  int64_t Steps() {
    std::set<std::string> said;
    size_t nodes = 0;
    for (const auto& [node, lines] : lines()) {
      for (const std::string& line : lines) {
        if (!absl::StartsWith(line, "steps ")) continue;
        said.insert(line);
        ++nodes;
      }
    }
    if (said.size() != 1 || nodes != static_cast<size_t>(options_.num_executors)) return -1;
    return std::stoll(said.begin()->substr(6));
  }

  std::string Said() {
    std::string said;
    for (const auto& [node, lines] : lines()) {
      absl::StrAppend(&said, node, ":\n  ", absl::StrJoin(lines, "\n  "), "\n");
    }
    return said;
  }

  // One call, from the start of the cluster to its end.
  TrainResult TrainOnce(const std::vector<std::string>& args, const std::vector<int64_t>& sizes) {
    absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start(args);
    EXPECT_THAT(cluster, IsOk());
    if (!cluster.ok()) return {};
    const absl::StatusOr<TrainResult> result =
        (*cluster)->Train(Source(sizes), {.feed_timeout = absl::Seconds(60), .end_of_feed = true});
    EXPECT_THAT(result, IsOk());
    EXPECT_THAT((*cluster)->Shutdown(), IsOk());
    return result.value_or(TrainResult());
  }

  Mutex mu_;
  std::map<std::string, std::vector<std::string>> lines_;
  int64_t rows_ = 0;
  double sum_ = 0;
  ClusterOptions options_;
  LocalLauncher launcher_;
};

TEST_F(EqualClusterTest, UnevenPartitionsAreEquallyManyBatchesAndTheRestIsCounted) {
  const std::vector<int64_t> sizes = {100, 0, 7, 350, 31, 200, 1};
  const TrainResult result = TrainOnce({"drop", "8", "meet"}, sizes);
  const int64_t steps = Steps();
  EXPECT_GT(steps, 0);
  EXPECT_EQ(rows_, 3 * steps * 8);
  EXPECT_EQ(result.rows, rows_);
  EXPECT_EQ(result.rows + result.dropped_rows, Sum(sizes));
  EXPECT_EQ(result.repeated_rows, 0);
  EXPECT_EQ(result.rows_refed, 0);
  ASSERT_THAT(result.equal_nodes, SizeIs(3));
  for (const EqualNodeRows& node : result.equal_nodes) {
    EXPECT_LT(node.dropped_rows, 8 + 350) << node.node;  // a batch and the largest partition
  }
}

TEST_F(EqualClusterTest, ABatchThatLacksRowsIsFilledWithRowsOfBefore) {
  const std::vector<int64_t> sizes = {100, 0, 7, 350, 31, 200, 1};
  const TrainResult result = TrainOnce({"pad", "8", "meet"}, sizes);
  const int64_t steps = Steps();
  EXPECT_EQ(rows_, 3 * steps * 8);
  EXPECT_EQ(result.rows, Sum(sizes));
  EXPECT_EQ(result.dropped_rows, 0);
  EXPECT_EQ(result.repeated_rows, rows_ - Sum(sizes));
}

// The call is over, and the feed has ended, when no rank has rows; this one has steps left.
TEST_F(EqualClusterTest, ASlowRankTakesItsPaddedStepsThoughTheFeedHasEnded) {
  const TrainResult result = TrainOnce({"pad", "10", "slow"}, {2000, 10, 10});
  EXPECT_EQ(Steps(), 200) << Said();
  EXPECT_EQ(result.rows, 2020);
  EXPECT_EQ(result.repeated_rows, 2 * 1990);
}

TEST_F(EqualClusterTest, ASlowRankIsWaitedForAndNothingPilesUp) {
  options_.feed.budget_bytes = 4096;
  const std::vector<int64_t> sizes = {2000, 2000, 2000, 2000, 2000, 2000};
  const TrainResult result = TrainOnce({"drop", "10", "slow"}, sizes);
  EXPECT_EQ(Steps(), 400);
  EXPECT_EQ(result.dropped_rows, 0);
  EXPECT_TRUE(result.exactly_once);
  EXPECT_EQ(sum_, 12'000.0 * 11'999 / 2);
}

TEST_F(EqualClusterTest, ABatchThatIsLargerThanTheBudgetComesTogether) {
  options_.feed.budget_bytes = 1000;
  const TrainResult result = TrainOnce({"drop", "700", "meet"}, {3000, 2500, 2200});
  EXPECT_EQ(Steps(), 3);
  EXPECT_EQ(result.dropped_rows, 7700 - 3 * 3 * 700);
}

TEST_F(EqualClusterTest, OnePartitionForAllRanksIsDroppedAndHoldsUpNobody) {
  options_.feed.budget_bytes = 1000;  // so that it has to be taken before it is all there
  const TrainResult result = TrainOnce({"drop", "8", "meet"}, {5000});
  EXPECT_EQ(Steps(), 0);
  EXPECT_EQ(result.rows, 0);
  EXPECT_EQ(result.dropped_rows, 5000);
}

TEST_F(EqualClusterTest, FewerRowsThanRanks) {
  const TrainResult result = TrainOnce({"drop", "1"}, {1, 0, 1});
  EXPECT_EQ(Steps(), 0);
  EXPECT_EQ(result.dropped_rows, 2);
}

TEST_F(EqualClusterTest, NoRowsAtAll) {
  const TrainResult result = TrainOnce({"pad", "4"}, {0, 0, 0, 0});
  EXPECT_EQ(Steps(), 0);
  EXPECT_EQ(result.rows, 0);
  EXPECT_EQ(result.repeated_rows, 0);
}

TEST_F(EqualClusterTest, PaddingNeedsARowAtEveryRank) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start({"pad", "8"});
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(Source({500, 400}), {.feed_timeout = absl::Seconds(60)}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("worker:2"), HasSubstr("nothing to pad"))));
  (*cluster)->Shutdown().IgnoreError();
}

TEST_F(EqualClusterTest, EveryCallEndsTogether) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start({"drop", "16", "meet"});
  ASSERT_THAT(cluster, IsOk());
  int64_t rows = 0;
  int64_t fed = 0;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{100, 200, 300, 7}, {64, 64, 64}, {1000, 900}}) {
    const absl::StatusOr<TrainResult> result =
        (*cluster)->Train(Source(sizes), {.num_epochs = 2, .feed_timeout = absl::Seconds(60)});
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->rows + result->dropped_rows, 2 * Sum(sizes));
    EXPECT_EQ(result->rows % (3 * 16), 0);
    rows += result->rows;
    fed += 2 * Sum(sizes);
  }
  EXPECT_GT(rows, fed / 2);
  EXPECT_THAT((*cluster)->EndFeed(), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_EQ(Steps() * 3 * 16, rows);
  EXPECT_EQ(rows_, rows);
}

// Two ranks only repeat rows, at their own pace, when the next call begins.
TEST_F(EqualClusterTest, ASlowRankTakesItsPaddedStepsBeforeThoseOfTheNextCall) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start({"pad", "10", "slow"});
  ASSERT_THAT(cluster, IsOk());
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{2000, 10, 10}, {50, 50, 50}}) {
    const absl::StatusOr<TrainResult> result =
        (*cluster)->Train(Source(sizes), {.feed_timeout = absl::Seconds(60)});
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->rows, Sum(sizes));
  }
  EXPECT_THAT((*cluster)->EndFeed(), IsOk());
  EXPECT_THAT((*cluster)->Shutdown(), IsOk());
  EXPECT_EQ(Steps(), 205) << Said();
}

TEST_F(EqualClusterTest, AKilledRankIsTheErrorOfAllOthersAtOnce) {
  absl::StatusOr<std::unique_ptr<Cluster>> cluster = Start({"drop", "4", "die:20"});
  ASSERT_THAT(cluster, IsOk());
  // The other ranks would wait for it for ever: the source has rows for many more steps.
  const absl::StatusOr<TrainResult> result = (*cluster)->Train(
      Source(std::vector<int64_t>(30, 1000)), {.feed_timeout = absl::Seconds(60)});
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kAborted, HasSubstr("worker:2")));
  (*cluster)->Shutdown().IgnoreError();
  for (const std::string node : {"worker:0", "worker:1"}) {
    EXPECT_THAT(lines()[node], Contains(AllOf(HasSubstr("error ABORTED"), HasSubstr("worker:2"),
                                              HasSubstr("SIGKILL"))))
        << node;
  }
}

TEST_F(EqualClusterTest, ARankThatIsStartedAgainGoesOnWithTheOthers) {
  options_.failure.restart.max_restarts = 1;
  options_.failure.restart.initial_backoff = absl::Milliseconds(10);
  const std::vector<int64_t> sizes(30, 100);
  const TrainResult result = TrainOnce({"drop", "4", "die:20", "go_on"}, sizes);
  // Of each row the ledger knows one end: it was used last, or dropped.
  EXPECT_EQ(result.rows + result.dropped_rows, 3000);
  EXPECT_GT(result.rows, 0);
  EXPECT_FALSE(result.exactly_once);
  EXPECT_GT(Steps(), 0) << "all ranks count alike from the restart on";
  for (const std::string node : {"worker:0", "worker:1"}) {
    EXPECT_THAT(lines()[node], Contains(AllOf(HasSubstr("error ABORTED"), HasSubstr("worker:2"))));
  }
}

TEST_F(EqualClusterTest, RandomPartitionsEndTogether) {
  std::mt19937 random(20);
  const auto number = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 8; ++i) {
    const bool pad = number(0, 1) == 0;
    const bool slow = number(0, 2) == 0;
    const bool dies = number(0, 2) == 0;
    // A slow rank takes few steps, and one that dies does so long before the call's end: who has
    // taken the last step hears of nothing that comes later.
    const int64_t batch = dies ? number(3, 8) : number(slow ? 10 : 1, 30);
    std::vector<int64_t> sizes;
    for (int64_t n = dies ? number(12, 15) : number(pad ? 3 : 1, 15); n > 0; --n) {
      // Padding needs a row at every rank: the first partitions go to one after the other.
      const bool empty = !dies && !(pad && sizes.size() < 3) && number(0, 3) == 0;
      sizes.push_back(empty ? 0 : dies ? number(100, 300) : number(1, 900));
    }
    const int64_t largest = *std::max_element(sizes.begin(), sizes.end());
    options_.feed.budget_bytes = number(0, 1) == 0 ? 2000 : 1 << 20;
    options_.failure.restart.max_restarts = dies ? 1 : 0;
    options_.failure.restart.initial_backoff = absl::Milliseconds(10);
    std::vector<std::string> args = {pad ? "pad" : "drop", absl::StrCat(batch)};
    if (slow) args.push_back("slow");
    if (dies) {
      args.push_back(absl::StrCat("die:", number(1, 5)));
      args.push_back("go_on");
    } else {
      args.push_back("meet");
    }
    SCOPED_TRACE(absl::StrCat(i, ": ", absl::StrJoin(args, " "), ", partitions of ",
                              absl::StrJoin(sizes, ", "), " rows"));
    lines_.clear();
    rows_ = 0;
    const TrainResult result = TrainOnce(args, sizes);
    EXPECT_EQ(result.rows + result.dropped_rows, Sum(sizes));
    EXPECT_TRUE(pad || result.repeated_rows == 0);
    if (dies) {  // some batches were lost with the process
      EXPECT_GT(Steps(), 0) << Said();
      EXPECT_FALSE(result.exactly_once);
      continue;
    }
    EXPECT_EQ(Steps() * 3 * batch, rows_);
    EXPECT_EQ(result.rows + result.repeated_rows, rows_);
    EXPECT_TRUE(!pad || result.dropped_rows == 0);
    for (const EqualNodeRows& node : result.equal_nodes) {
      EXPECT_LT(node.dropped_rows, batch + largest) << node.node;
      EXPECT_LT(node.repeated_rows, batch + largest) << node.node;
    }
  }
}

}  // namespace
}  // namespace millrace
