// SIGKILL and SIGSTOP of every kind of process, in every phase.

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_matchers.h"
#include "core/base/thread.h"
#include "core/client/cluster_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/faults/fault_test.h"
#include "testing/faults/golden_text.h"
#include "testing/faults/rows.h"

namespace millrace::faults {
namespace {

using ::testing::AnyOf;
using ::testing::SizeIs;

// What the specification allows after a SIGKILL.
constexpr absl::Duration kGoneAfterKill = absl::Seconds(5);

const char kWorkerKilled[] =
    "worker:1 (executor 1, attempt 0, host HOST, pid PID) was killed by SIGKILL (if nobody did "
    "that, its "
    "host was short of memory: see dmesg there)";

class KillFaultsTest : public FaultTest {
 protected:
  KillFaultsTest() { gone_within_ = kGoneAfterKill; }

  // Runs `call` on the cluster, kills when `ready` returns, and returns what the call did.
  template <typename Call>
  static absl::Status Interrupt(const std::function<bool()>& ready,
                                const std::function<void()>& kill, const Call& call) {
    absl::Status status;
    Thread caller("caller", [&] { status = call(); });
    EXPECT_TRUE(ready());
    kill();
    caller.Join();
    return status;
  }

  absl::Status KillWhileFeeding(Cluster& cluster, const std::function<void()>& kill) {
    return Interrupt(
        [&] { return log_.WaitForLine("worker:0", "fed") && log_.WaitForLine("worker:1", "fed"); },
        kill, [&] { return cluster.Train(EndlessSource(4)).status(); });
  }

  absl::Status KillWhileInferring(Cluster& cluster, const std::function<void()>& kill) {
    EXPECT_THAT(cluster.Train(RowSource(100, 4), {.end_of_feed = true}), IsOk());
    return Interrupt(
        [&] {
          return log_.WaitForLine("worker:0", "inferring") &&
                 log_.WaitForLine("worker:1", "inferring");
        },
        kill,
        [&]() -> absl::Status {
          absl::StatusOr<InferenceResult> result =
              cluster.Inference(std::make_shared<EndlessSource>(4));
          if (!result.ok()) return result.status();
          return result->ForEach([](int, const RecordBatch&) { return absl::OkStatus(); });
        });
  }

