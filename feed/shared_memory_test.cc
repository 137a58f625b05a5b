// Rows through memory that a node shares with its feeders (docs/feed_protocol.md, section 10): both
// ends in one process, and each killed in a process of its own, `--kills=10000` of each by hand.

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "feed/feeder/feeder.h"
#include "feed/feeder/node_directory.h"
#include "feed/receiver/data_feed.h"
#include "feed/receiver/receiver.h"
#include "feed/segment/segment_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/batch.h"
#include "millrace/batch_builder.h"
#include "millrace/record_batch.h"
#include "millrace/status_macros.h"
#include "testing/child_process.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kRows = 2000;
constexpr char kNonce[] = "a1";

std::string TextOf(int64_t row) { return absl::StrCat("row ", row, std::string(row % 17, '.')); }

// Rows `first` to `first` + kRows - 1: about 100 KB.
RecordBatch Rows(int64_t first) {
  std::vector<int64_t> ids;
  std::vector<std::string> texts;
  for (int64_t row = first; row < first + kRows; ++row) {
    ids.push_back(row);
    texts.push_back(TextOf(row));
  }
  return *BatchBuilder().AddColumn("id", ids).AddStrings("text", texts).Build();
}

// Whether `batch` holds rows from `first` on.
testing::AssertionResult Holds(const Batch& batch, int64_t first) {
  const auto ids = batch.column<int64_t>("id");
  const StringColumn texts = batch.strings("text");
  for (int64_t i = 0; i < batch.num_rows(); ++i) {
    const auto at = static_cast<size_t>(i);
    if (ids[at] != first + i || texts[at] != TextOf(first + i)) {
      return testing::AssertionFailure() << "row " << first + i << " is " << ids[at];
    }
  }
  return testing::AssertionSuccess();
}

std::unique_ptr<FeedReceiver> StartNode(int64_t budget_bytes, bool shared_memory = true) {
  auto receiver = FeedReceiver::Start({.node_name = "worker:0",
                                       .nonce = kNonce,
                                       .budget_bytes = budget_bytes,
                                       .shared_memory = shared_memory,
                                       .shared_min_bytes = 1});
  EXPECT_THAT(receiver, IsOk());
  return *std::move(receiver);
}

FeedTarget TargetOf(const FeedEndpoints& endpoints) {
  return {.node = "worker:0",
          .nonce = kNonce,
          .ipc_endpoint = endpoints.ipc,
          .tcp_endpoint = endpoints.tcp,
          .key = endpoints.key};
}

std::unique_ptr<Feeder> StartFeeder(bool shared_memory = true) {
  auto feeder = Feeder::Start({.shared_memory = shared_memory, .shared_min_bytes = 1});
  EXPECT_THAT(feeder, IsOk());
  return *std::move(feeder);
}

std::shared_ptr<FeedSession> Open(Feeder& feeder, const FeedTarget& target,
                                  const std::string& feed_id = "f1") {
  auto session = feeder.OpenSession(target, {.feed_id = feed_id});
  EXPECT_THAT(session, IsOk());
  return *std::move(session);
}

// Sends batches until `placed` more of them have gone through shared memory, `most` at most.
absl::StatusOr<int64_t> SendUntilPlaced(const Feeder& feeder, FeedSession& session, int64_t placed,
                                        int64_t most = 5000) {
  const int64_t goal = feeder.stats().batches_placed + placed;
  int64_t sent = 0;
  while (sent < most && feeder.stats().batches_placed < goal) {
    MILLRACE_RETURN_IF_ERROR(session.Send(Rows(sent * kRows)));
    ++sent;
  }
  return sent * kRows;
}

