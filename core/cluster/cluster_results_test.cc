// Results that are read while rows are fed: InferenceResult::Open.

#include <stdlib.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/cluster/cluster_rows_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/cluster.h"
#include "millrace/local_launcher.h"
#include "millrace/source.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kBatchRows = 1000;

RecordBatch Column(std::vector<int64_t> x) {
  BatchBuilder builder;
  builder.AddColumn("x", x);
  return *builder.Build();
}

using Generated = absl::StatusOr<std::optional<RecordBatch>>;

// Rows x = 0, 1, ... without end in each of two partitions.
std::shared_ptr<const PartitionedSource> EndlessRows() {
  return *GeneratorSource::Create(
      Column({0}).schema(), /*num_partitions=*/2,
      [](int, int64_t, int64_t batch) -> Generated {
        std::vector<int64_t> x(kBatchRows);
        std::iota(x.begin(), x.end(), batch * kBatchRows);
        return std::optional(Column(std::move(x)));
      },
      /*deterministic=*/true);
}

// Ten rows in one partition, and in the other one, after `go`, what the program does not like.
std::shared_ptr<const PartitionedSource> RowsThatFail(const Notification& go) {
  return *GeneratorSource::Create(
      Column({0}).schema(), /*num_partitions=*/2,
      [&go](int partition, int64_t, int64_t batch) -> Generated {
        if (batch > 0) return std::optional<RecordBatch>();
        if (partition == 0) return std::optional(Column({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
        go.WaitForNotification();
        return std::optional(Column({-1}));
      },
      /*deterministic=*/true);
}

// Ten rows in one partition, and in the other one none until it is cancelled.
class WaitingSource final : public PartitionedSource {
 public:
  int num_partitions() const override { return 2; }
  bool deterministic() const override { return true; }
  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int partition, int64_t) const override {
    return std::make_unique<Reader>(partition == 1);
  }

 private:
  class Reader final : public RecordBatchReader {
   public:
    explicit Reader(bool waits) : waits_(waits) {}
    const Schema& schema() const override { return rows_.schema(); }
    absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (!waits_) return std::exchange(begun_, true) ? std::nullopt : std::optional(rows_);
      cancelled_.WaitForNotification();
      return absl::CancelledError("no row has come");
    }
    void Cancel() override { cancelled_.Notify(); }

   private:
    const bool waits_;
    const RecordBatch rows_ = Column({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    bool begun_ = false;
    Notification cancelled_;
  };
};

class ClusterResultsTest : public ::testing::Test {
 protected:
  ClusterResultsTest() {
    ::setenv("MILLRACE_CLUSTERS_DIR", JoinPath(::testing::TempDir(), "clusters").c_str(), 1);
  }

  // Of two nodes that answer.
  void Start() {
    NodeProgram program = NodeProgram::File(
        absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/cluster_test_node"));
    program.Args({"sum"});
    absl::StatusOr<std::unique_ptr<Cluster>> cluster =
        Cluster::Run(launcher_, program, {.num_executors = 2, .input_mode = InputMode::kFeed});
    ASSERT_THAT(cluster, IsOk());
    cluster_ = *std::move(cluster);
    ASSERT_THAT(cluster_->EndFeed(), IsOk());
  }

  absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(
      std::shared_ptr<const PartitionedSource> source, const InferenceOptions& options = {}) {
    absl::StatusOr<InferenceResult> result = cluster_->Inference(std::move(source), options);
    if (!result.ok()) return result.status();
    return result->Open();  // the result goes, and the reader stays
  }

  // Reads `rows` rows, or all: 0, 2, 4, ... Returns the status it ends with.
  static absl::Status ReadDoubled(RecordBatchReader& reader, int64_t rows, int64_t* row) {
    while (*row < rows) {
      auto next = reader.Next();
      if (!next.ok()) return next.status();
      if (!next->has_value()) return absl::OkStatus();
      const Batch batch = *Batch::Create(**next);
      for (const int64_t value : batch.column<int64_t>("doubled")) EXPECT_EQ(value, 2 * (*row)++);
    }
    return absl::OkStatus();
  }

  // Nothing of a call before is in the way.
  void ExpectAnswers() {
    int64_t row = 0;
    auto reader = Open(std::make_shared<MemorySource>(Rows(333, 7)));
    ASSERT_THAT(reader, IsOk());
    EXPECT_THAT(ReadDoubled(**reader, INT64_MAX, &row), IsOk());
    EXPECT_EQ(row, 333);
    EXPECT_FALSE((*(*reader)->Next()).has_value()) << "the end stays";
  }

  LocalLauncher launcher_;
  std::unique_ptr<Cluster> cluster_;
};

TEST_F(ClusterResultsTest, AreReadInOrderWhileRowsAreFedAndMayBeLeft) {
  Start();
  auto reader = Open(EndlessRows());
  ASSERT_THAT(reader, IsOk());
  EXPECT_EQ((*reader)->schema().num_columns(), 1);
  int64_t row = 0;
  EXPECT_THAT(ReadDoubled(**reader, 3 * kBatchRows, &row), IsOk());
  EXPECT_GE(row, 3 * kBatchRows);
  reader->reset();
  ExpectAnswers();
  auto unread = Open(EndlessRows());
  ASSERT_THAT(unread, IsOk());
  unread->reset();
  ExpectAnswers();
  auto none = Open(std::make_shared<MemorySource>(Rows(0, 1)));
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ((*none)->schema().num_columns(), 0);
  EXPECT_FALSE((*(*none)->Next()).has_value());
  EXPECT_THAT(cluster_->Shutdown(), IsOk());
}

TEST_F(ClusterResultsTest, EndWithTheClusterThatTheyMayOutlive) {
  for (const bool shut_down : {true, false}) {
    Start();
    auto reader = Open(EndlessRows());
    ASSERT_THAT(reader, IsOk());
    ASSERT_THAT((*reader)->Next(), IsOk());
    if (shut_down) EXPECT_THAT(cluster_->Shutdown(), IsOk());
    cluster_.reset();
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT((*reader)->Next(),
                  StatusIs(absl::StatusCode::kCancelled,
                           HasSubstr(shut_down ? "the results were not all read: the cluster is "
                                                 "being shut down"
                                               : "the cluster is gone")));
    }
    (*reader)->Cancel();
  }
}

TEST_F(ClusterResultsTest, WhoWaitsForThemIsWokenByTheEndOfTheCluster) {
  Start();
  auto reader = Open(std::make_shared<WaitingSource>());
  ASSERT_THAT(reader, IsOk());
  int64_t row = 0;
  ASSERT_THAT(ReadDoubled(**reader, 10, &row), IsOk());
  absl::Status status;
  Thread waiting("waiting", [&] { status = (*reader)->Next().status(); });
  EXPECT_THAT(cluster_->Shutdown(), IsOk());
  waiting.Join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("being shut down")));
}

TEST_F(ClusterResultsTest, CancelAndAStopRequestEndThem) {
  Start();
  StopRequest stop;
  auto stopped = Open(std::make_shared<WaitingSource>(), {.stop_request = &stop});
  ASSERT_THAT(stopped, IsOk());
  stop.Request("enough");
  int64_t row = 0;
  EXPECT_THAT(ReadDoubled(**stopped, INT64_MAX, &row),
              StatusIs(absl::StatusCode::kCancelled, "enough"));
  auto cancelled = Open(std::make_shared<WaitingSource>());
  ASSERT_THAT(cancelled, IsOk());
  (*cancelled)->Cancel();
  row = 0;
  EXPECT_THAT(ReadDoubled(**cancelled, INT64_MAX, &row),
              StatusIs(absl::StatusCode::kCancelled, HasSubstr("nobody reads")));
  ExpectAnswers();
  EXPECT_THAT(cluster_->Shutdown(), IsOk());
}

TEST_F(ClusterResultsTest, AFailureHalfWayIsTheErrorOfTheRead) {
  Start();
  Notification go;
  auto reader = Open(RowsThatFail(go));
  ASSERT_THAT(reader, IsOk());
  int64_t row = 0;
  EXPECT_THAT(ReadDoubled(**reader, 10, &row), IsOk());
  go.Notify();
  const absl::Status status = ReadDoubled(**reader, INT64_MAX, &row);
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("worker:"), HasSubstr("cannot double a negative number"))));
  EXPECT_EQ((*reader)->Next().status(), status) << "errors stay";
  EXPECT_EQ(cluster_->Shutdown(), status);
}

}  // namespace
}  // namespace millrace
