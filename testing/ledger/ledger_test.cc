// The ledger under faults: connections cut, held up or dead at any byte, nodes killed at any time.
// However a call goes, either every row is accounted for or the call fails with an error that says
// why:
//
//   train       each row of each epoch is used at least once, and handed to programs more often
//               only within what TrainTally::refed counts
//   inference   each row has exactly one result, in order
//
// A case is made from its seed alone, up to the machine's timing. LEDGER_SEED repeats one,
// LEDGER_CASES runs more of them.

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/inference_job.h"
#include "feed/feeder/node_directory.h"
#include "feed/feeder/train_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "testing/ledger/ledger_node_process.h"
#include "testing/ledger/ledger_rows.h"
#include "testing/ledger/ledger_seeds.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// What the seed says.
struct Case {
  explicit Case(uint64_t seed) : random(seed) {
    nodes = static_cast<int>(Pick(1, 3));
    partitions = static_cast<int>(Pick(1, 6));
    for (int p = 0; p < partitions; ++p) rows.push_back(Pick(0, 1500));
    epochs = Pick(1, 2);
    source_batch = Pick(1, 200);
    batch_bytes = Pick(100, 8000);
    budget_bytes = Pick(1, 2) == 1 ? Pick(500, 20'000) : Pick(100'000, 10'000'000);
    deterministic = Pick(0, 3) != 0;
    faults = static_cast<int>(Pick(0, 6));
    kills = static_cast<int>(Pick(0, 2));
    comes_back = Pick(0, 7) != 0;
    shared_memory = seed % 2 == 0;
  }

  int64_t Pick(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
  }

  GeneratorSource Source() const {
    return **GeneratorSource::Create(
        LedgerRows(0, 0, 0, 1).schema(), partitions,
        [rows = rows, step = source_batch](int partition, int64_t epoch, int64_t batch)
            -> absl::StatusOr<std::optional<RecordBatch>> {
          const int64_t first = batch * step;
          const int64_t left = rows[static_cast<size_t>(partition)] - first;
          if (left <= 0) return std::optional<RecordBatch>();
          return std::optional(LedgerRows(epoch, partition, first, std::min(left, step)));
        },
        deterministic);
  }

  std::mt19937_64 random;
  int nodes;
  int partitions;
  std::vector<int64_t> rows;  // of each partition
  int64_t epochs;
  int64_t source_batch;
  int64_t batch_bytes;
  int64_t budget_bytes;
  bool deterministic;
  int faults;       // at most so many connections break
  int kills;        // of nodes
  bool comes_back;  // a killed one
  bool shared_memory;
};

class LedgerTest : public ::testing::TestWithParam<uint64_t>, public TrainObserver {
 protected:
  virtual std::string program() const { return "testing/ledger/ledger_node"; }

  LedgerTest() : case_(GetParam()), plan_(GetParam() * 7 + 1, case_.faults) {}

  void Begin(const std::string& mode) {
    auto folder = TempDir::Create("ledger");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    for (int i = 0; i < case_.nodes; ++i) {
      nodes_.push_back(
          std::make_unique<LedgerNode>(LedgerNode::Options{.name = absl::StrCat("worker:", i),
                                                           .mode = mode,
                                                           .budget_bytes = case_.budget_bytes,
                                                           .folder = folder_->path(),
                                                           .program = program()},
                                       &plan_, &directory_));
      ASSERT_THAT(nodes_.back()->Start(case_.random()), IsOk());
    }
    feeder_ = *Feeder::Start({.shared_memory = case_.shared_memory, .shared_min_bytes = 1});
    fate_ = Thread("fate", [this] { KillNodes(); });
  }

  // The properties above.
  void TrainAndCount();
  void InferAndCompare();

  void KillNodes() {
    for (int kill = 0; kill < case_.kills; ++kill) {
      if (over_.WaitForNotificationWithTimeout(absl::Milliseconds(case_.Pick(0, 400)))) return;
      LedgerNode& node = *nodes_[static_cast<size_t>(case_.Pick(0, case_.nodes - 1))];
      ++kills_;
      EXPECT_THAT(
          node.Kill(absl::Milliseconds(case_.Pick(0, 200)),
                    case_.comes_back ? FeedTarget::State::kRestarting : FeedTarget::State::kFailed),
          IsOk());
      if (!case_.comes_back) return;
      EXPECT_THAT(node.Start(case_.random()), IsOk());
    }
  }

  void End() {
    over_.Notify();
    fate_.Join();
    for (const auto& node : nodes_) EXPECT_THAT(node->End(), IsOk());
    for (const auto& node : nodes_) EXPECT_THAT(node->CountRows(&handed_, &used_), IsOk());
    int faults = 0;
    for (const auto& node : nodes_) faults += node->faults();
    std::printf(
        "seed %llu: %d nodes, %d partitions, %lld epochs, %d faults, %d of %d kills, %lld of %lld "
        "batches and %lld of %lld results through shared memory\n",
        static_cast<unsigned long long>(GetParam()), case_.nodes, case_.partitions,
        static_cast<long long>(case_.epochs), faults, kills_, case_.kills,
        static_cast<long long>(feeder_->stats().batches_placed),
        static_cast<long long>(feeder_->stats().batches_sent),
        static_cast<long long>(feeder_->stats().results_placed),
        static_cast<long long>(feeder_->stats().results_received));
  }

