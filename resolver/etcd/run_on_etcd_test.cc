// `millrace run --on` by keys of a real etcd: agents that listen run the program.

#include <stdlib.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/launch/agent_secret.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/kube_apiserver/etcd_server.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(120);
// For what must not happen.
constexpr absl::Duration kLook = absl::Seconds(1);

class RunOnEtcdTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = EtcdServer::Unavailable()) GTEST_SKIP() << *why;
    auto etcd = EtcdServer::Start();
    ASSERT_THAT(etcd, IsOk());
    etcd_ = *std::move(etcd);
    auto folder = TempDir::Create("run_on_etcd");
    ASSERT_THAT(folder, IsOk());
    folder_ = std::make_unique<TempDir>(*std::move(folder));
    setenv("MILLRACE_CLUSTERS_DIR", JoinPath(folder_->path(), "clusters").c_str(), 1);
    const auto secret = MakeAgentSecret();
    ASSERT_THAT(secret, IsOk());
    secret_ = JoinPath(folder_->path(), "agents.json");
    ASSERT_THAT(WriteAgentSecretFile(secret_, *secret), IsOk());
  }

  std::unique_ptr<ListeningAgent> StartAgent(const std::string& host) const {
    auto agent = ListeningAgent::Start(host, secret_);
    EXPECT_THAT(agent, IsOk());
    return agent.ok() ? *std::move(agent) : nullptr;
  }

  // As whoever starts an agent does, or its operator.
  void Announce(const std::string& task, const ListeningAgent& agent) const {
    ASSERT_THAT(etcd_->Put(absl::StrCat("/train/", task), agent.address()), IsOk());
  }

  std::unique_ptr<ChildProcess> Run(OrderedJson source, const std::vector<std::string>& program) {
    source["type"] = "etcd";
    source["endpoints"] = {etcd_->url()};
    source["prefix"] = "/train";
    std::vector<std::string> argv = {RunfilePath("core/cli/millrace"),
                                     "run",
                                     "--on",
                                     DumpJson(source),
                                     "--secret-file",
                                     secret_,
                                     "--"};
    argv.insert(argv.end(), program.begin(), program.end());
    auto child = ChildProcess::Start(argv);
    EXPECT_THAT(child, IsOk());
    return child.ok() ? *std::move(child) : nullptr;
  }

  static void ExpectSuccess(ChildProcess* run) {
    const auto end = run->Wait(kPatience);
    ASSERT_THAT(end, IsOk());
    EXPECT_TRUE(end->ok());
  }

  std::unique_ptr<EtcdServer> etcd_;
  std::unique_ptr<TempDir> folder_;
  std::string secret_;
};

TEST_F(RunOnEtcdTest, TheTasksThatKeysNameAreTheCluster) {
  const auto chief = StartAgent("127.0.0.2");
  const auto worker = StartAgent("127.0.0.3");
  ASSERT_TRUE(chief != nullptr && worker != nullptr);
  Announce("chief/0", *chief);
  Announce("worker/0", *worker);
  const auto run = Run({}, {"sh", "-c", "echo rank $RANK of $WORLD_SIZE"});
  ASSERT_NE(run, nullptr);
  EXPECT_THAT(chief->WaitFor("adopted as executor 0", kPatience), IsOk());
  EXPECT_THAT(worker->WaitFor("adopted as executor 1", kPatience), IsOk());
  EXPECT_THAT(run->WaitForLine("chief:0| rank 0 of 2", kPatience), IsOk());
  ExpectSuccess(run.get());
  EXPECT_THAT(chief->WaitFor("free again", kPatience), IsOk());
  EXPECT_THAT(worker->WaitFor("free again", kPatience), IsOk());
}

TEST_F(RunOnEtcdTest, ItWaitsForTheKeysOfAllTasks) {
  const auto first = StartAgent("127.0.0.2");
  const auto second = StartAgent("127.0.0.3");
  ASSERT_TRUE(first != nullptr && second != nullptr);
  Announce("worker/0", *first);
  const auto run = Run({{"expected_tasks", {{"worker", 2}}}, {"completeness", "wait"}},
                       {"sh", "-c", "echo rank $RANK of $WORLD_SIZE"});
  ASSERT_NE(run, nullptr);
  EXPECT_THAT(first->WaitFor("adopted", kLook), StatusIs(absl::StatusCode::kDeadlineExceeded));
  Announce("worker/1", *second);
  EXPECT_THAT(second->WaitFor("adopted as executor 1", kPatience), IsOk());
  ExpectSuccess(run.get());
}

}  // namespace
}  // namespace millrace
