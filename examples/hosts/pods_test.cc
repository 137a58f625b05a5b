// The digits on pods of a real API server: objects whose addresses are loopback ones, on which real
// agents listen. In the middle of training a worker's pod is deleted and another one takes its place.

#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "core/agent/agent_secret.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/socket_address.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/kube_apiserver/kube_api_server.h"
#include "testing/listening_agent.h"

namespace millrace {
namespace {

constexpr absl::Duration kLong = absl::Seconds(120);

class PodsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
    auto server = KubeApiServer::Start({});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    folder_ = std::make_unique<TempDir>(*TempDir::Create("pods"));
    secret_ = JoinPath(folder_->path(), "agents.json");
    ASSERT_THAT(WriteAgentSecretFile(secret_, *MakeAgentSecret()), IsOk());
    kubeconfig_ = JoinPath(folder_->path(), "kubeconfig");
    ASSERT_THAT(WriteFileAtomic(kubeconfig_, server_->KubeConfig(KubeApiServer::kReaderToken, "ml")),
                IsOk());
    ASSERT_THAT(server_->CreateNamespace("ml"), IsOk());
    ASSERT_THAT(server_->Allow("reader", "ml", {"list", "watch"}), IsOk());
  }

  // A pod of an indexed Job, with its agent.
  void AddPod(const std::string& name, const std::string& job, int index) {
    const std::string ip = absl::StrCat("127.0.0.", next_host_++);
    auto agent = ListeningAgent::Start(port_ == 0 ? ip : absl::StrCat(ip, ":", port_), secret_);
    ASSERT_THAT(agent, IsOk());
    port_ = ParseHostPort((*agent)->address())->port;
    agents_[name] = *std::move(agent);
    const std::string key = "batch.kubernetes.io/job-completion-index";
    ASSERT_THAT(server_->CreatePod("ml", name,
                                   {.labels = {{"app", job}}, .annotations = {{key, absl::StrCat(index)}}}),
                IsOk());
    ASSERT_THAT(server_->SetPodStatus("ml", name, {.pod_ip = ip}), IsOk());
  }

  // As a kubelet would in the end: its processes are killed, and it is gone.
  void DeletePod(const std::string& name) {
    agents_[name]->process().Kill(SIGKILL);
    ASSERT_THAT(server_->DeletePod("ml", name), IsOk());
  }

  std::string Members() const {
    OrderedJson selectors = OrderedJson::object();
    for (const char* job : {"ps", "chief", "evaluator", "worker"}) {
      selectors[job] = OrderedJson::array({absl::StrCat("app=", job)});
    }
    return DumpJson(OrderedJson{{"type", "kubernetes"},
                                {"executable_location", "off_cluster"},
                                {"kubeconfig", kubeconfig_},
                                {"job_to_label_mapping", selectors},
                                {"expected_tasks", {{"worker", 2}}},
                                {"tf_server_port", port_}});
  }

  // `millrace run` of a shell script on the workers' pods that there are.
  std::unique_ptr<ChildProcess> Run(const std::string& script) const {
    auto run = ChildProcess::Start({RunfilePath("core/cli/millrace"), "run", "--on", "kubernetes",
                                    "--location", "off_cluster", "--kubeconfig", kubeconfig_, "--job",
                                    "worker=app=worker", "--port", absl::StrCat(port_),
                                    "--secret-file", secret_, "--", "sh", "-c", script});
    EXPECT_THAT(run, IsOk());
    return run.ok() ? *std::move(run) : nullptr;
  }

  // What each worker prints, in the order of workers; "" if it fails.
  std::string RunAll(const std::string& script) const {
    const auto run = Run(script);
    std::map<std::string, std::string> printed;
    for (auto line = run->WaitForLine("worker:", kLong); line.ok();
         line = run->WaitForLine("worker:", kLong)) {
      const std::pair<std::string, std::string> parts = absl::StrSplit(*line, absl::MaxSplits("| ", 1));
      printed[parts.first] = parts.second;
    }
    const auto exit = run->Wait(kLong);
    if (!exit.ok() || !exit->ok()) return "";
    return absl::StrJoin(printed, " ", [](std::string* out, const auto& entry) {
      absl::StrAppend(out, entry.second);
    });
  }

  std::unique_ptr<KubeApiServer> server_;
  std::unique_ptr<TempDir> folder_;
  std::string secret_;
  std::string kubeconfig_;
  int next_host_ = 2;
  int port_ = 0;
  std::map<std::string, std::unique_ptr<ListeningAgent>> agents_;
};

TEST_F(PodsTest, DigitsReachTheirAccuracyThoughAWorkersPodIsReplaced) {
  AddPod("ps-0", "ps", 0);
  AddPod("chief-0", "chief", 0);
  AddPod("evaluator-0", "evaluator", 0);
  AddPod("worker-0-abc", "worker", 0);
  AddPod("worker-1-def", "worker", 1);
  if (HasFatalFailure()) return;
  auto digits = ChildProcess::Start({RunfilePath("examples/digits/digits"),
                                     absl::StrCat("--members=", Members()),
                                     absl::StrCat("--secret=", secret_), "--restarts=3", "--epochs=80"});
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
  const std::string go = JoinPath(folder_->path(), "go");
  const auto run = Run(absl::StrCat("echo here; while ! test -e ", go, "; do sleep 0.1; done; echo ok"));
  ASSERT_THAT(run->WaitForLine("worker:0| here", kLong), IsOk());
  ASSERT_THAT(run->WaitForLine("worker:1| here", kLong), IsOk());
  ASSERT_THAT(server_->Restart(SIGKILL), IsOk());
  ASSERT_THAT(WriteFileAtomic(go, "now"), IsOk());
  const auto exit = run->Wait(kLong);
  ASSERT_THAT(exit, IsOk());
  EXPECT_EQ(exit->code, 0);
  for (const char* pod : {"worker-0", "worker-1"}) {
    EXPECT_THAT(agents_[pod]->WaitFor("free again", kLong), IsOk());
  }
}

}  // namespace
}  // namespace millrace
