// A feeder process (the reference peer's, the SDK's own or Java's, by REFERENCE_FEEDER) and the
// SDK's receiver, with broken connections between them, killed nodes and killed feeders. What must
// hold is what ledger_test.cc says, where "re-fed" is what the feeder itself counts, and all that a
// feeder had sent before it was killed. (The SDK's feeder and the reference peer's node are a
// parameter of ledger_test.cc.)

#include <algorithm>
#include <csignal>
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
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/process/exit_status.h"
#include "core/process/process.h"
#include "feed/feeder/fake_node_directory.h"
#include "feed/feeder/node_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/ledger/ledger_node_process.h"
#include "testing/ledger/ledger_rows.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(90);

// What one run of the feeder said.
struct FeederRun {
  bool killed = false;
  bool good = false;
  int64_t refed = 0;
  std::map<int64_t, int64_t> sent;  // rows, by partition; the most of all sessions
  std::vector<std::string> ends;    // "kind CODE: message"
};

class PeerLedgerTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  int64_t Pick(int64_t from, int64_t to) {
    return from + static_cast<int64_t>(random_() % static_cast<uint64_t>(to - from + 1));
  }

  void Begin(const std::string& mode) {
    auto folder = TempDir::Create("peer_ledger");
    ASSERT_THAT(folder, IsOk());
    folder_.emplace(*std::move(folder));
    // Bites of one row: nobody tells this node that a feed has ended.
    node_ = std::make_unique<LedgerNode>(LedgerNode::Options{.name = "worker:0",
                                                             .mode = mode,
                                                             .max_bite = 1,
                                                             .budget_bytes = Pick(500, 100'000),
                                                             .folder = folder_->path()},
                                         &plan_, &directory_);
    ASSERT_THAT(node_->Start(random_()), IsOk());
  }

  // The file that the feeder looks nodes up in.
  void WriteLookup() {
    const FeedTarget target = *directory_.Lookup("worker:0");
    const Json lookup = {
        {"state", target.state == FeedTarget::State::kRunning ? "running" : "restarting"},
        {"endpoint", target.tcp_endpoint},
        {"key", target.key},
        {"nonce", target.nonce}};
    ASSERT_THAT(WriteFileAtomic(Lookup(), lookup.dump()), IsOk());
  }
  std::string Lookup() const { return JoinPath(folder_->path(), "lookup.json"); }

  // Feeds everything. Kills the feeder after so many of its events, the node after so many. The
  // node is told of the feed's end, as by a coordinator.
  FeederRun Feed(const std::string& feed_id, const std::string& mode,
                 std::optional<int64_t> kill_feeder, std::optional<int64_t> kill_node) {
    FeederRun run;
    WriteLookup();
    auto feeder = ChildProcess::Start({EnvOr("REFERENCE_FEEDER", ""),
                                       "--lookup-file",
                                       Lookup(),
                                       "--reply",
                                       "tcp",
                                       "--mode",
                                       mode,
                                       "--partitions",
                                       absl::StrCat(partitions_),
                                       "--rows",
                                       absl::StrCat(rows_),
                                       "--batch-rows",
                                       absl::StrCat(batch_rows_),
                                       "--feed-id",
                                       feed_id,
                                       "--columns",
                                       "id:int64,name:utf8",
                                       "--check-results",
                                       mode == "inference" ? "echo" : "none",
                                       "--deadline",
                                       "80",
                                       "--feed-timeout",
                                       "20"});
    EXPECT_THAT(feeder, IsOk());
    if (!feeder.ok()) return run;
    const absl::Time deadline = absl::Now() + kPatience;
    for (int64_t events = 0;; ++events) {
      if (events == kill_feeder) {
        (*feeder)->Kill(SIGKILL);
        run.killed = true;
      }
      if (events == kill_node) {
        EXPECT_THAT(node_->Kill(absl::Milliseconds(Pick(0, 100)), FeedTarget::State::kRestarting),
                    IsOk());
        WriteLookup();
        EXPECT_THAT(node_->Start(random_()), IsOk());
        WriteLookup();
      }
      const auto line = (*feeder)->WaitForLine("", deadline - absl::Now());
      if (!line.ok()) {
        EXPECT_THAT(line, StatusIs(absl::StatusCode::kOutOfRange));
        break;
      }
      const absl::StatusOr<Json> event = ParseJson(*line);
      if (!event.ok()) continue;  // cut by a kill
      if (event->value("event", "") == "feed_end") {
        node_->Tell(absl::StrCat("feed_end ", event->at("feed").get<std::string>()));
      }
      Note(*event, &run);
    }
    const auto exit = (*feeder)->Wait(kPatience);
    EXPECT_THAT(exit, IsOk());
    run.good = exit.ok() && exit->kind == ExitStatus::Kind::kExited && exit->code == 0;
    node_->Tell(absl::StrCat(run.good ? "feed_end " : "feed_aborted ", feed_id));
    return run;
  }

  static void Note(const Json& event, FeederRun* run) {
    const std::string name = event.value("event", "");
    EXPECT_NE(name, "poisoned") << event.dump();
    EXPECT_NE(name, "wrong_result") << event.dump();
    if (name == "sent") {
      int64_t& sent = run->sent[event.at("partition")];
      sent = std::max(sent, event.at("row").get<int64_t>());
    }
    if (name == "end") {
      run->refed += event.at("refed").get<int64_t>();
      if (event.at("kind") != "done") {
        run->ends.push_back(absl::StrCat(event.value("kind", ""), " ", event.value("code", ""),
                                         ": ", event.value("message", "")));
      }
    }
  }

  // Runs the case; true if the last feeder got everything through.
  bool Run(const std::string& mode, int64_t* in_doubt) {
    Begin(mode);
    if (HasFatalFailure()) return false;
    *in_doubt = 0;
    if (Pick(0, 2) == 0) {
      const FeederRun killed = Feed("f1", mode, Pick(2, 60), std::nullopt);
      for (const auto& [partition, rows] : killed.sent) *in_doubt += rows;
      // Sent, and killed before it said so.
      if (killed.killed) *in_doubt += partitions_ * batch_rows_;
      *in_doubt += killed.refed;
      if (killed.good) *in_doubt = partitions_ * rows_ + killed.refed;
    }
    const std::optional<int64_t> kill_node =
        Pick(0, 2) == 0 ? std::optional(Pick(2, 60)) : std::nullopt;
    const FeederRun run = Feed("f2", mode, std::nullopt, kill_node);
    *in_doubt += run.refed;
    EXPECT_THAT(node_->End(), IsOk());
    std::printf("seed %llu: %lld x %lld rows, %d faults; %s, at most %lld twice\n",
                static_cast<unsigned long long>(GetParam()), static_cast<long long>(partitions_),
                static_cast<long long>(rows_), node_->faults(), run.good ? "good" : "failed",
                static_cast<long long>(*in_doubt));
    for (const std::string& end : run.ends) std::printf("  %s\n", end.c_str());
    EXPECT_EQ(run.good, run.ends.empty());
    return run.good;
  }

  std::mt19937_64 random_{GetParam()};
  int64_t partitions_ = Pick(1, 3);
  int64_t rows_ = Pick(1, 800);
  int64_t batch_rows_ = Pick(1, 100);
  TcpFaultPlan plan_{GetParam() * 5 + 3, static_cast<int>(Pick(0, 4))};
  FakeNodeDirectory directory_;
  std::optional<TempDir> folder_;
  std::unique_ptr<LedgerNode> node_;
};

