// What the feed promises, seen on real processes: several queues at once, an early stop that ends
// the source, and memory that stays as configured while a program sleeps.

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/train_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/source.h"
#include "testing/ledger/ledger_node_process.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class FeedProcessesTest : public ::testing::Test, public TrainObserver {
 protected:
  void Begin(const std::string& mode, int64_t budget_bytes = int64_t{256} << 20) {
    auto folder = TempDir::Create("processes");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    node_ = std::make_unique<LedgerNode>(LedgerNode::Options{.name = "worker:0",
                                                             .mode = mode,
                                                             .budget_bytes = budget_bytes,
                                                             .folder = folder_->path()},
                                         &no_faults_, &directory_);
    ASSERT_THAT(node_->Start(/*seed=*/1), IsOk());
    feeder_ = *Feeder::Start({});
  }

  absl::StatusOr<TrainTally> Train(const PartitionedSource& source, const std::string& feed_id,
                                   const std::string& queue = "input") {
    TrainJob job(feeder_.get(), &directory_, &source, this,
                 {.feed_id = feed_id, .queue = queue, .feed_timeout = kPatience});
    return job.Run();
  }

  void OnPartition(const PartitionProgress&) override {}
  absl::Status FeedEnd(const std::string& feed_id, bool aborted) override {
    node_->Tell(absl::StrCat(aborted ? "feed_aborted " : "feed_end ", feed_id));
    return absl::OkStatus();
  }

  TcpFaultPlan no_faults_{0, 0};
  FakeNodeDirectory directory_;
  std::optional<TempDir> folder_;
  std::unique_ptr<LedgerNode> node_;
  std::unique_ptr<Feeder> feeder_;
};

// `batches` batches of 50 rows, for each of which `wait` is asked first.
GeneratorSource Batches(int64_t epoch, int64_t batches, std::function<void(int64_t)> wait) {
  return **GeneratorSource::Create(
      LedgerRows(0, 0, 0, 1).schema(), /*num_partitions=*/1,
      [epoch, batches, wait = std::move(wait)](
          int, int64_t, int64_t batch) -> absl::StatusOr<std::optional<RecordBatch>> {
        if (batch >= batches) return std::optional<RecordBatch>();
        wait(batch);
        return std::optional(LedgerRows(epoch, 0, batch * 50, 50));
      },
      /*deterministic=*/true);
}

TEST_F(FeedProcessesTest, AQueueIsFedWhileTheCallForAnotherWaits) {
  Begin("queues");
  Notification validated;
  Notification half;
  const GeneratorSource train = Batches(0, 20, [&](int64_t batch) {
    if (batch != 10) return;
    half.Notify();
    validated.WaitForNotification();
  });
  const GeneratorSource validation = Batches(1, 4, [](int64_t) {});
  Thread training("training", [&] {
    const auto result = Train(train, "t");
    ASSERT_THAT(result, IsOk());
    EXPECT_EQ(result->rows(), 1000);
  });
  half.WaitForNotification();
  // Twice: as after each epoch.
  for (const char* feed : {"v1", "v2"}) {
    const auto result = Train(validation, feed, "validation");
    EXPECT_THAT(result, IsOk());
    EXPECT_TRUE(result.ok() && result->rows() == 200);
  }
  validated.Notify();
  training.Join();
  ASSERT_THAT(node_->End(), IsOk());
  std::map<int64_t, int64_t> handed;
  std::map<int64_t, int64_t> used;
  ASSERT_THAT(node_->CountRows(&handed, &used), IsOk());
  EXPECT_EQ(handed, used);
  EXPECT_EQ(used.size(), 1200u);
  for (const auto& [id, times] : used) EXPECT_EQ(times, id < kLedgerEpochIds ? 1 : 2) << id;
}

// Rows until the node stops, then a Next() that nobody but Cancel() ends.
class LiveSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 1; }
  bool deterministic() const override { return false; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int, int64_t) const override {
    return std::make_unique<Reader>();
  }

 private:
  class Reader final : public RecordBatchReader {
   public:
    const Schema& schema() const override { return schema_; }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (batch_ < 10) return std::optional(LedgerRows(0, 0, 50 * batch_++, 50));
      cancelled_.WaitForNotification();
      return absl::CancelledError("cancelled");
    }
    void Cancel() override {
      if (!told_.exchange(true)) cancelled_.Notify();
    }

   private:
    const Schema schema_ = LedgerRows(0, 0, 0, 1).schema();
    int64_t batch_ = 0;
    std::atomic<bool> told_{false};
    Notification cancelled_;
  };
};

