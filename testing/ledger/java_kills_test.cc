// Kills of a Java feeder, and of the node that it feeds through shared memory, in the middle of
// anything: 20 in each case, two of them of the JVM. Whatever is killed, no row is lost or changed,
// none comes again but for those that were in doubt, what is fed flows on, and nothing is left.

#include <sys/types.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/process/exit_status.h"
#include "feed/segment/segment_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/leak_check.h"
#include "testing/ledger/ledger_rows.h"
#include "testing/ledger/ledger_seeds.h"
#include "testing/ledger/peer_ledger_fixture.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(100);
constexpr int kNodes = 18;  // that are killed in each case
// The program takes so many rows at a time, and nobody has to say that there are no more.
constexpr int64_t kBite = 500;

class JavaKillsTest : public PeerLedgerFixture {
 protected:
  JavaKillsTest() {
    partitions_ = 2;
    rows_ = 250 * kBite;
    batch_rows_ = 5 * kBite;  // 50 KB
  }

  // Feeds everything, while nodes are killed and, after them, `kill_jvm`.
  FeederRun Feed(const std::string& feed_id, bool kill_jvm) {
    FeederRun run;
    auto jvm = StartFeeder(feed_id, mode_ == "whole" ? "train" : mode_);
    EXPECT_THAT(jvm, IsOk());
    if (!jvm.ok()) return run;
    // Every fourth is killed before its node is, maybe on its way to its first batch.
    int nodes = !kill_jvm ? nodes_left_ : Pick(0, 3) == 0 ? 0 : kNodes / 3;
    nodes_left_ -= nodes;
    absl::Time kill_at = nodes == 0 && kill_jvm ? absl::Now() + absl::Milliseconds(Pick(0, 700))
                                                : absl::InfiniteFuture();
    int64_t sessions = 0;  // that there were when something was killed last
    while (true) {
      const auto line = (*jvm)->WaitForLine("", std::min(kill_at - absl::Now(), kPatience));
      if (line.ok()) {
        Note(*line, &run).IgnoreError();
        // In the middle of rows.
        if (kill_at == absl::InfiniteFuture() && (nodes > 0 || (kill_jvm && !run.killed)) &&
            run.sessions > sessions) {
          kill_at = absl::Now() + absl::Milliseconds(Pick(0, 100));
        }
      } else if (!absl::IsDeadlineExceeded(line.status())) {
        break;
      } else if (absl::Now() < kill_at) {
        ADD_FAILURE() << "nothing comes from the feeder: " << line.status();
        break;
      } else if (nodes > 0) {
        // That of the connection; a session of each partition may still be leaving an earlier one.
        EXPECT_LE(MappedSegments(absl::StrCat((*jvm)->pid())), 1 + partitions_);
        KillNode(absl::Milliseconds(Pick(0, 20)));
        ++kills_;
        --nodes;
        sessions = run.sessions;
        // Every fourth time again at once, in the middle of a connection that begins.
        kill_at = nodes > 0 && Pick(0, 3) == 0 ? absl::Now() + absl::Milliseconds(Pick(0, 50))
                                               : absl::InfiniteFuture();
      } else {
        (*jvm)->Kill(SIGKILL);
        run.killed = true;
        ++kills_;
        kill_at = absl::InfiniteFuture();
      }
    }
    const auto exit = (*jvm)->Wait(kPatience);
    EXPECT_THAT(exit, IsOk());
    run.good = exit.ok() && exit->kind == ExitStatus::Kind::kExited && exit->code == 0;
    EXPECT_TRUE(run.good || run.killed) << "the JVM ended by itself";
    // With the connection its segment goes, but for what the program has.
    const std::string node = absl::StrCat(node_->pid());
    EXPECT_TRUE(Eventually([&] { return MappedSegments(node) <= 1; })) << MappedSegments(node);
    node_->Tell(absl::StrCat(run.good ? "feed_end " : "feed_aborted ", feed_id));
    return run;
  }

  // In each attempt of the node, a partition's rows come in order and without a gap, from row 0 on
  // or from one that had come before.
  void ExpectNoGap() {
    const auto logs = node_->Logs();
    ASSERT_THAT(logs, IsOk());
    for (const std::vector<int64_t>& log : *logs) {
      std::map<int64_t, int64_t> next;
      for (const int64_t id : log) {
        if (id < 0) continue;
        int64_t& row = next[id / kLedgerPartitionIds];
        ASSERT_LE(id % kLedgerPartitionIds, row)
            << "rows before " << LedgerRowName(id) << " are lost";
        row = id % kLedgerPartitionIds + 1;
      }
    }
  }

  std::string mode_;  // of the node
  int nodes_left_ = kNodes;
  int kills_ = 0;
};

TEST_P(JavaKillsTest, LoseNoRowAndLeaveNothing) {
  LeakCheck leaks;
  mode_ = GetParam() % 2 == 0 ? "inference" : "whole";
  Begin({.mode = mode_,
         .max_bite = mode_ == "whole" ? kBite : batch_rows_,
         .budget_bytes = Pick(1'000'000, 4'000'000)},
        /*faults=*/0);
  ASSERT_FALSE(HasFatalFailure());
  int64_t in_doubt = 0;
  for (const char* feed_id : {"f1", "f2"}) {
    const FeederRun run = Feed(feed_id, /*kill_jvm=*/true);
    // Some were sent, and the JVM was killed before it said so.
    in_doubt += run.sent_rows + partitions_ * batch_rows_;
  }
  const FeederRun run = Feed("f3", /*kill_jvm=*/false);
  EXPECT_THAT(run.ends, testing::IsEmpty());
  EXPECT_GT(run.batches_placed, 0);
  EXPECT_EQ(run.results_placed > 0, mode_ == "inference");
  in_doubt += run.refed;
  EXPECT_THAT(node_->End(), IsOk());
  ExpectNoGap();
  std::map<int64_t, int64_t> handed;
  std::map<int64_t, int64_t> used;
  ASSERT_THAT(node_->CountRows(&handed, &used), IsOk());
  int64_t again = 0;
  for (int64_t partition = 0; partition < partitions_; ++partition) {
    for (int64_t row = 0; row < rows_; ++row) {
      const int64_t id = LedgerRowId(0, partition, row);
      ASSERT_GE(used[id], 1) << LedgerRowName(id);
      again += handed[id] - 1;
      handed.erase(id);
    }
  }
  EXPECT_THAT(handed, testing::IsEmpty()) << "rows that nobody has fed";
  EXPECT_LE(again, in_doubt);
  std::printf("%d kills; %lld rows came again, %lld at most; %lld batches, %lld results placed\n",
              kills_, static_cast<long long>(again), static_cast<long long>(in_doubt),
              static_cast<long long>(run.batches_placed),
              static_cast<long long>(run.results_placed));
  node_.reset();
  folder_.reset();
  leaks.ExpectNothingLeft(kPatience);
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      EXPECT_FALSE(absl::StrContains(entry.path().filename().string(), "millrace-feed")) << entry;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, JavaKillsTest, ::testing::ValuesIn(LedgerSeeds(4)), LedgerSeedName);

}  // namespace
}  // namespace millrace