TEST(SharedMemoryTest, RowsComeAsTheyWereSent) {
  const auto node = StartNode(4 * kMiB);
  const auto feed = *node->GetDataFeed();
  const auto feeder = StartFeeder();
  const auto session = Open(*feeder, TargetOf(node->endpoints()));
  Thread sender("sender", [&] {
    const absl::StatusOr<int64_t> rows = SendUntilPlaced(*feeder, *session, 100);
    ASSERT_THAT(rows, IsOk());
    ASSERT_THAT(session->Finish(*rows), IsOk());
    ASSERT_THAT(session->WaitReceived(), IsOk());
    node->FeedEnd("f1", false);
  });
  int64_t row = 0;
  for (int64_t i = 0;; ++i) {
    // Slices of a batch, whole batches, and several joined.
    const absl::StatusOr<Batch> batch = feed->NextBatch(i % 3 == 0   ? 300
                                                        : i % 3 == 1 ? kRows
                                                                     : 4999);
    ASSERT_THAT(batch, IsOk());
    ASSERT_TRUE(Holds(*batch, row));
    row += batch->num_rows();
    if (session->state().end_row == row) break;
  }
  sender.Join();
  node->EndAllFeeds();
  EXPECT_TRUE(feed->ShouldStop());
  EXPECT_THAT(session->WaitDone(), IsOk());
  EXPECT_GE(node->stats().queues[0].batches_placed, 100);
  EXPECT_EQ(node->stats().why_not_shared, "");
}

// What is kept takes up the room and not the credit: the rest comes through the socket.
TEST(SharedMemoryTest, AProgramMayKeepEveryBatch) {
  const auto node = StartNode(2 * kMiB);
  const auto feed = *node->GetDataFeed();
  const auto feeder = StartFeeder();
  const auto session = Open(*feeder, TargetOf(node->endpoints()));
  constexpr int64_t kBatches = 200;
  Thread sender("sender", [&] {
    for (int64_t i = 0; i < kBatches; ++i) ASSERT_THAT(session->Send(Rows(i * kRows)), IsOk());
    ASSERT_THAT(session->Finish(kBatches * kRows), IsOk());
  });
  std::vector<Batch> kept;
  for (int64_t i = 0; i < kBatches; ++i) {
    absl::StatusOr<Batch> batch = feed->NextBatch(kRows);
    ASSERT_THAT(batch, IsOk());
    kept.push_back(*std::move(batch));
  }
  sender.Join();
  for (int64_t i = 0; i < kBatches; ++i) {
    ASSERT_TRUE(Holds(kept[static_cast<size_t>(i)], i * kRows));
  }
  EXPECT_LE(node->stats().queues[0].batches_placed, 2 * kMiB / (kRows * 20));
  // With the memory the room comes back.
  kept.clear();
  node->FeedEnd("f1", false);
  const auto next = Open(*feeder, TargetOf(node->endpoints()), "f2");
  Thread again("sender", [&] {
    const absl::StatusOr<int64_t> rows = SendUntilPlaced(*feeder, *next, 50);
    ASSERT_THAT(rows, IsOk());
    EXPECT_LT(*rows, 5000 * kRows);
    ASSERT_THAT(next->Finish(*rows), IsOk());
    ASSERT_THAT(next->WaitReceived(), IsOk());
    node->EndAllFeeds();
  });
  int64_t row = 0;
  while (!feed->ShouldStop()) {
    const absl::StatusOr<Batch> batch = feed->NextBatch(kRows);
    ASSERT_THAT(batch, IsOk());
    ASSERT_TRUE(Holds(*batch, row));
    row += batch->num_rows();
  }
}

// Rows that come through the socket all the same.
TEST(SharedMemoryTest, WhereOneSideDoesNotShareTheSocketServes) {
  for (const bool node_shares : {false, true}) {
    const auto node = StartNode(2 * kMiB, node_shares);
    const auto feed = *node->GetDataFeed();
    const auto feeder = StartFeeder(!node_shares);
    const auto session = Open(*feeder, TargetOf(node->endpoints()));
    Thread sender("sender", [&] {
      for (int64_t i = 0; i < 50; ++i) ASSERT_THAT(session->Send(Rows(i * kRows)), IsOk());
      ASSERT_THAT(session->Finish(50 * kRows), IsOk());
    });
    for (int64_t i = 0; i < 50; ++i) {
      const absl::StatusOr<Batch> batch = feed->NextBatch(kRows);
      ASSERT_THAT(batch, IsOk());
      ASSERT_TRUE(Holds(*batch, i * kRows));
    }
    sender.Join();
    EXPECT_EQ(feeder->stats().batches_placed, 0);
    EXPECT_EQ(node->stats().queues[0].batches_placed, 0);
  }
}