  static std::function<void()> KillNode(const Cluster& cluster, int executor_id) {
    return [&cluster, executor_id] {
      const int64_t pid = NodePid(cluster, executor_id);
      ASSERT_GT(pid, 1);
      ::kill(static_cast<pid_t>(pid), SIGKILL);
    };
  }
  static std::function<void()> KillAgent(const Cluster& cluster, int executor_id) {
    return [&cluster, executor_id] {
      const int64_t pid = AgentPid(cluster, executor_id);
      ASSERT_GT(pid, 1);
      ::kill(static_cast<pid_t>(pid), SIGKILL);
    };
  }
};

// ---- a worker -----------------------------------------------------------------------------------

TEST_F(KillFaultsTest, AWorkerKilledWhileNothingIsFedFailsTheNextCall) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  KillNode(**cluster, 1)();
  EXPECT_TRUE(
      log_.WaitForSlot(1, [](const SlotStatus& slot) { return slot.state == SlotState::kFailed; }));
  EXPECT_THAT((*cluster)->Train(RowSource(10, 1)),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
}

TEST_F(KillFaultsTest, AWorkerKilledWhileItIsFedFailsTheCall) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(KillWhileFeeding(**cluster, KillNode(**cluster, 1)),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
  EXPECT_THAT((*cluster)->Train(RowSource(10, 1)),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
}

TEST_F(KillFaultsTest, AWorkerKilledInInferenceFailsTheCall) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(KillWhileInferring(**cluster, KillNode(**cluster, 1)),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
}

TEST_F(KillFaultsTest, AWorkerKilledDuringShutdownIsTheShutdownsError) {
  ClusterOptions options = Options(2);
  options.failure.stop_grace = absl::Hours(1);
  auto cluster = Run(options, Program("ignores_stop", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(log_.WaitForLine("worker:1", "started"));
  // Not asked to stop: the data has ended, and it is waited for.
  const absl::Status status = Interrupt(
      [&] {
        return log_.WaitForSlot(0, [](const SlotStatus& slot) { return IsEnded(slot.state); });
      },
      KillNode(**cluster, 1), [&] { return (*cluster)->Shutdown({.timeout = kPatience}); });
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
}

TEST_F(KillFaultsTest, AClusterWhoseWorkerWasKilledNeedsNoShutdown) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(KillWhileFeeding(**cluster, KillNode(**cluster, 1)),
              FailsWith(absl::StatusCode::kAborted, kWorkerKilled));
}

// ---- the parameter server -----------------------------------------------------------------------

TEST_F(KillFaultsTest, AParameterServerKilledWhileWorkersNeedItIsTheCauseAndTheyAreNot) {
  ClusterOptions options = Options(3);
  options.num_ps = 1;
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  const absl::Status status = KillWhileFeeding(**cluster, KillNode(**cluster, 0));
  const char* const killed =
      "ps:0 (executor 0, attempt 0, host HOST, pid PID) was killed by SIGKILL";
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kAborted, ::testing::HasSubstr("ps:0 (executor 0")));
  EXPECT_THAT(GoldenText(status.message()), ::testing::StartsWith(killed));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              StatusIs(absl::StatusCode::kAborted, ::testing::HasSubstr("was killed by SIGKILL")));
}

TEST_F(KillFaultsTest, AParameterServerKilledInInferenceFailsTheCall) {
  ClusterOptions options = Options(3);
  options.num_ps = 1;
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(
      KillWhileInferring(**cluster, KillNode(**cluster, 0)),
      FailsWith(absl::StatusCode::kAborted,
                "ps:0 (executor 0, attempt 0, host HOST, pid PID) was killed by SIGKILL (if "
                "nobody did that, its host was short of memory: see dmesg there)"));
}

// ---- an agent -----------------------------------------------------------------------------------

const char kAgentKilled[] =
    "worker:1 (executor 1, attempt 0, host HOST, pid PID) was lost: its agent was killed by "
    "SIGKILL "
    "(if nobody did that, its host was short of memory: see dmesg there)";

TEST_F(KillFaultsTest, AnAgentKilledWhileNothingIsFedTakesItsNodeAlong) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  KillAgent(**cluster, 1)();
  EXPECT_TRUE(log_.WaitForSlot(1, [](const SlotStatus& slot) { return IsEnded(slot.state); }));
  EXPECT_THAT((*cluster)->Train(RowSource(10, 1)),
              FailsWith(absl::StatusCode::kUnavailable, kAgentKilled));
}

TEST_F(KillFaultsTest, AnAgentKilledWhileItsNodeIsFedFailsTheCall) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(KillWhileFeeding(**cluster, KillAgent(**cluster, 1)),
              FailsWith(absl::StatusCode::kUnavailable, kAgentKilled));
  EXPECT_THAT((*cluster)->Shutdown({.timeout = kPatience}),
              FailsWith(absl::StatusCode::kUnavailable, kAgentKilled));
}

TEST_F(KillFaultsTest, AnAgentKilledInInferenceFailsTheCall) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  EXPECT_THAT(KillWhileInferring(**cluster, KillAgent(**cluster, 1)),
              FailsWith(absl::StatusCode::kUnavailable, kAgentKilled));
}

// Killed while its program has forked a child that no process group holds.
TEST_F(KillFaultsTest, AnAgentKilledTakesTheNodesGrandchildrenAlong) {
  auto cluster = Run(Options(2), Program("grandchild", "worker:1"));
  ASSERT_THAT(cluster, IsOk());
  ASSERT_TRUE(log_.WaitForLine("worker:1", "grandchild "));
  EXPECT_THAT(KillWhileFeeding(**cluster, KillAgent(**cluster, 1)),
              FailsWith(absl::StatusCode::kUnavailable, kAgentKilled));
}

// ---- SIGSTOP ------------------------------------------------------------------------------------

