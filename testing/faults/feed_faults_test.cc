// Nodes and sources that go wrong while rows travel.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/source.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/golden_text.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// The feed_timeout of calls that wait in vain. All that comes before must happen in less, also on a
// busy machine.
constexpr absl::Duration kInVain = absl::Seconds(10);

auto DoesNotRead(const std::string& mode) {
  return FailsWith(absl::StatusCode::kDeadlineExceeded,
                   absl::StrCat("worker:0 did not begin to read partition 0 (queue 'input') for "
                                "10s: 1 session is before it and did not advance; the program is "
                                "not reading this queue in ",
                                mode, " mode"));
}

class FeedFaultsTest : public FaultTest {
 protected:
  // Trains on 100 rows, so that every node goes on to inference, then asks for results.
  static absl::StatusOr<std::vector<RecordBatch>> TrainThenInfer(
      Cluster& cluster, const MemorySource& source, const InferenceOptions& options = {}) {
    EXPECT_THAT(cluster.Train(RowSource(100, 4), {.feed_timeout = kPatience, .end_of_feed = true}),
                IsOk());
    absl::StatusOr<InferenceResult> result =
        cluster.Inference(std::make_shared<MemorySource>(source), options);
    if (!result.ok()) return result.status();
    return result->Collect();
  }
};

// ---- a node that ends ---------------------------------------------------------------------------

const char kExitedInFeed[] =
    "worker:1 (executor 1, attempt 0, host HOST, pid PID) exited with code 1. Last stderr line: "
    "'the "
    "disk is full of cheese'";

TEST_F(FeedFaultsTest, ANodeThatExitsWhileItIsFedFailsTheCall) {
  auto cluster = Run(2, "exit_in_feed", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(EndlessSource(4), {.feed_timeout = kPatience}),
              FailsWith(absl::StatusCode::kAborted, kExitedInFeed));
  EXPECT_THAT((*cluster)->Train(RowSource(10, 1)),
              FailsWith(absl::StatusCode::kAborted, kExitedInFeed));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              FailsWith(absl::StatusCode::kAborted, kExitedInFeed));
}

TEST_F(FeedFaultsTest, ANodeThatExitsAfterItsDataEndedIsTheShutdownsError) {
  auto cluster = Run(2, "exit_after_feed", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(RowSource(100, 4)), IsOk());
  const std::string line =
      "worker:1 (executor 1, attempt 0, host HOST, pid PID) exited with code 1. Last stderr line: "
      "'cannot save the model'";
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              FailsWith(absl::StatusCode::kAborted, line));
  EXPECT_THAT((*cluster)->Shutdown(), FailsWith(absl::StatusCode::kAborted, line));
}

