// The digits on pods of a real API server. In the middle of training a worker's pod is deleted and
// another one takes its place. And what else happens to the Jobs and to the server around clusters.

#include <signal.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status_matchers.h"
#include "examples/hosts/pods_testing.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"

namespace millrace {
namespace {

TEST_F(PodsTest, DigitsReachTheirAccuracyThoughAWorkersPodIsReplaced) {
  AddPod("ps-0", "ps", 0);
  AddPod("chief-0", "chief", 0);
  AddPod("evaluator-0", "evaluator", 0);
  AddPod("worker-0-abc", "worker", 0);
  AddPod("worker-1-def", "worker", 1);
  if (HasFatalFailure()) return;
  auto digits = ChildProcess::Start(
      {RunfilePath("examples/digits/digits"), absl::StrCat("--members=", Members()),
       absl::StrCat("--secret=", secret_), "--max-restarts=3", "--epochs=80"});
  ASSERT_THAT(digits, IsOk());
  std::string line;
  while (line.find("evaluation 1: ") == std::string::npos) {
    const auto next = (*digits)->WaitForLine("[", kLong);
    ASSERT_THAT(next, IsOk());
    line = *next;
  }
  DeletePod("worker-1-def");
  AddPod("worker-1-ghi", "worker", 1);
  ASSERT_THAT(agents_["worker-1-ghi"]->WaitFor("adopted as executor 4", kLong), IsOk());
  const auto accuracy = (*digits)->WaitForLine("accuracy: ", kLong);
  ASSERT_THAT(accuracy, IsOk());
  double value = 0;
  ASSERT_TRUE(absl::SimpleAtod(absl::StripPrefix(*accuracy, "accuracy: "), &value)) << *accuracy;
  EXPECT_GE(value, 0.96);
  const auto exit = (*digits)->Wait(kLong);
  ASSERT_THAT(exit, IsOk());
  EXPECT_EQ(exit->code, 0);
  EXPECT_THAT(agents_["worker-1-ghi"]->WaitFor("free again", kLong), IsOk());
}

TEST_F(PodsTest, AClusterIsAsLargeAsTheJobIsScaledWhenItStarts) {
  AddPod("worker-0", "worker", 0);
  AddPod("worker-1", "worker", 1);
  if (HasFatalFailure()) return;
  EXPECT_EQ(RunAll("echo $WORLD_SIZE"), "2 2");
  AddPod("worker-2", "worker", 2);
  EXPECT_EQ(RunAll("echo $WORLD_SIZE"), "3 3 3");
  DeletePod("worker-2");
  DeletePod("worker-1");
  EXPECT_EQ(RunAll("echo $WORLD_SIZE"), "1");
}

TEST_F(PodsTest, AnApiServerThatRestartsIsNothingToAClusterThatRuns) {
  AddPod("worker-0", "worker", 0);
  AddPod("worker-1", "worker", 1);
  if (HasFatalFailure()) return;
  const auto run = Run(UntilGo());
  ExpectHere(*run, 2);
  ASSERT_THAT(server_->Restart(SIGKILL), IsOk());
  Go();
  ExpectEndsWell(*run);
  for (const char* pod : {"worker-0", "worker-1"}) {
    EXPECT_THAT(agents_[pod]->WaitFor("free again", kLong), IsOk());
  }
}

}  // namespace
}  // namespace millrace
