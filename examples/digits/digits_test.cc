// Runs the main job as a person would, and reads what it prints.

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "examples/runfiles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/process_table.h"

namespace millrace::examples {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
};

Outcome RunDigits(const std::string& arguments) {
  Outcome outcome;
  FILE* pipe = ::popen(
      absl::StrCat(Runfile("examples/digits/digits"), " ", arguments, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const size_t n = ::fread(buffer, 1, sizeof(buffer), pipe))
    outcome.output.append(buffer, n);
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

// The last line's "accuracy: 0.97"; -1 if it is something else.
double LastAccuracy(const std::string& output) {
  const std::vector<std::string> lines = absl::StrSplit(output, '\n', absl::SkipEmpty());
  double accuracy = -1;
  if (lines.empty() || lines.back().rfind("accuracy: ", 0) != 0) return -1;
  return absl::SimpleAtod(absl::string_view(lines.back()).substr(10), &accuracy) ? accuracy : -1;
}

class DigitsTest : public ::testing::TestWithParam<int> {};

TEST_P(DigitsTest, ReachesItsAccuracyWithAnySeed) {
  const Outcome outcome = RunDigits(absl::StrCat("--seed=", GetParam()));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_GE(LastAccuracy(outcome.output), 0.96) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("predicted 360 held-out rows: each once, in order"));
}

INSTANTIATE_TEST_SUITE_P(TenSeeds, DigitsTest, ::testing::Range(0, 10));

TEST(DigitsTest, TheEvaluatorPrintsWhileTrainingRuns) {
  const Outcome outcome = RunDigits("");
  const std::string while_training = outcome.output.substr(0, outcome.output.find("trained on"));
  EXPECT_THAT(while_training, AllOf(HasSubstr("evaluation 1: "), HasSubstr("evaluation 2: "),
                                    HasSubstr("evaluation 3: "), HasSubstr("loss ")));
  // Stderr is no terminal here: no line that changes.
  EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b[K")));
}

TEST(DigitsTest, TrainsWithOneWorkerAndManyPartitionsOfOddSize) {
  const Outcome outcome = RunDigits("--workers=0 --partitions=100 --batch=37 --epochs=10");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("trained on 14370 rows"));
  EXPECT_GE(LastAccuracy(outcome.output), 0.9) << outcome.output;
}

TEST(DigitsTest, RanksThatAllReduceHoldEqualParametersAfterEachEpoch) {
  const Outcome outcome = RunDigits("--strategy=allreduce");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_GE(LastAccuracy(outcome.output), 0.96) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("predicted 360 held-out rows: each once, in order"),
                    HasSubstr("all 3 ranks: epoch 1: loss "),
                    HasSubstr("all 3 ranks: epoch 40: loss "), HasSubstr("evaluation 1: ")));
}

// Five partitions of 287 rows and four ranks: one has two partitions, the others one.
TEST(DigitsTest, RanksWithUnevenRowsEndTogether) {
  const Outcome outcome =
      RunDigits("--strategy=allreduce --workers=3 --partitions=5 --epochs=3 --batch=40");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("all 4 ranks: epoch 3: "), HasSubstr("trained on 4311 rows")));
}

TEST(DigitsTest, OneRankAndOnePartitionTrainToo) {
  const Outcome outcome = RunDigits("--strategy=allreduce --workers=0 --partitions=1 --epochs=2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("all 1 ranks: epoch 2: "));
}

// The pid of the node whose environment says RANK=`rank`.
pid_t PidOfRank(pid_t driver, int rank) {
  const std::string mine = std::string("\0RANK=", 6) + absl::StrCat(rank) + std::string(1, '\0');
  for (const ProcessInfo& process : FindProcesses("MILLRACE_NO_SUCH_ENTRY=1", driver)) {
    if (!absl::StrContains(process.command, "digits_node")) continue;
    const absl::StatusOr<std::string> environment =
        ReadFile(absl::StrCat("/proc/", process.pid, "/environ"));
    if (environment.ok() && absl::StrContains(*environment, mine)) return process.pid;
  }
  return 0;
}

TEST(DigitsTest, ARankThatDiesInAnAllReduceIsNamedAndTheOthersDoNotHang) {
  char errors[] = "/tmp/digits_test.XXXXXX";
  const int errors_fd = ::mkstemp(errors);
  ASSERT_GE(errors_fd, 0);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(errors_fd, STDERR_FILENO);  // the driver inherits it
  auto driver = ChildProcess::Start(
      {Runfile("examples/digits/digits"), "--strategy=allreduce", "--epochs=100000"});
  ::dup2(saved, STDERR_FILENO);
  ASSERT_THAT(driver, IsOk());
  std::string line;
  while (!absl::StrContains(line, "ranks: epoch ")) {
    const auto next = (*driver)->WaitForLine("[", absl::Minutes(2));
    ASSERT_THAT(next, IsOk());
    line = *next;
  }
  const pid_t victim = PidOfRank((*driver)->pid(), 1);
  ASSERT_GT(victim, 0);
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  const auto exit = (*driver)->Wait(absl::Minutes(2));
  ASSERT_THAT(exit, IsOk());
  EXPECT_EQ(exit->code, 1);
  const absl::StatusOr<std::string> said = ReadFile(errors);
  ASSERT_THAT(said, IsOk());
  EXPECT_THAT(*said, AllOf(HasSubstr("worker:0"), HasSubstr("was killed by SIGKILL")));
  ::close(errors_fd);
  ::close(saved);
  ::unlink(errors);
}

TEST(DigitsTest, HelpShowsTheKnobs) {
  const Outcome outcome = RunDigits("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("--epochs"), HasSubstr("--workers"), HasSubstr("--seed"),
                    HasSubstr("--strategy"), HasSubstr("allreduce")));
}

TEST(DigitsTest, AKnobThatMakesNoSenseIsRefused) {
  const Outcome outcome = RunDigits("--epochs=0");
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("--epochs"));
}

TEST(DigitsTest, DataThatIsNotThereIsNamed) {
  const Outcome outcome = RunDigits("--data=/nowhere/digits.csv");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.output, HasSubstr("/nowhere/digits.csv"));
}

}  // namespace
}  // namespace millrace::examples