// Only the first session of a connection has to wait for the feeder to map the memory.
TEST(SharedMemoryTest, LaterSessionsHaveRoomBeforeTheirFirstCredit) {
  const auto node = StartNode(4 * kMiB);
  const auto feed = *node->GetDataFeed();
  const auto feeder = StartFeeder();
  Thread program("program", [&] {
    while (!feed->ShouldStop()) ASSERT_THAT(feed->NextBatch(kRows), IsOk());
  });
  const auto end_feeds = absl::MakeCleanup([&] { node->EndAllFeeds(); });
  for (int i = 0; i < 10; ++i) {
    const std::string id = absl::StrCat("f", i);
    const auto session = Open(*feeder, TargetOf(node->endpoints()), id);
    const int64_t placed = feeder->stats().batches_placed;
    const absl::StatusOr<int64_t> rows = SendUntilPlaced(*feeder, *session, 1);
    ASSERT_THAT(rows, IsOk());
    EXPECT_TRUE(i == 0 || *rows == kRows) << *rows << " rows of session " << i;
    EXPECT_EQ(feeder->stats().batches_placed, placed + 1);
    ASSERT_THAT(session->Finish(*rows), IsOk());
    ASSERT_THAT(session->WaitReceived(), IsOk());
    node->FeedEnd(id, false);
    ASSERT_THAT(session->WaitDone(), IsOk());
  }
}

// Room that a session was granted and has not used is granted again, however the session ends:
// otherwise a few of these sessions would take it all.
TEST(SharedMemoryTest, RoomOfSessionsThatEndIsUsedAgain) {
  const auto node = StartNode(2 * kMiB);
  const auto feed = *node->GetDataFeed();
  const auto feeder = StartFeeder();
  Thread program("program", [&] {
    while (!feed->ShouldStop()) ASSERT_THAT(feed->NextBatch(kRows), IsOk());
  });
  // Also where the test ends early: the program ends then.
  const auto end_feeds = absl::MakeCleanup([&] { node->EndAllFeeds(); });
  for (int i = 0; i < 60; ++i) {
    const std::string id = absl::StrCat("f", i);
    const auto session = Open(*feeder, TargetOf(node->endpoints()), id);
    const absl::StatusOr<int64_t> rows = SendUntilPlaced(*feeder, *session, 3, 1000);
    ASSERT_THAT(rows, IsOk());
    ASSERT_LT(*rows, 1000 * kRows) << "no room is left for session " << i;
    if (i % 4 == 0) {  // by the feeder
      session->Abort(absl::CancelledError("enough"));
      node->FeedEnd(id, true);
    } else if (i % 4 == 1) {  // by the feeder, which takes the rest back
      session->Revoke(INT64_MAX);
      absl::Status sent;
      for (int64_t row = *rows; sent.ok(); row += kRows) sent = session->Send(Rows(row));
      EXPECT_THAT(sent, StatusIs(absl::StatusCode::kAborted));
      node->FeedEnd(id, false);
    } else if (i % 4 == 2) {  // by the node
      node->FeedEnd(id, true);
      EXPECT_FALSE(session->Finish(*rows).ok() && session->WaitDone().ok());
    } else {  // as it should
      ASSERT_THAT(session->Finish(*rows), IsOk());
      ASSERT_THAT(session->WaitReceived(), IsOk());
      node->FeedEnd(id, false);
      ASSERT_THAT(session->WaitDone(), IsOk());
    }
  }
}

// Answers each row with itself until the feed ends.
void Echo(DataFeed& feed) {
  while (!feed.ShouldStop()) {
    const absl::StatusOr<Batch> batch = feed.NextBatch(kRows);
    ASSERT_THAT(batch, IsOk());
    if (batch->empty()) return;
    ASSERT_THAT(feed.BatchResults(batch->record_batch()), IsOk());
  }
}