TEST_F(FeedFaultsTest, AnErrorThatAProgramReturnsWhileItIsFedReachesTheDriverWithItsCode) {
  auto cluster = Run(2, "error_in_feed", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(
      (*cluster)->Train(EndlessSource(4), {.feed_timeout = kPatience}),
      FailsWith(absl::StatusCode::kInvalidArgument,
                "worker:1 (executor 1, attempt 0, host HOST, pid PID) failed with "
                "INVALID_ARGUMENT: the learning rate is 7, over 1 (it exited with code 1). "
                "Last stderr line: 'millrace: worker:1: INVALID_ARGUMENT: the learning rate "
                "is 7, over 1'"));
}

TEST_F(FeedFaultsTest, ANodeThatExitsInInferenceFailsTheCall) {
  auto cluster = Run(2, "exit_in_inference", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(TrainThenInfer(**cluster, RowSource(1000, 8)),
              FailsWith(absl::StatusCode::kAborted,
                        "worker:1 (executor 1, attempt 0, host HOST, pid PID) exited with code 1. "
                        "Last stderr line: 'the model has too many legs'"));
}

TEST_F(FeedFaultsTest, ANodeThatExitsWith0WhileItIsFedLeavesItsRowsToTheOthers) {
  auto cluster = Run(2, "exit0_in_feed", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  const auto result = (*cluster)->Train(RowSource(1000, 8), {.feed_timeout = kPatience});
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows, 1000);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(FeedFaultsTest, WhenAllNodesExitWith0TheCallIsTerminated) {
  auto cluster = Run(2, "exit0_in_feed");
  ASSERT_THAT(cluster, IsOk());
  const auto result = (*cluster)->Train(EndlessSource(4), {.feed_timeout = kPatience});
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->terminated);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(FeedFaultsTest, ExitCode0WithAnOpenInferenceSessionIsAnError) {
  auto cluster = Run(1, "exit0_in_inference");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(
      TrainThenInfer(**cluster, RowSource(100, 1)),
      FailsWith(absl::StatusCode::kFailedPrecondition,
                "worker:0 (executor 0, attempt 0, host HOST, pid PID) failed with "
                "FAILED_PRECONDITION: worker:0 returned 0 results for the 64 rows of "
                "partition 0: rows 0..63 are unanswered (it exited with code 1). Last stderr "
                "line: 'millrace: worker:0: FAILED_PRECONDITION: worker:0 returned 0 results "
                "for the 64 rows of partition 0: rows 0..63 are unanswered'"));
}

// ---- Terminate ----------------------------------------------------------------------------------

TEST_F(FeedFaultsTest, AfterTerminateTheRestGoesToTheOthers) {
  auto cluster = Run(2, "terminate", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  const auto result = (*cluster)->Train(RowSource(1000, 8), {.feed_timeout = kPatience});
  ASSERT_THAT(result, IsOk());
  EXPECT_FALSE(result->terminated);
  EXPECT_EQ(result->rows, 1000);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(FeedFaultsTest, WhenAllTerminateAnEndlessSourceIsLeftAndTheCallIsFine) {
  auto cluster = Run(2, "terminate");
  ASSERT_THAT(cluster, IsOk());
  const auto result = (*cluster)->Train(EndlessSource(4), {.feed_timeout = kPatience});
  ASSERT_THAT(result, IsOk());
  EXPECT_TRUE(result->terminated);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

// ---- a node that does not do its part -----------------------------------------------------------

TEST_F(FeedFaultsTest, ANodeThatNeverReadsEndsInATimeoutThoughItsQueueSendsWait) {
  auto cluster = Run(1, "never_reads");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT((*cluster)->Train(RowSource(1000, 4), {.feed_timeout = kInVain}),
              DoesNotRead("train"));
  EXPECT_THAT(
      (*cluster)->Shutdown({.grace = absl::Milliseconds(1), .timeout = kPatience}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("its grace of 1ms was over")));
}

TEST_F(FeedFaultsTest, ANodeThatStopsReadingEndsInATimeout) {
  auto cluster = Run(2, "stops_reading", "worker:1");
  ASSERT_THAT(cluster, IsOk());
  // It was given 64 rows of a partition; the rest of it goes to worker:0, unless the time is up
  // before.
  const auto result = (*cluster)->Train(RowSource(1000, 4), {.feed_timeout = kInVain});
  EXPECT_THAT(result.status(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(
      GoldenText(result.status().message()),
      MatchesRegex("worker:1 acknowledged no row of partition [0-3] \\(queue 'input'\\) for "
                   "10s: (64|250) rows received, 0 acknowledged; the program is not calling "
                   "NextBatch"));
  EXPECT_THAT(
      (*cluster)->Shutdown({.grace = absl::Milliseconds(1), .timeout = kPatience}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("its grace of 1ms was over")));
}

TEST_F(FeedFaultsTest, ANodeThatNeverAnswersEndsInATimeout) {
  auto cluster = Run(1, "never_answers");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(
      TrainThenInfer(**cluster, RowSource(100, 1), {.feed_timeout = kInVain}),
      FailsWith(absl::StatusCode::kDeadlineExceeded,
                "worker:0 received 100 rows of partition 0 (queue 'input') and returned none "
                "for 10s: 100 rows sent, 0 returned; the program is not calling "
                "BatchResults"));
  EXPECT_THAT(
      (*cluster)->Shutdown({.grace = absl::Milliseconds(1), .timeout = kPatience}),
      StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("its grace of 1ms was over")));
}

TEST_F(FeedFaultsTest, InferenceOnANodeThatStillTrainsEndsInATimeout) {
  auto cluster = Run(1);
  ASSERT_THAT(cluster, IsOk());
  auto result = (*cluster)->Inference(std::make_shared<MemorySource>(RowSource(100, 1)),
                                      {.feed_timeout = kInVain});
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(result->Collect(), DoesNotRead("inference"));
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(FeedFaultsTest, TooFewResultsAreAnErrorThatNamesTheRows) {
  auto cluster = Run(1, "too_few_results");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(
      TrainThenInfer(**cluster, RowSource(100, 1)),
      FailsWith(absl::StatusCode::kFailedPrecondition,
                "worker:0, partition 0 (queue 'input'): worker:0 returned 98 results for the 100 "
                "rows of partition 0: rows 98..99 are unanswered"));
}

TEST_F(FeedFaultsTest, TooManyResultsAreAnErrorThatNamesTheRows) {
  auto cluster = Run(1, "too_many_results");
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(TrainThenInfer(**cluster, RowSource(100, 1)),
              FailsWith(absl::StatusCode::kFailedPrecondition,
                        "worker:0 (executor 0, attempt 0, host HOST, pid PID) failed with "
                        "FAILED_PRECONDITION: worker:0 returned 65 results for the 64 rows of "
                        "partition 0 that it had: 1 too many (it exited with code 1). Last stderr "
                        "line: 'millrace: worker:0: FAILED_PRECONDITION: worker:0 returned 65 "
                        "results for the 64 rows of partition 0 that it had: 1 too many'"));
}

TEST_F(FeedFaultsTest, ABarrierNamesTheParticipantThatLeft) {
  auto cluster = Run(3, "barrier", "worker:1");
  // The others return the barrier's error soon after they run: either call may see it.
  const absl::Status status =
      cluster.ok() ? (*cluster)->Shutdown({.timeout = kPatience}) : cluster.status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
  EXPECT_THAT(
      GoldenText(status.message()),
      MatchesRegex("worker:([02]) \\(executor [02], attempt 0, host HOST, pid PID\\) failed "
                   "with ABORTED: barrier 'meeting': worker:1 has finished \\(it exited with "
                   "code 1\\)(; also failed: worker:[02] failed with ABORTED: [^.]*)?\\. Last "
                   "stderr line: 'millrace: "
                   "worker:[02]: ABORTED: barrier 'meeting': worker:1 has finished'"));
}

// ---- a source that goes wrong -------------------------------------------------------------------

// The second partition fails after some rows.
class BrokenSource final : public PartitionedSource {
 public:
  [[nodiscard]] int num_partitions() const override { return 4; }
  [[nodiscard]] absl::StatusOr<std::unique_ptr<RecordBatchReader>> Open(int partition,
                                                                        int64_t) const override {
    return std::make_unique<Reader>(partition == 1);
  }
  [[nodiscard]] bool deterministic() const override { return true; }

 private:
  class Reader final : public RecordBatchReader {
   public:
    explicit Reader(bool fails) : fails_(fails) {}
    [[nodiscard]] const Schema& schema() const override { return batch_.schema(); }
    [[nodiscard]] absl::StatusOr<std::optional<RecordBatch>> Next() override {
      if (++calls_ == 1) return batch_;
      if (fails_) return absl::DataLossError("rows.parquet: bad page header at byte 4096");
      return std::nullopt;
    }

   private:
    const bool fails_;
    const RecordBatch batch_ = MakeRows(0, 50);
    int calls_ = 0;
  };
};

TEST_F(FeedFaultsTest, ASourceThatFailsIsNamedAndTheClusterTrainsAgain) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT((*cluster)->Train(BrokenSource()),
                FailsWith(absl::StatusCode::kDataLoss,
                          "the source, partition 1, epoch 0, after row 50: rows.parquet: bad page "
                          "header at byte 4096"));
  }
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(FeedFaultsTest, ABadCsvLineIsNamedAndTheClusterTrainsAgain) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  CsvSourceOptions options;
  options.num_partitions = 2;
  options.types = {{"id", Type::Int64()}};
  auto source = CsvSource::FromText("id\n1\n2\n3\nfour\n5\n6\n", options, "rows.csv");
  const absl::Status status = source.ok() ? (*cluster)->Train(**source).status() : source.status();
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kInvalidArgument,
                                "the source, partition 1, epoch 0, after row 0: rows.csv:5: column "
                                "\"id\": \"four\" is not an int64"));
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(FeedFaultsTest, AnErrorOfTheConsumerEndsInferenceAndTheClusterGoesOn) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT(
      (*cluster)->Train(RowSource(100, 4), {.feed_timeout = kPatience, .end_of_feed = true}),
      IsOk());
  auto result = (*cluster)->Inference(std::make_shared<EndlessSource>(4));
  ASSERT_THAT(result, IsOk());
  EXPECT_THAT(
      result->ForEach([](int, const RecordBatch&) { return absl::OutOfRangeError("enough"); }),
      FailsWith(absl::StatusCode::kOutOfRange, "enough"));
  auto again = (*cluster)->Inference(std::make_shared<MemorySource>(RowSource(100, 4)));
  ASSERT_THAT(again, IsOk());
  EXPECT_THAT(again->Collect(), IsOk());
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(FeedFaultsTest, TrainingAfterTheEndOfTheFeedIsRefused) {
  auto cluster = Run(1);
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT(
      (*cluster)->Train(RowSource(100, 4), {.feed_timeout = kPatience, .end_of_feed = true}),
      IsOk());
  EXPECT_THAT(
      (*cluster)->Train(RowSource(100, 4)),
      FailsWith(absl::StatusCode::kFailedPrecondition,
                "training on queue 'input' has ended (EndFeed, or end_of_feed of an earlier "
                "call)"));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

}  // namespace
}  // namespace millrace::faults
