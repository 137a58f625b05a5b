// Clusters on pods of a real API server that are not alone: another cluster wants the same pods, or
// who asks the API server gets another token.

#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/net/socket_address.h"
#include "examples/hosts/pods_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/kube_apiserver/curl_session.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PodsSharedTest : public PodsTest {
 protected:
  void AddWorkers(int workers) {
    for (int i = 0; i < workers; ++i) AddPod(absl::StrCat("worker-", i), "worker", i);
  }
  // Of the cluster that adopts this pod next.
  std::string ClusterOf(const std::string& pod) {
    const auto line =
        agents_[pod]->WaitFor("adopted as executor", kLong);  // "... of cluster ID, ..."
    EXPECT_THAT(line, IsOk());
    if (!line.ok()) return "";
    const std::vector<std::string> parts = absl::StrSplit(*line, "of cluster ");
    return parts.back().substr(0, parts.back().find_first_of(", "));
  }
};

TEST_F(PodsSharedTest, ASecondClusterWaitsForThePodsOfTheFirstOrIsRefusedInOneLineThatNamesIt) {
  AddWorkers(2);
  if (HasFatalFailure() || IsSkipped()) return;
  const auto first = Run(UntilGo());
  const std::string id = ClusterOf("worker-0");
  ASSERT_THAT(first->WaitForLine("worker:1| here", kLong), IsOk());

  const auto refused = Run("true", {"--reservation-timeout", "15s"});
  const auto why = refused->WaitForLine("millrace: 2 of 2 slots did not arrive in 1", kLong);
  ASSERT_THAT(why, IsOk());
  EXPECT_THAT(*why, HasSubstr(absl::StrCat("is taken: the agent on ", LocalHostname(),
                                           " serves executor 0 of cluster ", id)));
  EXPECT_EQ(refused->Wait(kLong)->code, 75);

  const auto waiting = Run("echo $WORLD_SIZE");
  const auto waits = waiting->WaitForLine("millrace: worker:0 has no agent yet: ", kLong);
  ASSERT_THAT(waits, IsOk());
  EXPECT_THAT(*waits, AllOf(HasSubstr(agents_["worker-0"]->address()),
                            HasSubstr(absl::StrCat("of cluster ", id))));
  Go();
  ExpectEndsWell(*first);
  ASSERT_THAT(waiting->WaitForLine("worker:0| 2", kLong), IsOk());
  ExpectEndsWell(*waiting);
}

TEST_F(PodsSharedTest, ClustersThatWantTheSamePodsAtTheSameTimeComeOneAfterTheOther) {
  AddWorkers(3);
  if (HasFatalFailure() || IsSkipped()) return;
  std::vector<std::unique_ptr<ChildProcess>> runs;
  for (int i = 0; i < 3; ++i) runs.push_back(Run(UntilGo()));
  // Until each has the pods or says that it waits for them.
  int here = 0;
  for (const auto& run : runs) {
    std::string line;
    while (!absl::StrContains(line, "| here") && !absl::StrContains(line, " has no agent yet: ")) {
      const auto next = run->WaitForLine("", kLong);
      ASSERT_THAT(next, IsOk());
      line = *next;
    }
    if (absl::StrContains(line, "| here")) ++here;
  }
  EXPECT_LE(here, 1);
  Go();
  for (const auto& run : runs) ExpectEndsWell(*run);
}

TEST_F(PodsSharedTest, ATokenThatRotatesIsNothingToAClusterThatRunsAndItsWatchGoesOn) {
  AddWorkers(2);
  if (HasFatalFailure() || IsSkipped()) return;
  const std::string token_file = JoinPath(folder_->path(), "token");
  std::vector<std::string> tokens;
  for (const char* account : {"before", "after"}) {
    ASSERT_THAT(server_->CreateServiceAccount("ml", account), IsOk());
    ASSERT_THAT(
        server_->Allow(absl::StrCat("system:serviceaccount:ml:", account), "ml", {"list", "watch"}),
        IsOk());
    const auto token = server_->ServiceAccountToken("ml", account);
    ASSERT_THAT(token, IsOk());
    tokens.push_back(*token);
  }
  ASSERT_THAT(WriteFileAtomic(token_file, tokens[0]), IsOk());
  Json config = *ParseJson(server_->KubeConfig("", "ml"));
  config["users"][0]["user"] = Json{{"tokenFile", token_file}};
  ASSERT_THAT(WriteFileAtomic(kubeconfig_, DumpJson(config)), IsOk());

  const auto run = Run(UntilGo(), {"--max-restarts", "5"});
  ExpectHere(*run, 2);
  const std::string id = ClusterOf("worker-0");

  // Another token takes the place of the first, which the server then refuses.
  ASSERT_THAT(WriteFileAtomic(token_file, tokens[1]), IsOk());
  ASSERT_THAT(server_->DeleteServiceAccount("ml", "before"), IsOk());
  CurlSession session({.ca_pem = server_->pki().ca_pem(), .token = tokens[0]});
  ASSERT_TRUE(Eventually(
      [&] {
        const auto answer =
            session.Send({.url = absl::StrCat(server_->url(), "/api/v1/namespaces/ml/pods")});
        EXPECT_THAT(answer, IsOk());
        return answer.ok() && answer->status == 401;
      },
      kLong));
  // A watch that is open goes on: what it must survive is the next one.
  ASSERT_THAT(server_->Restart(SIGKILL), IsOk());

  DeletePod("worker-1");
  AddPod("worker-1-new", "worker", 1);
  if (HasFatalFailure()) return;
  EXPECT_EQ(ClusterOf("worker-1-new"), id);
  ASSERT_THAT(run->WaitForLine("worker:1| here", kLong), IsOk());
  Go();
  ExpectEndsWell(*run);
  EXPECT_THAT(agents_["worker-0"]->WaitFor("free again", kLong), IsOk());
}

}  // namespace
}  // namespace millrace