// Results that are kept as long as the feeder likes, and room that serves one session after another
// however these end.
TEST(SharedMemoryTest, ResultsComeBackAsTheyWereGiven) {
  const auto node = StartNode(2 * kMiB);
  const auto feed = *node->GetDataFeed({.train_mode = false});
  const auto feeder = StartFeeder();
  Thread program("program", [&] { Echo(*feed); });
  const auto end_feeds = absl::MakeCleanup([&] { node->EndAllFeeds(); });
  for (int i = 0; i < 30; ++i) {
    const auto session =
        *feeder->OpenSession(TargetOf(node->endpoints()),
                             {.feed_id = absl::StrCat("f", i), .mode = FeedMode::kInference});
    const int64_t goal = feeder->stats().results_placed + 5;
    std::vector<RecordBatch> kept;
    int64_t row = 0;
    while (feeder->stats().results_placed < goal) {
      ASSERT_LT(row, 1000 * kRows) << "no result of session " << i << " is placed";
      ASSERT_THAT(session->Send(Rows(row)), IsOk());
      absl::StatusOr<std::optional<RecordBatch>> result = session->NextResult();
      ASSERT_TRUE(result.ok() && result->has_value()) << result.status();
      kept.push_back(**std::move(result));
      row += kRows;
    }
    if (i % 3 == 0) {
      session->Abort(absl::CancelledError("enough"));
    } else {
      // Of the last ones none is taken until all are done.
      for (int k = 0; k < 3; ++k, row += kRows) ASSERT_THAT(session->Send(Rows(row)), IsOk());
      ASSERT_THAT(session->Finish(row), IsOk());
      if (i % 3 == 1) {
        ASSERT_THAT(session->WaitDone(), IsOk());
      }
      while (true) {
        absl::StatusOr<std::optional<RecordBatch>> result = session->NextResult();
        ASSERT_THAT(result, IsOk());
        if (!result->has_value()) break;
        kept.push_back(**std::move(result));
      }
    }
    int64_t first = 0;
    for (RecordBatch& result : kept) {
      const int64_t rows = result.num_rows();
      ASSERT_TRUE(Holds(*Batch::Create(std::move(result)), first));
      first += rows;
    }
    EXPECT_EQ(first, row);
  }
}

// ---------------------------------------------------------------------- Processes that are killed

// How often each side is killed; `--kills` changes it.
int kills = 50;

// `--feeder=ipc,tcp,key,feed`: feeds until it is killed.
int FeedForEver(const std::string& argument) {
  const std::vector<std::string> words = absl::StrSplit(argument, ',');
  const auto feeder = StartFeeder();
  const auto session =
      Open(*feeder, TargetOf({.tcp = words[1], .ipc = words[0], .key = words[2]}), words[3]);
  for (int64_t row = 0;; row += kRows) {
    if (!session->Send(Rows(row)).ok()) return 1;
    if (feeder->stats().batches_placed == 3) std::cout << "placed" << std::endl;
  }
}

// `--node`: reads until it is killed; `--echo`: and answers.
int ReadForEver(bool echo) {
  const auto node = StartNode(2 * kMiB);
  const auto feed = *node->GetDataFeed({.train_mode = !echo});
  const FeedEndpoints& endpoints = node->endpoints();
  std::cout << "at " << endpoints.ipc << "," << endpoints.tcp << "," << endpoints.key << std::endl;
  while (true) {
    const absl::StatusOr<Batch> batch = feed->NextBatch(kRows);
    if (!batch.ok() || (echo && !feed->BatchResults(batch->record_batch()).ok())) return 1;
  }
}

constexpr char kSelf[] = "/proc/self/exe";

// ------------------------------------------------------------- Feeders that cannot map the memory

constexpr uid_t kNobody = 65'534;

int Cannot(absl::string_view what) {
  std::cout << "cannot " << what << ": " << std::strerror(errno) << std::endl;
  return 0;
}

// `--nobody`: feeds as another user or, in a sandbox that has no other, without the rights over the
// node that root has.
int FeedAsNobody(const std::string& argument) {
  if (setresuid(kNobody, kNobody, kNobody) != 0 && unshare(CLONE_NEWUSER) != 0) {
    return Cannot("become another user");
  }
  std::cout << "feeds" << std::endl;
  return FeedForEver(argument);
}

// `--elsewhere`: feeds from a PID namespace of its own, as from another container.
int FeedFromElsewhere(const std::string& argument) {
  if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return Cannot("make a PID namespace");
  const pid_t child = fork();
  if (child < 0) return Cannot("fork");
  if (child > 0) return waitpid(child, nullptr, 0) == child ? 0 : 1;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("proc", "/proc", "proc", 0, nullptr) != 0) {
    return Cannot("mount /proc");
  }
  std::cout << "feeds" << std::endl;
  return FeedForEver(argument);
}

