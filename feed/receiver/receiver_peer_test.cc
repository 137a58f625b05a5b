// The receiver against the reference feeder, which was written from docs/feed_protocol.md alone.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "feed/receiver/receiver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/data_feed.h"
#include "testing/child_process.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

// More than the --deadline that feeders get, and less than the test's: a hang says where it is.
constexpr absl::Duration kPatience = absl::Seconds(90);

// The events of one run of the feeder.
struct FeederRun {
  int exit_code = -1;
  std::vector<Json> events;

  // The last event of that name; null if there is none.
  [[nodiscard]] Json Last(const std::string& name) const {
    Json last;
    for (const Json& event : events) {
      if (event.value("event", "") == name) last = event;
    }
    return last;
  }
  [[nodiscard]] std::string Code() const {
    const Json end = Last("end");
    return end.is_object() ? end.value("code", "") : "";
  }
};

class ReceiverPeerTest : public testing::Test {
 protected:
  void Start(int64_t budget_bytes = int64_t{256} << 20) {
    absl::StatusOr<std::unique_ptr<FeedReceiver>> receiver = FeedReceiver::Start(
        {.node_name = "worker:0", .nonce = "5b0c9e1f22d3a4b6", .budget_bytes = budget_bytes});
    ASSERT_THAT(receiver, IsOk());
    receiver_ = *std::move(receiver);
  }

  // Runs the reference feeder to its end. `arguments` are separated by spaces.
  FeederRun Feed(absl::string_view arguments) {
    FeederRun run;
    const FeedEndpoints& at = receiver_->endpoints();
    std::vector<std::string> argv = {EnvOr("REFERENCE_FEEDER", ""),
                                     "--endpoint",
                                     at.ipc,
                                     "--key",
                                     at.key,
                                     "--nonce",
                                     "5b0c9e1f22d3a4b6",
                                     "--deadline",
                                     "60"};
    for (absl::string_view argument : absl::StrSplit(arguments, ' ', absl::SkipEmpty())) {
      argv.emplace_back(argument);
    }
    absl::StatusOr<std::unique_ptr<ChildProcess>> feeder = ChildProcess::Start(argv);
    EXPECT_THAT(feeder, IsOk());
    if (!feeder.ok()) return run;
    const absl::Time deadline = absl::Now() + kPatience;
    while (true) {
      const absl::StatusOr<std::string> line = (*feeder)->WaitForLine("", deadline - absl::Now());
      if (!line.ok()) {  // the end, or the deadline
        EXPECT_THAT(line, StatusIs(absl::StatusCode::kOutOfRange)) << arguments;
        break;
      }
      absl::StatusOr<Json> event = ParseJson(*line);
      EXPECT_THAT(event, IsOk()) << *line;
      if (event.ok()) run.events.push_back(*std::move(event));
    }
    const absl::StatusOr<ExitStatus> exit = (*feeder)->Wait(deadline - absl::Now());
    EXPECT_THAT(exit, IsOk()) << arguments;
    if (exit.ok() && exit->kind == ExitStatus::Kind::kExited) run.exit_code = exit->code;
    return run;
  }

  // Ends feed "f1" and the queue once so many partitions are here, as a cluster would.
  void EndAfter(int64_t partitions) {
    const auto received = [this] { return receiver_->stats().queues[0].partitions_received; };
    EXPECT_TRUE(Eventually([&] { return received() >= partitions; }, kPatience))
        << received() << " partitions came";
    receiver_->FeedEnd("f1", false);
    receiver_->EndFeed("input");
  }

