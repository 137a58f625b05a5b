// A feeder process (the reference peer's, the SDK's own or Java's, by REFERENCE_FEEDER) and the
// SDK's receiver, with broken connections between them, killed nodes and killed feeders. What must
// hold is what ledger_test.cc says, where "re-fed" is what the feeder itself counts, and all that a
// feeder had sent before it was killed. (The SDK's feeder and the reference peer's node are a
// parameter of ledger_test.cc.)

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/process/exit_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/ledger/ledger_rows.h"
#include "testing/ledger/ledger_seeds.h"
#include "testing/ledger/peer_ledger_fixture.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(90);

class PeerLedgerTest : public PeerLedgerFixture {
 protected:
  PeerLedgerTest() {
    partitions_ = Pick(1, 3);
    rows_ = Pick(1, 800);
    batch_rows_ = Pick(1, 100);
  }

  // Feeds everything. Kills the feeder after so many of its events, the node after so many. The
  // node is told of the feed's end, as by a coordinator.
  FeederRun Feed(const std::string& feed_id, const std::string& mode,
                 std::optional<int64_t> kill_feeder, std::optional<int64_t> kill_node) {
    FeederRun run;
    auto feeder = StartFeeder(feed_id, mode);
    EXPECT_THAT(feeder, IsOk());
    if (!feeder.ok()) return run;
    const absl::Time deadline = absl::Now() + kPatience;
    for (int64_t events = 0;; ++events) {
      if (events == kill_feeder) {
        (*feeder)->Kill(SIGKILL);
        run.killed = true;
      }
      if (events == kill_node) KillNode(absl::Milliseconds(Pick(0, 100)));
      const auto line = (*feeder)->WaitForLine("", deadline - absl::Now());
      if (!line.ok()) {
        EXPECT_THAT(line, StatusIs(absl::StatusCode::kOutOfRange));
        break;
      }
      const absl::StatusOr<Json> event = Note(*line, &run);
      if (event.ok() && event->value("event", "") == "feed_end") {
        node_->Tell(absl::StrCat("feed_end ", event->at("feed").get<std::string>()));
      }
    }
    const auto exit = (*feeder)->Wait(kPatience);
    EXPECT_THAT(exit, IsOk());
    run.good = exit.ok() && exit->kind == ExitStatus::Kind::kExited && exit->code == 0;
    node_->Tell(absl::StrCat(run.good ? "feed_end " : "feed_aborted ", feed_id));
    return run;
  }

  // Runs the case; true if the last feeder got everything through.
  bool Run(const std::string& mode, int64_t* in_doubt) {
    const int faults = static_cast<int>(Pick(0, 4));
    // Bites of one row: nobody tells this node that a feed has ended.
    Begin({.mode = mode, .max_bite = 1, .budget_bytes = Pick(500, 100'000)}, faults);
    if (HasFatalFailure()) return false;
    *in_doubt = 0;
    if (Pick(0, 2) == 0) {
      const FeederRun killed = Feed("f1", mode, Pick(2, 60), std::nullopt);
      *in_doubt += killed.sent_rows;
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

INSTANTIATE_TEST_SUITE_P(Seeds, PeerLedgerTest, ::testing::ValuesIn(LedgerSeeds(8)),
                         LedgerSeedName);

}  // namespace
}  // namespace millrace