// Reads rows of a feeder that is started with `--<how>=`, and returns why they do not come through
// shared memory; nullopt if the feeder cannot be had here.
std::optional<std::string> WhyNotShared(const std::string& how) {
  const auto node = StartNode(2 * kMiB);
  const auto feed = *node->GetDataFeed();
  const FeedEndpoints& endpoints = node->endpoints();
  auto child = ChildProcess::Start({kSelf, absl::StrCat("--", how, "=", endpoints.ipc, ",",
                                                        endpoints.tcp, ",", endpoints.key, ",f1")});
  EXPECT_THAT(child, IsOk());
  const absl::StatusOr<std::string> line = (*child)->WaitForLine("", absl::Seconds(60));
  EXPECT_THAT(line, IsOk());
  if (absl::StartsWith(*line, "cannot")) {
    std::cout << *line << "\n";
    return std::nullopt;
  }
  for (int64_t row = 0; row < 50 * kRows; row += kRows) {
    const absl::StatusOr<Batch> batch = feed->NextBatch(kRows);
    EXPECT_THAT(batch, IsOk());
    EXPECT_TRUE(Holds(*batch, row));
  }
  EXPECT_EQ(node->stats().queues[0].batches_placed, 0);
  return node->stats().why_not_shared;
}

TEST(SharedMemoryTest, AnotherUsersRowsComeThroughTheSocketAndTheNodeSaysWhy) {
  // To one without these rights it is as if this process were another user's.
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
  const auto restore = absl::MakeCleanup([] { prctl(PR_SET_DUMPABLE, 1); });
  const std::optional<std::string> why = WhyNotShared("nobody");
  if (!why.has_value()) GTEST_SKIP() << "no other user can be had here";
  EXPECT_THAT(*why, HasSubstr("may not be opened: the node runs as another user"));
}

TEST(SharedMemoryTest, AnotherContainersRowsComeThroughTheSocketAndTheNodeSaysWhy) {
  const std::optional<std::string> why = WhyNotShared("elsewhere");
  if (!why.has_value()) GTEST_SKIP() << "no PID namespace can be had here";
  EXPECT_THAT(*why, HasSubstr("the node runs in another PID namespace"));
}

TEST(SharedMemoryTest, KilledFeedersLoseNoRowThatCameAndLeaveNothing) {
  const int before = OpenDescriptors();
  auto node = StartNode(2 * kMiB);
  auto feed = *node->GetDataFeed();
  const FeedEndpoints endpoints = node->endpoints();
  std::vector<Batch> kept;  // outlives its feeder, and the node
  int64_t first_kept = 0;
  for (int round = 0; round < kills; ++round) {
    const std::string id = absl::StrCat("f", round);
    auto child =
        ChildProcess::Start({kSelf, absl::StrCat("--feeder=", endpoints.ipc, ",", endpoints.tcp,
                                                 ",", endpoints.key, ",", id)});
    ASSERT_THAT(child, IsOk());
    // Every fifth is killed somewhere on its way to the first batch.
    const bool early = round % 5 == 4;
    if (early) absl::SleepFor(absl::Milliseconds(round * 7 % 100));
    const int64_t placed = node->stats().queues[0].batches_placed + 3 + round % 7;
    int64_t row = 0;
    // What is kept has to lie there: before it come rows that had no room yet.
    bool keeps = round % 10 != 0;
    while (!early && (!keeps || node->stats().queues[0].batches_placed < placed)) {
      absl::StatusOr<Batch> batch = feed->NextBatch(kRows);
      ASSERT_THAT(batch, IsOk());
      ASSERT_TRUE(Holds(*batch, row));
      if (round % 10 == 0) {
        keeps = LiesInSegment(batch->column<int64_t>("id").data());
        kept = {*std::move(batch)};
        first_kept = row;
      }
      row += kRows;
    }
    (*child)->Kill(SIGKILL);
    ASSERT_THAT((*child)->Wait(absl::Seconds(60)), IsOk());
    node->FeedEnd(id, true);
  }
  // That of what is kept, and that of the batch that the program had last.
  EXPECT_TRUE(Eventually([] { return MappedSegments() <= 2; })) << MappedSegments();
  feed.reset();
  node.reset();
  EXPECT_EQ(MappedSegments(), 1);
  EXPECT_TRUE(Holds(kept[0], first_kept));
  kept.clear();
  EXPECT_EQ(MappedSegments(), 0);
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= before; })) << OpenDescriptors();
}

