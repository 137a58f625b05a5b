#include "millrace/cluster_status.h"

#include <algorithm>  // for std::count
#include <string>

#include "gtest/gtest.h"

namespace millrace {
namespace {

NodeFailure Killed() {
  NodeFailure failure;
  failure.executor_id = 3;
  failure.role = {"worker", 1};
  failure.host = "h";
  failure.pid = 123;
  failure.status = absl::AbortedError("was killed by SIGKILL");
  return failure;
}

TEST(ClusterStatusTest, TheFirstLineIsCompleteInItself) {
  NodeFailure failure = Killed();
  EXPECT_EQ(FailureText(failure, 0),
            "worker:1 (executor 3, attempt 0, host h, pid 123) was killed by SIGKILL");
  failure.stderr_tail = {"out of memory"};
  EXPECT_EQ(FailureText(failure, 2),
            "worker:1 (executor 3, attempt 0, host h, pid 123) was killed by SIGKILL; 2 later "
            "failures folded. Last stderr line: 'out of memory'");
  failure.stderr_tail = {"loading", "out of memory", "  "};
  EXPECT_EQ(FailureText(failure, 1),
            "worker:1 (executor 3, attempt 0, host h, pid 123) was killed by SIGKILL; 1 later "
            "failure folded. Last stderr line: 'out of memory'\n"
            "stderr, last 3 lines:\n"
            "  loading\n"
            "  out of memory\n"
            "    ");
}

TEST(ClusterStatusTest, AnEndWithoutWordsComesWithAdvice) {
  NodeFailure failure = Killed();
  failure.exit = {.kind = ExitStatus::Kind::kSignaled, .signal = 9};
  EXPECT_EQ(
      FailureText(failure, 1),
      "worker:1 (executor 3, attempt 0, host h, pid 123) was killed by SIGKILL (if nobody did "
      "that, its host was short of memory: see dmesg there); 1 later failure folded");
  failure.status = absl::AbortedError("exited with code 3");
  failure.exit = {.kind = ExitStatus::Kind::kExited, .code = 3};
  EXPECT_EQ(
      FailureText(failure, 0),
      "worker:1 (executor 3, attempt 0, host h, pid 123) exited with code 3; it wrote nothing "
      "to stderr");
}

TEST(ClusterStatusTest, ARestartIsOneLine) {
  NodeRestart restart = {
      .failure = Killed(), .after = absl::Milliseconds(1234), .used = 1, .max = 3};
  restart.failure.stderr_tail = {"step 1", "step 2"};
  EXPECT_EQ(
      RestartText(restart),
      "worker:1 (executor 3, attempt 0, host h, pid 123) was killed by SIGKILL. Last stderr line: "
      "'step 2'; worker:1 is started again in 1.2s (restart 1 of 3)");
}

TEST(ClusterStatusTest, ForeignTextCanNeitherForgeLinesNorDriveATerminal) {
  NodeFailure failure = Killed();
  failure.host = "h\nx";
  failure.stderr_tail = {"a\x1b[2Jb\nforged", std::string(5000, 'x')};
  const std::string text = FailureText(failure, 0);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("host h\\nx"), std::string::npos);
  EXPECT_LT(text.size(), 3000u);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
}

TEST(ClusterStatusTest, TheStatusKeepsTheCode) {
  EXPECT_EQ(FailureStatus(Killed(), 0).code(), absl::StatusCode::kAborted);
}

TEST(ClusterStatusTest, EveryStateHasAName) {
  for (int i = 0; i < kNumSlotStates; ++i) {
    EXPECT_NE(SlotStateName(static_cast<SlotState>(i)), "unknown");
  }
  EXPECT_TRUE(IsEnded(SlotState::kLost));
  EXPECT_FALSE(IsEnded(SlotState::kDraining));
}

}  // namespace
}  // namespace millrace
