// Runs the main job as a person would, and reads what it prints.

#include <stdio.h>
#include <sys/wait.h>

#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "examples/runfiles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace::examples {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
  absl::Duration elapsed;
};

Outcome RunDigits(const std::string& arguments) {
  Outcome outcome;
  const absl::Time start = absl::Now();
  FILE* pipe = ::popen(absl::StrCat(Runfile("examples/digits/digits"), " ", arguments, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return outcome;
  char buffer[4096];
  while (const size_t n = ::fread(buffer, 1, sizeof(buffer), pipe)) outcome.output.append(buffer, n);
  const int status = ::pclose(pipe);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  outcome.elapsed = absl::Now() - start;
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
  EXPECT_LT(outcome.elapsed, absl::Seconds(30));
}

INSTANTIATE_TEST_SUITE_P(TenSeeds, DigitsTest, ::testing::Range(0, 10));

TEST(DigitsTest, TheEvaluatorPrintsWhileTrainingRuns) {
  const Outcome outcome = RunDigits("");
  const std::string while_training = outcome.output.substr(0, outcome.output.find("trained on"));
  EXPECT_THAT(while_training,
              AllOf(HasSubstr("evaluation 1: "), HasSubstr("evaluation 2: "), HasSubstr("evaluation 3: "),
                    HasSubstr("loss ")));
  // Stderr is no terminal here: no line that changes.
  EXPECT_THAT(outcome.output, Not(HasSubstr("\x1b[K")));
}

TEST(DigitsTest, TrainsWithOneWorkerAndManyPartitionsOfOddSize) {
  const Outcome outcome = RunDigits("--workers=0 --partitions=100 --batch=37 --epochs=10");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("trained on 14370 rows"));
  EXPECT_GE(LastAccuracy(outcome.output), 0.9) << outcome.output;
}

TEST(DigitsTest, HelpShowsTheKnobs) {
  const Outcome outcome = RunDigits("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("--epochs"), HasSubstr("--workers"), HasSubstr("--seed"),
                                    HasSubstr("--strategy")));
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
