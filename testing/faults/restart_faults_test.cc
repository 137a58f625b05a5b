// Nodes and agents that fail and are started again, and what becomes of their rows.

#include <signal.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/golden_text.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class RestartFaultsTest : public FaultTest {
 protected:
  RestartFaultsTest() { gone_within_ = absl::Seconds(5); }

  // Restarts soon after a failure, and never a quarantine.
  ClusterOptions HealingOptions(int num_executors, int max_restarts) {
    ClusterOptions options = Options(num_executors);
    options.failure.restart = {.max_restarts = max_restarts,
                               .initial_backoff = absl::Milliseconds(20),
                               .max_backoff = absl::Milliseconds(50)};
    options.failure.quarantine.failures = 1000;
    return options;
  }

  // Where nodes record the rows that they trained with.
  std::string MakeRecordFolder() {
    const std::string folder = JoinPath(leaks_.folder(), "record");
    ::mkdir(folder.c_str(), 0755);
    leaks_.AllowPath("record");
    return folder;
  }

  // Slow enough for what is killed while it is fed to be killed before everything is read.
  static NodeProgram SlowProgram(const std::string& record) {
    return Program("", "", {"--pause_ms=20", absl::StrCat("--record=", record)});
  }

  // How often each row was given to a program.
  static std::map<int64_t, int> ReadRecords(const std::string& folder) {
    std::map<int64_t, int> rows;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string bytes = ReadFile(entry.path().string()).value_or("");
      for (size_t i = 0; i + sizeof(int64_t) <= bytes.size(); i += sizeof(int64_t)) {
        int64_t id = 0;
        std::memcpy(&id, bytes.data() + i, sizeof(id));
        ++rows[id];
      }
    }
    return rows;
  }

  // Every row was trained with, and those of which a program had a second copy are counted.
  static void ExpectAccounted(const std::map<int64_t, int>& rows, int64_t count,
                              const TrainResult& result) {
    ASSERT_EQ(static_cast<int64_t>(rows.size()), count);
    EXPECT_EQ(rows.begin()->first, 0);
    EXPECT_EQ(rows.rbegin()->first, count - 1);
    int64_t extra = 0;
    for (const auto& [id, times] : rows) extra += times - 1;
    EXPECT_LE(extra, result.rows_refed);
    EXPECT_EQ(result.rows, count);
  }

  bool WaitForAttempt(int executor_id, uint32_t attempt) {
    return log_.WaitForSlot(executor_id, [attempt](const SlotStatus& slot) {
      return slot.attempt >= attempt && slot.state == SlotState::kRunning && slot.has_feed;
    });
  }

  static void Kill(int64_t pid, int signal) {
    ASSERT_GT(pid, 1);
    ::kill(static_cast<pid_t>(pid), signal);
  }
};

// ---- nodes --------------------------------------------------------------------------------------

TEST_F(RestartFaultsTest, AWorkerKilledWhileItIsFedIsStartedAgainAndEveryRowArrives) {
  constexpr int64_t kRows = 20000;
  const std::string record = MakeRecordFolder();
  ClusterOptions options = HealingOptions(2, 1);
  options.log_dir = JoinPath(leaks_.folder(), "logs");
  leaks_.AllowPath("logs");
  auto cluster = Run(options, SlowProgram(record));
  ASSERT_THAT(cluster, IsOk());
  absl::StatusOr<TrainResult> result = absl::UnknownError("not run");
  Thread train("train", [&] { result = (*cluster)->Train(RowSource(kRows, 8)); });
  EXPECT_TRUE(log_.WaitForLine("worker:1", "fed"));
  Kill(NodePid(**cluster, 1), SIGKILL);
  train.Join();
  ASSERT_THAT(result, IsOk());
  EXPECT_GT(result->rows_refed, 0);
  EXPECT_FALSE(result->exactly_once);
  ExpectAccounted(ReadRecords(record), kRows, *result);

  const SlotStatus slot = (*cluster)->Status().slots[1];
  EXPECT_EQ(slot.attempt, 1u);
  EXPECT_EQ(slot.restarts, 1);
  EXPECT_EQ(slot.max_restarts, 1);
  EXPECT_EQ((*cluster)->Status().epoch, 2u);
  // The peer was told, and each attempt has a log of its own.
  EXPECT_TRUE(log_.WaitForLine("worker:0", "member worker:1 attempt 1 epoch 2"));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
  EXPECT_THAT(ReadFile(JoinPath(options.log_dir, "worker-1.0.log")).value_or(""),
              HasSubstr("started"));
  EXPECT_THAT(ReadFile(JoinPath(options.log_dir, "worker-1.1.log")).value_or(""),
              HasSubstr("started"));
}