TEST(SharedMemoryTest, KilledNodesBreakTheirSessionsAndLeaveNothing) {
  const auto feeder = StartFeeder();
  const int before = OpenDescriptors();
  for (int round = 0; round < kills; ++round) {
    auto child = ChildProcess::Start({kSelf, "--node"});
    ASSERT_THAT(child, IsOk());
    const absl::StatusOr<std::string> line = (*child)->WaitForLine("at ", absl::Seconds(60));
    ASSERT_THAT(line, IsOk());
    const std::vector<std::string> words = absl::StrSplit(line->substr(3), ',');
    const auto session =
        Open(*feeder, TargetOf({.tcp = words[1], .ipc = words[0], .key = words[2]}));
    // Every fifth is killed before it has read a row.
    const int64_t placed = round % 5 == 4 ? 0 : 2 + round % 7;
    ASSERT_THAT(SendUntilPlaced(*feeder, *session, placed), IsOk());
    (*child)->Kill(SIGKILL);
    int64_t row = session->state().sent_rows;
    while (session->Send(Rows(row)).ok()) row += kRows;  // into memory whose owner is gone
    EXPECT_EQ(session->state().end, SessionEnd::kBroken);
    ASSERT_THAT((*child)->Wait(absl::Seconds(60)), IsOk());
  }
  EXPECT_TRUE(Eventually([&] { return MappedSegments() == 0 && OpenDescriptors() <= before; }));
}

// In the middle of results that come through memory of theirs.
TEST(SharedMemoryTest, KilledNodesBreakInferenceAndLeaveNothing) {
  const auto feeder = StartFeeder();
  const int before = OpenDescriptors();
  for (int round = 0; round < kills; ++round) {
    auto child = ChildProcess::Start({kSelf, "--echo"});
    ASSERT_THAT(child, IsOk());
    const absl::StatusOr<std::string> line = (*child)->WaitForLine("at ", absl::Seconds(60));
    ASSERT_THAT(line, IsOk());
    const std::vector<std::string> words = absl::StrSplit(line->substr(3), ',');
    const auto session =
        *feeder->OpenSession(TargetOf({.tcp = words[1], .ipc = words[0], .key = words[2]}),
                             {.feed_id = "f1", .mode = FeedMode::kInference});
    const int64_t goal = feeder->stats().results_placed + 1 + round % 7;
    int64_t row = 0;
    for (int64_t sent = 0;; sent += kRows) {
      if (!session->Send(Rows(sent)).ok()) break;
      if (feeder->stats().results_placed >= goal) (*child)->Kill(SIGKILL);
      // Every third leaves some where they are.
      if (round % 3 == 0 && sent % (4 * kRows) != 0) continue;
      absl::StatusOr<std::optional<RecordBatch>> result = session->NextResult();
      if (!result.ok()) break;
      ASSERT_TRUE(result->has_value());
      const int64_t rows = (*result)->num_rows();
      ASSERT_TRUE(Holds(*Batch::Create(**std::move(result)), row));
      row += rows;
    }
    EXPECT_EQ(session->state().end, SessionEnd::kBroken) << session->state().status;
    ASSERT_THAT((*child)->Wait(absl::Seconds(60)), IsOk());
  }
  EXPECT_TRUE(Eventually([&] { return MappedSegments() == 0 && OpenDescriptors() <= before; }));
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const std::string argument = argc > 1 ? argv[1] : "";
  if (argument.rfind("--feeder=", 0) == 0) return millrace::FeedForEver(argument.substr(9));
  if (argument == "--node" || argument == "--echo") {
    return millrace::ReadForEver(/*echo=*/argument == "--echo");
  }
  if (argument.rfind("--nobody=", 0) == 0) return millrace::FeedAsNobody(argument.substr(9));
  if (argument.rfind("--elsewhere=", 0) == 0) {
    return millrace::FeedFromElsewhere(argument.substr(12));
  }
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const absl::string_view flag = argv[i];
    if (absl::StartsWith(flag, "--kills=") && !absl::SimpleAtoi(flag.substr(8), &millrace::kills)) {
      std::cerr << flag << " is no number\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