// Again and again: the last words of a process that ends at once are easily lost.
TEST_F(FeedProcessesTest, AnEarlyStopEndsASourceThatWaitsForRows) {
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    Begin("stop");
    const LiveSource source;
    absl::Time stopped = absl::InfiniteFuture();
    Thread watch("watch", [&] {
      EXPECT_THAT(node_->WaitForEnd(), IsOk());
      stopped = absl::Now();
    });
    const auto result = Train(source, "t");
    const absl::Time returned = absl::Now();
    watch.Join();
    ASSERT_THAT(result, IsOk());
    EXPECT_TRUE(result->terminated);
    EXPECT_GE(result->rows(), 100);
    EXPECT_LE(result->rows(), 500);
    // A second is promised. On a machine that does ten other things it may be more.
    EXPECT_LT(returned - stopped, absl::Seconds(5));
  }
}

// A line of /proc/PID/status, in bytes.
int64_t StatusBytes(pid_t pid, const std::string& name) {
  const auto status = ReadFile(absl::StrCat("/proc/", pid, "/status"));
  EXPECT_THAT(status, IsOk());
  if (!status.ok()) return 0;
  for (const absl::string_view line : absl::StrSplit(*status, '\n')) {
    if (!absl::StartsWith(line, name + ":")) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    int64_t kib = 0;
    EXPECT_TRUE(words.size() == 3 && absl::SimpleAtoi(words[1], &kib)) << line;
    return kib * 1024;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST_F(FeedProcessesTest, MemoryOfBothEndsStaysAsConfiguredWhileAProgramSleeps) {
  constexpr int64_t kBudget = int64_t{32} << 20;
  constexpr int64_t kBatch = int64_t{1} << 20;
  // Code, stacks, allocator, and one batch under way at each place that has one.
  constexpr int64_t kSlack = int64_t{40} << 20;
  Begin("sleep", kBudget);
  const std::string name(kBatch, 'x');
  // A gigabyte, if it were let.
  std::atomic<int64_t> made{0};
  const auto rows = [&](int64_t row, const std::string& text) {
    return *BatchBuilder()
                .AddColumn("id", std::vector<int64_t>{LedgerRowId(0, 0, row)})
                .AddStrings("name", std::vector<std::string>{text})
                .Build();
  };
  const GeneratorSource source = **GeneratorSource::Create(
      rows(0, "").schema(), 1,
      [&](int, int64_t, int64_t batch) -> absl::StatusOr<std::optional<RecordBatch>> {
        if (batch == 1024) return std::optional<RecordBatch>();
        ++made;
        // The program checks the names of what it takes: of no more than 100 rows.
        return std::optional(rows(batch, batch < 100 ? LedgerRowName(batch) : name));
      },
      true);
  const int64_t before = StatusBytes(getpid(), "VmRSS");
  TrainJob job(feeder_.get(), &directory_, &source, this,
               {.feed_id = "t", .feed_timeout = kPatience});
  absl::Status status;
  Thread feed("feed", [&] { status = job.Run().status(); });
  // Until nothing moves any more.
  int64_t seen = -1;
  const absl::Time deadline = absl::Now() + kPatience;
  while (absl::Now() < deadline && (made < 110 || made != seen)) {
    seen = made;
    absl::SleepFor(absl::Seconds(1));
  }
  const int64_t feeder = StatusBytes(getpid(), "VmRSS") - before;
  const int64_t node = StatusBytes(node_->pid(), "VmHWM");
  std::printf("%lld MiB made; feeder + %lld MiB, node %lld MiB\n",
              static_cast<long long>(made - 100), static_cast<long long>(feeder >> 20),
              static_cast<long long>(node >> 20));
  EXPECT_LT(made, 100 + (kBudget + kSlack) / kBatch);
  EXPECT_LT(feeder, kBudget + kSlack);
  EXPECT_LT(node, kBudget + kSlack);
  job.Cancel(absl::AbortedError("seen enough"));
  feed.Join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(node_->End(), IsOk());
}

}  // namespace
}  // namespace millrace