TEST_P(PeerLedgerTest, EveryRowThatItTrainsOnIsAccountedFor) {
  int64_t in_doubt = 0;
  if (!Run("train", &in_doubt)) return;
  std::map<int64_t, int64_t> handed;
  std::map<int64_t, int64_t> used;
  ASSERT_THAT(node_->CountRows(&handed, &used), IsOk());
  int64_t again = 0;
  for (int64_t p = 0; p < partitions_; ++p) {
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t id = LedgerRowId(0, p, row);
      ASSERT_GE(used[id], 1) << "row " << row << " of partition " << p;
      again += handed[id] - 1;
      handed.erase(id);
    }
  }
  EXPECT_THAT(handed, testing::IsEmpty()) << "rows that nobody has fed";
  EXPECT_LE(again, in_doubt);
}

// --check-results is the feeder's own: it exits with 1 where a result is missing or wrong.
TEST_P(PeerLedgerTest, EveryRowThatItAsksAboutHasOneResult) {
  int64_t in_doubt = 0;
  static_cast<void>(Run("inference", &in_doubt));
}

std::vector<uint64_t> Seeds() {
  uint64_t seed = 0;
  if (absl::SimpleAtoi(EnvOr("LEDGER_SEED", ""), &seed)) return {seed};
  uint64_t cases = 0;
  if (!absl::SimpleAtoi(EnvOr("LEDGER_CASES", ""), &cases)) cases = 8;
  std::vector<uint64_t> seeds;
  for (uint64_t i = 1; i <= cases; ++i) seeds.push_back(i);
  return seeds;
}

INSTANTIATE_TEST_SUITE_P(Seeds, PeerLedgerTest, ::testing::ValuesIn(Seeds()),
                         [](const auto& info) { return absl::StrCat("Seed", info.param); });

}  // namespace
}  // namespace millrace