  // Reads training batches until the feed stops, and counts.
  struct Seen {
    int64_t rows = 0;
    int64_t sum = 0;  // of column "id"
    int64_t short_batches = 0;
  };
  Seen Train(int64_t batch_rows) {
    absl::StatusOr<std::unique_ptr<DataFeed>> feed = receiver_->GetDataFeed();
    EXPECT_THAT(feed, IsOk());
    Seen seen;
    while (!(*feed)->ShouldStop()) {
      absl::StatusOr<Batch> batch = (*feed)->NextBatch(batch_rows);
      EXPECT_THAT(batch, IsOk());
      if (!batch.ok() || batch->empty()) continue;
      for (int64_t id : batch->column<int64_t>("id")) seen.sum += id;
      seen.rows += batch->num_rows();
      if (batch->num_rows() < batch_rows) ++seen.short_batches;
    }
    return seen;
  }
  // Answers inference batches with what came, until the feed stops.
  void Echo(int64_t batch_rows) {
    absl::StatusOr<std::unique_ptr<DataFeed>> feed = receiver_->GetDataFeed({.train_mode = false});
    EXPECT_THAT(feed, IsOk());
    while (!(*feed)->ShouldStop()) {
      absl::StatusOr<Batch> batch = (*feed)->NextBatch(batch_rows);
      EXPECT_THAT(batch, IsOk());
      if (!batch.ok() || batch->empty()) continue;
      EXPECT_THAT((*feed)->BatchResults(batch->record_batch()), IsOk());
    }
  }

  std::unique_ptr<FeedReceiver> receiver_;
};

int64_t SumOfIds(int64_t partitions, int64_t rows) {
  int64_t sum = 0;
  for (int64_t p = 0; p < partitions; ++p) sum += p * 1'000'000 * rows + rows * (rows - 1) / 2;
  return sum;
}

TEST_F(ReceiverPeerTest, TrainsSeveralPartitionsSideBySide) {
  Start();
  Seen seen;
  Thread program("program", [&] { seen = Train(64); });
  Thread ender("ender", [&] { EndAfter(3); });
  const FeederRun run =
      Feed("--feed-id f1 --rows 1000 --partitions 3 --batch-rows 70 --null-every 5");
  ender.Join();
  program.Join();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.Last("end").value("acked", -1), 1000);
  EXPECT_EQ(seen.rows, 3000);
  EXPECT_LE(seen.short_batches, 1);
}

// What the program was not given comes again in another session, to the same node here.
TEST_F(ReceiverPeerTest, GivesBackWhatTheProgramWasNotGiven) {
  Start();
  Seen seen;
  Thread program("program", [&] { seen = Train(30); });
  Thread ender("ender", [&] { EndAfter(1); });
  const FeederRun run = Feed("--feed-id f1 --rows 1000 --batch-rows 100 --misbehave revoke");
  ender.Join();
  program.Join();
  EXPECT_EQ(run.exit_code, 0) << run.Last("end");
  EXPECT_EQ(run.Last("end").value("refed", -1), 0);
  EXPECT_TRUE(run.Last("revoked").is_object());
  EXPECT_EQ(seen.rows, 1000);
  EXPECT_EQ(seen.sum, SumOfIds(1, 1000));
}

TEST_F(ReceiverPeerTest, TrainsWithLittleCreditAndBatchesLargerThanIt) {
  Start(/*budget_bytes=*/4096);
  Seen seen;
  Thread program("program", [&] { seen = Train(5000); });
  Thread ender("ender", [&] { EndAfter(2); });
  const FeederRun run =
      Feed("--feed-id f1 --rows 4000 --partitions 2 --batch-rows 100 --columns id:int64");
  ender.Join();
  program.Join();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(seen.rows, 8000);
  EXPECT_EQ(seen.sum, SumOfIds(2, 4000));
  EXPECT_EQ(seen.short_batches, 1);
}

