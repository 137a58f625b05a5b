// Clusters whose drivers are killed, and taken over: real drivers, and agents that listen, each on
// a loopback address of its own. What each node did is in a file.

#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/journal/state_journal.h"
#include "core/launch/agent_secret.h"
#include "core/proto/state.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/adopting_launcher.h"
#include "millrace/cluster.h"
#include "millrace/cluster_spec.h"
#include "millrace/local_launcher.h"
#include "resolver/scripted_resolver.h"
#include "testing/child_process.h"
#include "testing/eventually.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr absl::Duration kLong = absl::Seconds(60);

// $0: the test's folder. Ends when there is a file "go" there, with the code that this has.
constexpr char kNode[] = R"(
echo start >> $0/node-$RANK
while ! test -e $0/go; do sleep 0.02; done
echo end >> $0/node-$RANK
exit $(cat $0/go)
)";

class ResumedClusterTest : public ::testing::Test {
 protected:
  ResumedClusterTest() {
    EXPECT_THAT(WriteAgentSecretFile(Path("secret.json"), *MakeAgentSecret()), IsOk());
    for (int host : {2, 3}) {
      auto agent = ListeningAgent::Start(absl::StrCat("127.0.0.", host), Path("secret.json"));
      EXPECT_THAT(agent, IsOk());
      if (agent.ok()) agents_.push_back(*std::move(agent));
    }
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  std::string Folder() const { return folder_; }

  std::unique_ptr<ChildProcess> StartDriver() {
    std::vector<std::string> addresses;
    for (const auto& agent : agents_) addresses.push_back(agent->address());
    auto driver = ChildProcess::Start(
        {RunfilePath("core/cluster/resume_test_driver"), Folder(), Path("secret.json"),
         absl::StrCat(absl::ToInt64Milliseconds(lease_)), absl::StrCat(max_restarts_), own_host_,
         absl::StrJoin(addresses, ","), "/bin/sh", "-c", kNode, dir_.path()});
    EXPECT_THAT(driver, IsOk());
    return *std::move(driver);
  }
  // The cluster's id, once all its nodes run.
  static std::string WaitRunning(ChildProcess& driver, const std::string& how) {
    const auto line = driver.WaitForLine(absl::StrCat(how, " "), kLong);
    EXPECT_THAT(line, IsOk());
    return line.ok() ? line->substr(how.size() + 1) : "";
  }
  static std::string WaitEnd(ChildProcess& driver) {
    const auto line = driver.WaitForLine("ended with ", kLong);
    EXPECT_THAT(line, IsOk());
    EXPECT_THAT(driver.Wait(kLong), IsOk());
    return line.value_or("");
  }
  static void Kill(ChildProcess& driver) {
    driver.Kill(SIGKILL);
    ASSERT_THAT(driver.Wait(kLong), IsOk());
  }
  void Go(int code) const { ASSERT_THAT(WriteFileAtomic(Path("go"), absl::StrCat(code)), IsOk()); }
  // What the nodes have done, each in order.
  std::vector<std::string> Done() const {
    std::vector<std::string> all;
    for (int rank : {0, 1}) {
      const std::string text = ReadFile(Path(absl::StrCat("node-", rank))).value_or("");
      all.push_back(absl::StrJoin(absl::StrSplit(text, '\n', absl::SkipEmpty()), " "));
    }
    return all;
  }
  bool WaitDone(const std::vector<std::string>& what) const {
    return Eventually([&] { return Done() == what; });
  }
  void WaitAgentsFree() {
    for (const auto& agent : agents_) EXPECT_THAT(agent->WaitFor("free again", kLong), IsOk());
  }
  void ExpectNothingToResume() const {
    std::error_code error;
    EXPECT_TRUE(std::filesystem::is_empty(Folder(), error)) << Folder();
  }

  const TempDir dir_ = *TempDir::Create("resumed");
  std::vector<std::unique_ptr<ListeningAgent>> agents_;
  absl::Duration lease_ = absl::Minutes(5);
  int max_restarts_ = 0;
  std::string folder_ = Path("state");
  std::string own_host_ = "127.0.0.1";  // of the drivers
};

TEST_F(ResumedClusterTest, NodesGoOnUnderTheNextDriver) {
  const auto first = StartDriver();
  const std::string id = WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  const auto second = StartDriver();
  EXPECT_EQ(WaitRunning(*second, "resumed"), id);
  Kill(*second);
  const auto third = StartDriver();
  EXPECT_EQ(WaitRunning(*third, "resumed"), id);
  Go(0);
  EXPECT_EQ(WaitEnd(*third), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
  WaitAgentsFree();
  ExpectNothingToResume();
}

TEST_F(ResumedClusterTest, TheNextDriverMayBeAtAnotherAddress) {
  const auto first = StartDriver();
  const std::string id = WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  own_host_ = "127.0.0.9";
  const auto second = StartDriver();
  EXPECT_EQ(WaitRunning(*second, "resumed"), id);
  Go(0);
  EXPECT_EQ(WaitEnd(*second), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
  WaitAgentsFree();
  ExpectNothingToResume();
}

// As a node that was cut off from the others: its driver lives, and locks do nothing.
TEST_F(ResumedClusterTest, ADriverThatLivesElsewhereIsFencedByTheNext) {
  const auto first = StartDriver();
  const std::string id = WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  std::filesystem::remove(JoinPath(Folder(), "lock"));
  own_host_ = "127.0.0.9";
  const auto second = StartDriver();
  EXPECT_EQ(WaitRunning(*second, "resumed"), id);
  EXPECT_THAT(WaitEnd(*first), StartsWith("ended with ABORTED: "));
  Go(0);
  EXPECT_EQ(WaitEnd(*second), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
  WaitAgentsFree();
  ExpectNothingToResume();
}

// Nor can it see the folder any more: its agents tell it.
TEST_F(ResumedClusterTest, ADriverThatLivesWithoutItsFolderIsFencedByItsAgents) {
  const auto first = StartDriver();
  const std::string id = WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  // Another folder with the same content takes the cluster over.
  std::filesystem::copy(Folder(), Path("copy"));
  std::filesystem::permissions(Path("copy"), std::filesystem::perms::owner_all);
  own_host_ = "127.0.0.9";
  folder_ = Path("copy");
  const auto second = StartDriver();
  EXPECT_EQ(WaitRunning(*second, "resumed"), id);
  EXPECT_THAT(WaitEnd(*first),
              AllOf(StartsWith("ended with ABORTED: "), HasSubstr("another driver now")));
  Go(0);
  EXPECT_EQ(WaitEnd(*second), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
  WaitAgentsFree();
  ExpectNothingToResume();
}

TEST_F(ResumedClusterTest, NodesThatEndedWhileThereWasNoDriverAreNotStartedAgain) {
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  Go(0);
  ASSERT_TRUE(WaitDone({"start end", "start end"}));
  const auto second = StartDriver();
  EXPECT_EQ(WaitEnd(*second), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
  WaitAgentsFree();
  ExpectNothingToResume();
}

TEST_F(ResumedClusterTest, AFailureWhileThereWasNoDriverIsTheNextOnes) {
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  Go(3);
  ASSERT_TRUE(WaitDone({"start end", "start end"}));
  const auto second = StartDriver();
  EXPECT_THAT(WaitEnd(*second),
              AllOf(StartsWith("ended with ABORTED: worker:"), HasSubstr("exited with code 3")));
  WaitAgentsFree();
  ExpectNothingToResume();
}

// The driver is killed between the word of a failure and the end that follows.
TEST_F(ResumedClusterTest, AFailureThatTheDriverBeforeHadHeardOfEndsTheCluster) {
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  {
    const auto journal = StateJournal::Resume(Folder());
    ASSERT_THAT(journal.status(), IsOk());
    v1::StateRecord record;
    v1::SlotRecord& slot = *record.mutable_slot();
    slot = (*journal)->restored().slots().at(1);
    slot.set_state(v1::SLOT_STATE_FAILED);
    slot.mutable_failure()->mutable_error()->set_code(static_cast<int>(absl::StatusCode::kAborted));
    slot.mutable_failure()->mutable_error()->set_message("exited with code 9");
    slot.mutable_failure()->set_exit_code(9);
    ASSERT_THAT((*journal)->Append({record}), IsOk());
  }
  const auto second = StartDriver();
  EXPECT_THAT(second->WaitForLine("failure of worker:1", kLong), IsOk());
  EXPECT_THAT(WaitEnd(*second),
              AllOf(StartsWith("ended with ABORTED: worker:1 "), HasSubstr("exited with code 9")));
  EXPECT_THAT(Done(), ElementsAre("start", "start"));
  WaitAgentsFree();
  ExpectNothingToResume();
}

TEST_F(ResumedClusterTest, ASecondDriverIsRefusedAndHarmsNobody) {
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  const auto second = StartDriver();
  EXPECT_THAT(WaitEnd(*second), AllOf(StartsWith("ended with FAILED_PRECONDITION: "),
                                      HasSubstr(absl::StrCat("pid ", first->pid(), " on "))));
  Go(0);
  EXPECT_EQ(WaitEnd(*first), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
}

// Where locks do nothing, as on some file systems between hosts.
TEST_F(ResumedClusterTest, ADriverWhoseClusterWasTakenOverLeavesItAsItIs) {
  const auto first = StartDriver();
  const std::string id = WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  first->Kill(SIGSTOP);
  std::filesystem::remove(JoinPath(Folder(), "lock"));
  // The stopped one still has the port: the other comes from another host, in truth.
  const auto refused = StartDriver();
  EXPECT_THAT(WaitEnd(*refused), AllOf(StartsWith("ended with UNAVAILABLE: "), HasSubstr("port")));
  first->Kill(SIGCONT);
  EXPECT_THAT(WaitEnd(*first), AllOf(StartsWith("ended with ABORTED: "), HasSubstr("taken over")));
  const auto third = StartDriver();
  EXPECT_EQ(WaitRunning(*third, "resumed"), id);
  Go(0);
  EXPECT_EQ(WaitEnd(*third), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
}

TEST_F(ResumedClusterTest, WhereNobodyComesNodesEndWithTheirLease) {
  lease_ = absl::Seconds(2);
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  WaitAgentsFree();
  Go(0);
  EXPECT_THAT(Done(), ElementsAre("start", "start"));
  // Whoever comes then is told at once what became of it, and looks that long.
  lease_ = absl::Minutes(1);
  const auto second = StartDriver();
  EXPECT_THAT(WaitEnd(*second),
              AllOf(StartsWith("ended with UNAVAILABLE: worker:"), HasSubstr("its agent is gone")));
  ExpectNothingToResume();
}

TEST_F(ResumedClusterTest, AnAgentThatDiedMeanwhileIsReplacedAtOnceWithinTheBudget) {
  max_restarts_ = 1;
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  ASSERT_TRUE(WaitDone({"start", "start"}));
  Kill(*first);
  const std::string address = agents_[1]->address();
  agents_[1].reset();
  auto another = ListeningAgent::Start(address, Path("secret.json"));
  ASSERT_THAT(another, IsOk());
  agents_[1] = *std::move(another);
  const auto second = StartDriver();
  WaitRunning(*second, "resumed");
  ASSERT_TRUE(WaitDone({"start", "start start"}));
  Go(0);
  EXPECT_EQ(WaitEnd(*second), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start start end"));
  ExpectNothingToResume();
}

// ---- what cannot be resumed ----

class ResumeOptionsTest : public ResumedClusterTest {
 protected:
  absl::Status Resume(const std::string& program = "/bin/sh") {
    return Cluster::Resume(launcher_, NodeProgram::Path(program), options_).status();
  }

  ResumeOptionsTest() {
    options_.num_executors = 2;
    options_.cluster_file = false;
    options_.resume.state_folder = Folder();
  }

  ScriptedResolver resolver_{*ClusterSpec::Create(
      {{"worker", ClusterSpec::TaskList{agents_[0]->address(), agents_[1]->address()}}})};
  AdoptingLauncher launcher_{
      resolver_, {.secret = {.file = Path("secret.json")}, .bind_address = "127.0.0.1"}};
  ClusterOptions options_;
};

TEST_F(ResumeOptionsTest, AgentsThatEndWithTheirDriverAreRefused) {
  LocalLauncher local;
  EXPECT_THAT(Cluster::Run(local, NodeProgram::Path("true"), options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("end with their driver"), HasSubstr("AdoptingLauncher"))));
  EXPECT_FALSE(std::filesystem::exists(Folder()));
}

TEST_F(ResumeOptionsTest, WhatMakesNoSenseIsSaid) {
  for (const absl::Duration lease : {absl::ZeroDuration(), absl::InfiniteDuration()}) {
    options_.resume.lease = lease;
    EXPECT_THAT(Cluster::Run(launcher_, NodeProgram::Path("true"), options_),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("resume.lease")));
  }
  options_.resume = {};
  EXPECT_THAT(Resume(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("state_folder")));
}

TEST_F(ResumeOptionsTest, WithoutAClusterThereIsNothingToResume) {
  EXPECT_THAT(Cluster::CanResume(Folder()), IsOkAndHolds(false));
  EXPECT_THAT(Resume(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("holds no cluster")));
}

TEST_F(ResumeOptionsTest, AnotherClusterIsNotTheSameAndTheFirstStaysAsItIs) {
  const auto first = StartDriver();
  WaitRunning(*first, "new");
  Kill(*first);
  EXPECT_THAT(Cluster::CanResume(Folder()), IsOkAndHolds(true));
  EXPECT_THAT(Cluster::Run(launcher_, NodeProgram::Path("/bin/sh"), options_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("Cluster::Resume")));
  EXPECT_THAT(Resume("/bin/true"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another program")));
  options_.num_ps = 1;
  EXPECT_THAT(Resume(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 AllOf(HasSubstr("another shape"), HasSubstr("ps:0"))));
  options_.num_ps = 0;
  AdoptingLauncher without_secret(
      resolver_, {.secret = {.file = Path("none.json")}, .bind_address = "127.0.0.1"});
  EXPECT_THAT(Cluster::Resume(without_secret, NodeProgram::Path("/bin/sh"), options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none.json")));
  const auto second = StartDriver();
  WaitRunning(*second, "resumed");
  Go(0);
  EXPECT_EQ(WaitEnd(*second), "ended with OK: ");
  EXPECT_THAT(Done(), ElementsAre("start end", "start end"));
}

}  // namespace
}  // namespace millrace