  // An error of a call that had faults: one that tells a user what happened.
  static void ExpectTyped(const absl::Status& status) {
    std::printf("the call failed: %s\n", status.ToString().c_str());
    if (absl::IsUnauthenticated(status)) {
      // A connection that stalls before the node's own login is all that a stranger would show
      // (docs/feed_protocol.md, section 9).
      EXPECT_THAT(std::string(status.message()), testing::HasSubstr("did not prove within"));
    } else {
      EXPECT_THAT(status.code(),
                  testing::AnyOf(absl::StatusCode::kUnavailable,
                                 absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kAborted))
          << status;
    }
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("worker:")) << status;
  }

  void OnPartition(const PartitionProgress& report) override {
    MutexLock lock(&mu_);
    if (report.state == PartitionProgress::State::kRefeeding) refed_seen_ += report.rows_refed;
    if (report.state == PartitionProgress::State::kAcknowledged) ++acknowledged_;
  }
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    for (const auto& node : nodes_) {
      node->Tell(absl::StrCat(aborted ? "feed_aborted " : "feed_end ", feed_id));
    }
    return absl::OkStatus();
  }

  Case case_;
  TcpFaultPlan plan_;
  std::optional<TempDir> folder_;
  FakeNodeDirectory directory_;
  std::vector<std::unique_ptr<LedgerNode>> nodes_;
  std::unique_ptr<Feeder> feeder_;
  Thread fate_;
  int kills_ = 0;  // the thread's until it is joined
  Notification over_;
  std::map<int64_t, int64_t> handed_;  // how often, by id
  std::map<int64_t, int64_t> used_;
  Mutex mu_;
  int64_t refed_seen_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t acknowledged_ ABSL_GUARDED_BY(mu_) = 0;
};

void LedgerTest::TrainAndCount() {
  Begin("train");
  ASSERT_FALSE(HasFatalFailure());
  const GeneratorSource source = case_.Source();
  TrainJob job(feeder_.get(), &directory_, &source, this,
               {.feed_id = RandomHex(8),
                .num_epochs = case_.epochs,
                .feed_timeout = kPatience,
                .batch_bytes = case_.batch_bytes});
  const absl::StatusOr<TrainTally> result = job.Run();
  End();
  if (!result.ok()) {
    ExpectTyped(result.status());
    return;
  }
  EXPECT_FALSE(result->terminated);
  int64_t rows = 0;
  int64_t handed_again = 0;
  for (int64_t epoch = 0; epoch < case_.epochs; ++epoch) {
    for (int p = 0; p < case_.partitions; ++p) {
      for (int64_t row = 0; row < case_.rows[static_cast<size_t>(p)]; ++row) {
        const int64_t id = LedgerRowId(epoch, p, row);
        ASSERT_GE(used_[id], 1) << "row " << row << " of partition " << p << ", epoch " << epoch;
        handed_again += handed_[id] - 1;
        handed_.erase(id);
        ++rows;
      }
    }
  }
  EXPECT_THAT(handed_, testing::IsEmpty()) << "rows that nobody has fed";
  std::printf("%lld rows, %lld handed out again, %lld counted as re-fed\n",
              static_cast<long long>(rows), static_cast<long long>(handed_again),
              static_cast<long long>(result->rows_refed()));
  EXPECT_LE(handed_again, result->rows_refed());
  EXPECT_GE(result->rows(), rows);
  EXPECT_LE(result->rows(), rows + result->rows_refed());
  MutexLock lock(&mu_);
  EXPECT_EQ(refed_seen_, result->rows_refed());
  EXPECT_EQ(acknowledged_, case_.partitions * case_.epochs);
}

void LedgerTest::InferAndCompare() {
  Begin("inference");
  ASSERT_FALSE(HasFatalFailure());
  case_.deterministic = true;  // results that were handed out cannot be taken back
  const GeneratorSource source = case_.Source();
  InferenceJob job(
      feeder_.get(), &directory_, &source, /*observer=*/nullptr,
      {.feed_id = RandomHex(8), .feed_timeout = kPatience, .batch_bytes = case_.batch_bytes});
  std::vector<int64_t> next(static_cast<size_t>(case_.partitions));
  const absl::Status status = job.Collect([&](int partition, const RecordBatch& results) {
    int64_t& row = next[static_cast<size_t>(partition)];
    EXPECT_TRUE(results.Equals(LedgerRows(0, partition, row, results.num_rows())))
        << "partition " << partition << " from row " << row;
    row += results.num_rows();
    return absl::OkStatus();
  });
  End();
  for (int p = 0; p < case_.partitions; ++p) {
    const auto at = static_cast<size_t>(p);
    EXPECT_LE(next[at], case_.rows[at]) << "partition " << p;
    EXPECT_TRUE(!status.ok() || next[at] == case_.rows[at]) << "partition " << p;
  }
  if (!status.ok()) ExpectTyped(status);
}

using LedgerTrainTest = LedgerTest;
using LedgerInferenceTest = LedgerTest;

TEST_P(LedgerTrainTest, EveryRowIsAccountedFor) { TrainAndCount(); }

TEST_P(LedgerInferenceTest, EveryRowHasOneResult) { InferAndCompare(); }

// With the reference peer's node in place of the SDK's.
class LedgerPeerNodeTest : public LedgerTest {
 protected:
  std::string program() const override { return "testing/ledger/peer_node"; }
};

TEST_P(LedgerPeerNodeTest, EveryRowIsAccountedFor) { TrainAndCount(); }

TEST_P(LedgerPeerNodeTest, EveryRowHasOneResult) { InferAndCompare(); }

INSTANTIATE_TEST_SUITE_P(Seeds, LedgerTrainTest, ::testing::ValuesIn(LedgerSeeds(16)),
                         LedgerSeedName);
INSTANTIATE_TEST_SUITE_P(Seeds, LedgerInferenceTest, ::testing::ValuesIn(LedgerSeeds(16)),
                         LedgerSeedName);
INSTANTIATE_TEST_SUITE_P(Seeds, LedgerPeerNodeTest, ::testing::ValuesIn(LedgerSeeds(8)),
                         LedgerSeedName);

}  // namespace
}  // namespace millrace