TEST_F(KillFaultsTest, AStoppedNodeIsShownAtOnceAndFailsAfterItsTimeout) {
  ClusterOptions options = Options(2);
  options.failure.stop_timeout = absl::Seconds(1);
  auto cluster = Run(options, Program());
  ASSERT_THAT(cluster, IsOk());
  const absl::Status status = KillWhileFeeding(**cluster, [&] {
    ::kill(static_cast<pid_t>(NodePid(**cluster, 1)), SIGSTOP);
    EXPECT_TRUE(log_.WaitForSlot(1, [](const SlotStatus& slot) { return slot.stopped; }));
  });
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kAborted,
                                "worker:1 (executor 1, attempt 0, host HOST, pid PID) was stopped "
                                "by a signal (SIGSTOP) for T s, longer than stop_timeout; continue "
                                "it (SIGCONT) in time, or raise that"));
}

TEST_F(KillFaultsTest, AStoppedNodeThatGoesOnInTimeIsNotAFailure) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  const pid_t pid = static_cast<pid_t>(NodePid(**cluster, 1));
  ::kill(pid, SIGSTOP);
  EXPECT_TRUE(log_.WaitForSlot(1, [](const SlotStatus& slot) { return slot.stopped; }));
  ::kill(pid, SIGCONT);
  EXPECT_TRUE(log_.WaitForSlot(1, [](const SlotStatus& slot) { return !slot.stopped; }));
  ExpectTrainsAndShutsDown(**cluster);
}

TEST_F(KillFaultsTest, AStoppedAgentIsLostWithoutItsHeartbeat) {
  auto cluster = Run(2);
  ASSERT_THAT(cluster, IsOk());
  const absl::Status status = KillWhileFeeding(
      **cluster, [&] { ::kill(static_cast<pid_t>(AgentPid(**cluster, 1)), SIGSTOP); });
  EXPECT_THAT(status, FailsWith(absl::StatusCode::kUnavailable,
                                "worker:1 (executor 1, attempt 0, host HOST, pid PID) was lost: no "
                                "heartbeat from its agent for T s; is its host down, overloaded or "
                                "cut off?"));
}

// ---- the driver ---------------------------------------------------------------------------------

class DriverKilledTest : public FaultTest, public ::testing::WithParamInterface<const char*> {
 protected:
  DriverKilledTest() { gone_within_ = kGoneAfterKill; }

  absl::StatusOr<std::unique_ptr<ChildProcess>> StartDriver(const std::string& phase) {
    std::vector<std::string> argv = {
        RunfilePath("testing/faults/fault_driver"), absl::StrCat("--phase=", phase),
        absl::StrCat("--node=", RunfilePath("testing/faults/fault_node")),
        absl::StrCat("--working_dir=", leaks_.folder())};
    if (phase == "start") {
      ::setenv("FLAKY_AGENT", "wait:1", 1);
      ::setenv("FLAKY_AGENT_REAL", RunfilePath("core/agent/millrace-agent").c_str(), 1);
      argv.push_back(absl::StrCat("--agent=", RunfilePath("testing/faults/flaky_agent")));
    }
    return ChildProcess::Start(argv);
  }
};

TEST_P(DriverKilledTest, NothingIsLeftFiveSecondsAfterItsSigkill) {
  auto driver = StartDriver(GetParam());
  ASSERT_THAT(driver, IsOk());
  ASSERT_THAT((*driver)->WaitForLine("phase ", kPatience),
              IsOkAndHolds(absl::StrCat("phase ", GetParam())));
  // Driver, four agents with a guard each, and what of their nodes runs in this phase.
  EXPECT_THAT(leaks_.Processes(), SizeIs(::testing::Ge(6)));
  (*driver)->Kill(SIGKILL);
  EXPECT_THAT((*driver)->Wait(kPatience),
              IsOkAndHolds(ExitStatus{.kind = ExitStatus::Kind::kSignaled, .signal = SIGKILL}));
  // Its cluster file is removed by whoever looks next.
  const auto clusters = ListClusterFiles();
  ASSERT_THAT(clusters, IsOk());
  EXPECT_THAT(clusters->clusters, ::testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(InEachPhase, DriverKilledTest,
                         ::testing::Values("start", "running", "feeding", "inference", "shutdown"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace millrace::faults