TEST_F(ReceiverPeerTest, AnswersEveryRowOfEveryType) {
  Start();
  Thread program("program", [&] { Echo(64); });
  const FeederRun run = Feed(
      "--mode inference --rows 500 --partitions 3 --batch-rows 37 --null-every 7 --check-results "
      "echo --columns a:bool,b:int8,c:uint64,d:float32,e:float64,f:utf8,g:binary,"
      "h:fixed_size_list<float32,3>,i:date32,j:date64,k:timestamp[ns,UTC],l:timestamp[s],"
      "m:large_utf8,n:large_binary,o:list<utf8>,p:large_list<int16>,"
      "q:fixed_size_list<fixed_size_list<float32,2>,2>,r:struct<x:float64,tags:list<utf8>>,"
      "s:list<struct<n:int8,b:bool>>,t:fixed_size_list<utf8,2> --cut-at 3 --cut-at 6");
  receiver_->EndAllFeeds();
  program.Join();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.Last("end").value("result_rows", -1), 500);
  EXPECT_TRUE(run.Last("wrong_result").is_null());
  EXPECT_EQ(receiver_->stats().queues[0].rows_returned, 1500);
}

TEST_F(ReceiverPeerTest, EmptyPartitionsAreDone) {
  Start();
  Thread program("program", [&] { Echo(64); });
  EXPECT_EQ(Feed("--mode inference --rows 0 --partitions 3").exit_code, 0);
  receiver_->EndAllFeeds();
  program.Join();
}

TEST_F(ReceiverPeerTest, ExitOfTheProgramTerminatesTheFeed) {
  Start();
  Thread program("program", [&] {
    auto feed = *receiver_->GetDataFeed();
    EXPECT_EQ(feed->NextBatch(100)->num_rows(), 100);
    EXPECT_THAT(receiver_->Finish(absl::OkStatus()), IsOk());
  });
  const FeederRun run =
      Feed("--rows 1000 --batch-rows 50 --pause-after-rows 500 --pause-seconds 30");
  program.Join();
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.Last("end").value("kind", ""), "terminated");
  EXPECT_EQ(run.Last("end").value("acked", -1), 100);
}

TEST_F(ReceiverPeerTest, MissingResultsAreTheFeedersError) {
  Start();
  Thread program("program", [&] {
    auto feed = *receiver_->GetDataFeed({.train_mode = false});
    absl::StatusOr<Batch> batch = feed->NextBatch(64);
    EXPECT_THAT(batch, IsOk());
    EXPECT_THAT(feed->BatchResults(batch->record_batch().Slice(0, 60)), IsOk());
    EXPECT_TRUE(feed->NextBatch(64)->empty());
  });
  const FeederRun run = Feed("--mode inference --rows 64 --partition 3");
  receiver_->EndAllFeeds();
  program.Join();
  EXPECT_EQ(run.Code(), "FAILED_PRECONDITION");
  EXPECT_EQ(run.Last("end").value("message", ""),
            "worker:0 returned 60 results for the 64 rows of partition 3: rows 60..63 are "
            "unanswered");
}

struct Misbehaviour {
  const char* kind;
  const char* code;  // that the feeder ends with
  bool poisons;
};

class MisbehavingPeerTest : public ReceiverPeerTest,
                            public testing::WithParamInterface<Misbehaviour> {};