TEST_F(RestartFaultsTest, WorkersKilledAtRandomTimesLoseNoRow) {
  constexpr int64_t kRows = 20000;
  constexpr int kKills = 6;
  const std::string record = MakeRecordFolder();
  auto cluster = Run(HealingOptions(2, 1000), SlowProgram(record));
  ASSERT_THAT(cluster, IsOk());
  absl::StatusOr<TrainResult> result = absl::UnknownError("not run");
  Thread train("train", [&] { result = (*cluster)->Train(RowSource(kRows, 16)); });
  EXPECT_TRUE(log_.WaitForLine("", "fed"));
  for (int i = 0; i < kKills; ++i) {
    // Any moment: while it reads, while it starts, while its peer is being started too.
    absl::SleepFor(absl::Milliseconds(RandomU64() % 400));
    const int64_t pid = NodePid(**cluster, static_cast<int>(RandomU64() % 2));
    if (pid > 1) ::kill(static_cast<pid_t>(pid), SIGKILL);
  }
  train.Join();
  ASSERT_THAT(result, IsOk());
  ExpectAccounted(ReadRecords(record), kRows, *result);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(RestartFaultsTest, InferenceOnARestartedNodeStillAnswersEachRowOnce) {
  constexpr int64_t kRows = 10000;
  auto cluster = Run(HealingOptions(2, 1), Program("", "", {"--pause_ms=20"}));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_THAT((*cluster)->Train(RowSource(100, 4), {.end_of_feed = true}), IsOk());
  absl::Status status;
  std::vector<int64_t> doubled;
  Thread infer("infer", [&] {
    auto result = (*cluster)->Inference(std::make_shared<MemorySource>(RowSource(kRows, 8)));
    status = result.status();
    if (!result.ok()) return;
    status = result->ForEach([&](int, const RecordBatch& rows) {
      const auto* values = rows.column(0).values<int64_t>();
      doubled.insert(doubled.end(), values, values + rows.num_rows());
      return absl::OkStatus();
    });
  });
  EXPECT_TRUE(log_.WaitForLine("worker:1", "inferring"));
  Kill(NodePid(**cluster, 1), SIGKILL);
  infer.Join();
  ASSERT_THAT(status, IsOk());
  ASSERT_EQ(static_cast<int64_t>(doubled.size()), kRows);
  for (int64_t i = 0; i < kRows; ++i) ASSERT_EQ(doubled[static_cast<size_t>(i)], 2 * i);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(RestartFaultsTest, AStoppedNodeIsStartedAgainAfterItsTimeout) {
  ClusterOptions options = HealingOptions(2, 1);
  options.failure.stop_timeout = absl::Seconds(1);
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  const int64_t stopped = NodePid(**cluster, 1);
  Kill(stopped, SIGSTOP);
  EXPECT_TRUE(WaitForAttempt(1, 1));
  EXPECT_NE(NodePid(**cluster, 1), stopped);
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(RestartFaultsTest, TheGrandchildrenOfAFailedAttemptAreGoneBeforeTheNext) {
  auto cluster = Run(HealingOptions(2, 1), Program("grandchild", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  const std::string line = log_.Line("worker:1", "grandchild ");
  const auto pid = static_cast<pid_t>(std::stoi(line.substr(line.rfind(' ') + 1)));
  EXPECT_EQ(::kill(pid, 0), 0);
  Kill(NodePid(**cluster, 1), SIGKILL);
  EXPECT_TRUE(WaitForAttempt(1, 1));
  EXPECT_EQ(::kill(pid, 0), -1);
  ExpectTrainsAndShutsDown(**cluster);
}

// ---- agents -------------------------------------------------------------------------------------

TEST_F(RestartFaultsTest, AKilledAgentIsReplacedAndEveryRowArrives) {
  constexpr int64_t kRows = 20000;
  const std::string record = MakeRecordFolder();
  auto cluster = Run(HealingOptions(2, 1), SlowProgram(record));
  ASSERT_THAT(cluster, IsOk());
  absl::StatusOr<TrainResult> result = absl::UnknownError("not run");
  Thread train("train", [&] { result = (*cluster)->Train(RowSource(kRows, 8)); });
  EXPECT_TRUE(log_.WaitForLine("worker:1", "fed"));
  const int64_t before = AgentPid(**cluster, 1);
  Kill(before, SIGKILL);
  train.Join();
  ASSERT_THAT(result, IsOk());
  ExpectAccounted(ReadRecords(record), kRows, *result);
  EXPECT_EQ((*cluster)->Status().slots[1].attempt, 1u);
  EXPECT_NE(AgentPid(**cluster, 1), before);
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}), IsOk());
}

TEST_F(RestartFaultsTest, AnAgentThatHangsIsKilledAndReplacedAfterItsLease) {
  auto cluster = Run(HealingOptions(2, 1), Program());
  ASSERT_THAT(cluster, IsOk());
  const int64_t before = AgentPid(**cluster, 1);
  Kill(before, SIGSTOP);
  EXPECT_TRUE(WaitForAttempt(1, 1));
  EXPECT_EQ(::kill(static_cast<pid_t>(before), 0), -1);
  ExpectTrainsAndShutsDown(**cluster);
}

// ---- the end of healing -------------------------------------------------------------------------

TEST_F(RestartFaultsTest, WhenTheBudgetIsUsedTheErrorTellsEveryAttempt) {
  auto cluster = Run(HealingOptions(2, 2), Program("exit_in_feed", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  const absl::Status status = (*cluster)->Train(EndlessSource(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(
      GoldenText(std::string(status.message())),
      StartsWith("worker:1 (executor 1, attempt 2, host HOST, pid PID) exited with code 1; not "
                 "restarted: 2 of 2 restarts used; before: attempt 0 exited with code 1, attempt 1 "
                 "exited with code 1. Last stderr line: 'the disk is full of cheese'"));
}

TEST_F(RestartFaultsTest, AfterThreeFailuresInAMinuteANodeIsNotStartedAgain) {
  ClusterOptions options = HealingOptions(2, 10);
  options.failure.quarantine = {};
  auto cluster = Run(options, Program("exit_in_feed", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  const absl::Status status = (*cluster)->Train(EndlessSource(4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(GoldenText(std::string(status.message())),
              HasSubstr("attempt 2, host HOST, pid PID) exited with code 1; not restarted: 3 "
                        "failures of worker:1 in 60 s, where quarantine begins, 2 of 10 restarts "
                        "used; before: "));
}

TEST_F(RestartFaultsTest, OnlyTheRolesWithABudgetAreStartedAgain) {
  ClusterOptions options = HealingOptions(3, 0);
  options.num_ps = 1;
  options.failure.restart_by_job["worker"] = options.failure.restart;
  options.failure.restart_by_job["worker"].max_restarts = 1;
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  Kill(NodePid(**cluster, 1), SIGKILL);
  EXPECT_TRUE(WaitForAttempt(1, 1));
  Kill(NodePid(**cluster, 0), SIGKILL);
  EXPECT_TRUE(
      log_.WaitForSlot(0, [](const SlotStatus& slot) { return slot.state == SlotState::kFailed; }));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              StatusIs(absl::StatusCode::kAborted, HasSubstr("ps:0 (executor 0, attempt 0")));
}

TEST_F(RestartFaultsTest, AShutdownThatCutsARestartShortReturnsTheFailure) {
  ClusterOptions options = HealingOptions(2, 1);
  options.failure.restart.initial_backoff = options.failure.restart.max_backoff = absl::Hours(1);
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  Kill(NodePid(**cluster, 1), SIGKILL);
  EXPECT_TRUE(
      log_.WaitForSlot(1, [](const SlotStatus& slot) { return slot.restart_at.has_value(); }));
  EXPECT_THAT((*cluster)->Shutdown({.grace = absl::Seconds(1), .timeout = kPatience}),
              StatusIs(absl::StatusCode::kAborted,
                       HasSubstr("was killed by SIGKILL (if nobody did that, its host was short of "
                                 "memory: see dmesg there); not restarted: the cluster was stopped "
                                 "before its next attempt")));
}

}  // namespace
}  // namespace millrace::faults