TEST_P(MisbehavingPeerTest, IsToldSoAndHarmsNobodyElse) {
  Start(/*budget_bytes=*/100'000);
  Thread program("program", [&] { Echo(16); });
  const FeederRun run = Feed(absl::StrCat(
      "--mode inference --rows 2000 --batch-rows 500 --feed-timeout 10 --misbehave-at 1 "
      "--misbehave ",
      GetParam().kind));
  EXPECT_EQ(run.Code(), GetParam().code) << run.Last("end");
  EXPECT_EQ(receiver_->stats().poisoned_principals, GetParam().poisons ? 1 : 0);
  EXPECT_EQ(Feed("--mode inference --rows 50 --check-results echo").exit_code, 0);
  receiver_->EndAllFeeds();
  program.Join();
  EXPECT_EQ(receiver_->stats().queues[0].open_sessions, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, MisbehavingPeerTest,
    testing::Values(Misbehaviour{"wrong-key", "UNAUTHENTICATED", false},
                    Misbehaviour{"wrong-nonce", "FAILED_PRECONDITION", false},
                    Misbehaviour{"wrong-reply-endpoint", "UNAUTHENTICATED", false},
                    Misbehaviour{"wrong-challenge", "UNAUTHENTICATED", false},
                    Misbehaviour{"duplicate-session", "ALREADY_EXISTS", false},
                    Misbehaviour{"bad-open", "UNAUTHENTICATED", true},  // nobody to answer
                    Misbehaviour{"skip-seq", "DATA_LOSS", false},
                    Misbehaviour{"repeat-seq", "DATA_LOSS", false},
                    Misbehaviour{"bad-magic", "INVALID_ARGUMENT", true},
                    Misbehaviour{"open-mode", "INVALID_ARGUMENT", false},
                    Misbehaviour{"open-partition", "INVALID_ARGUMENT", false},
                    Misbehaviour{"bad-version", "UNIMPLEMENTED", false},
                    Misbehaviour{"old-version", "UNIMPLEMENTED", false},
                    Misbehaviour{"unknown-type", "INVALID_ARGUMENT", true},
                    Misbehaviour{"optional-type", "OK", false},
                    Misbehaviour{"revoke", "INVALID_ARGUMENT", true},  // of inference
                    Misbehaviour{"session-0", "INVALID_ARGUMENT", true},
                    Misbehaviour{"long-metadata-length", "INVALID_ARGUMENT", true},
                    Misbehaviour{"cut-buffer", "INVALID_ARGUMENT", true},
                    Misbehaviour{"short-body", "INVALID_ARGUMENT", true},
                    Misbehaviour{"huge-length", "INVALID_ARGUMENT", true},
                    Misbehaviour{"huge-buffer", "INVALID_ARGUMENT", true},
                    Misbehaviour{"garbage-batch", "INVALID_ARGUMENT", true},
                    Misbehaviour{"row-gap", "DATA_LOSS", false},
                    Misbehaviour{"second-schema", "INVALID_ARGUMENT", true},
                    Misbehaviour{"credit-frame", "INVALID_ARGUMENT", true},
                    Misbehaviour{"wrong-end-row", "DATA_LOSS", false}),
    [](const auto& info) {
      std::string name = info.param.kind;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST_F(ReceiverPeerTest, AFeederThatDoesNotWaitForItsCreditIsPoisoned) {
  Start();
  // Read in the other mode, the queue gives this session no CREDIT, however late its batches come.
  auto other = *receiver_->GetDataFeed();
  const FeederRun run = Feed("--mode inference --rows 100 --misbehave send-before-credit");
  EXPECT_EQ(run.Code(), "INVALID_ARGUMENT") << run.Last("end");
  EXPECT_EQ(receiver_->stats().poisoned_principals, 1);
  other.reset();
  Thread program("program", [&] { Echo(16); });
  EXPECT_EQ(Feed("--mode inference --rows 50 --check-results echo").exit_code, 0);
  receiver_->EndAllFeeds();
  program.Join();
}

TEST_F(ReceiverPeerTest, AFeederThatIgnoresItsCreditIsPoisoned) {
  Start(/*budget_bytes=*/20'000);
  auto feed = *receiver_->GetDataFeed();  // and does not read
  const FeederRun run = Feed("--rows 2000 --batch-rows 500 --misbehave exceed-credit");
  EXPECT_EQ(run.Code(), "INVALID_ARGUMENT") << run.Last("end");
  EXPECT_EQ(receiver_->stats().poisoned_principals, 1);
}

TEST_F(ReceiverPeerTest, AFeederThatDiesIsForgotten) {
  Start();
  Thread program("program", [&] { Echo(16); });
  EXPECT_EQ(Feed("--mode inference --rows 2000 --batch-rows 100 --exit-after-rows 500").exit_code,
            9);
  EXPECT_EQ(Feed("--mode inference --rows 50 --check-results echo").exit_code, 0);
  receiver_->EndAllFeeds();
  program.Join();
}

}  // namespace
}  // namespace millrace
