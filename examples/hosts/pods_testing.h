// File: examples/hosts/pods_testing.h
//
// Pods of a real API server with agents in them: objects whose addresses are loopback ones, on
// which real agents listen; and `millrace run` on them.
//
// Defines: PodsTest.

#ifndef EXAMPLES_HOSTS_PODS_TESTING_H_
#define EXAMPLES_HOSTS_PODS_TESTING_H_

#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/launch/agent_secret.h"
#include "core/net/socket_address.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/kube_apiserver/kube_api_server.h"
#include "testing/listening_agent.h"

namespace millrace {

// A namespace "ml" in which the user "reader" may list and watch pods. Skips where there is no
// server.
class PodsTest : public ::testing::Test {
 protected:
  static constexpr absl::Duration kLong = absl::Seconds(120);

  void SetUp() override {
    if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
    auto server = KubeApiServer::Start({});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    folder_ = std::make_unique<TempDir>(*TempDir::Create("pods"));
    secret_ = JoinPath(folder_->path(), "agents.json");
    ASSERT_THAT(WriteAgentSecretFile(secret_, *MakeAgentSecret()), IsOk());
    kubeconfig_ = JoinPath(folder_->path(), "kubeconfig");
    ASSERT_THAT(
        WriteFileAtomic(kubeconfig_, server_->KubeConfig(KubeApiServer::kReaderToken, "ml")),
        IsOk());
    ASSERT_THAT(server_->CreateNamespace("ml"), IsOk());
    ASSERT_THAT(server_->Allow("reader", "ml", {"list", "watch"}), IsOk());
  }

  static constexpr char kIndexKey[] = "batch.kubernetes.io/job-completion-index";

  // A pod of an indexed Job, with its agent.
  void AddPod(const std::string& name, const std::string& job, int index) {
    ASSERT_THAT(server_->CreatePod(
                    "ml", name,
                    {.labels = {{"app", job}}, .annotations = {{kIndexKey, absl::StrCat(index)}}}),
                IsOk());
    StartAgentOf(name);
  }
  // What a kubelet does for a pod that is there: its program runs, and the server hears where.
  void StartAgentOf(const std::string& name) {
    const std::string ip = absl::StrCat("127.0.0.", next_host_++);
    auto agent = ListeningAgent::Start(port_ == 0 ? ip : absl::StrCat(ip, ":", port_), secret_);
    ASSERT_THAT(agent, IsOk());
    port_ = ParseHostPort((*agent)->address())->port;
    agents_[name] = *std::move(agent);
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

  // `millrace run` of a shell script on the workers' pods that there are. Its stdout has its stderr
  // too.
  std::unique_ptr<ChildProcess> Run(const std::string& script,
                                    const std::vector<std::string>& options = {}) const {
    std::vector<std::string> argv = {"/bin/sh",
                                     "-c",
                                     "exec \"$0\" \"$@\" 2>&1",
                                     RunfilePath("core/cli/millrace"),
                                     "run",
                                     "--on",
                                     "kubernetes",
                                     "--location",
                                     "off_cluster",
                                     "--kubeconfig",
                                     kubeconfig_,
                                     "--job",
                                     "worker=app=worker",
                                     "--port",
                                     absl::StrCat(port_),
                                     "--secret-file",
                                     secret_};
    argv.insert(argv.end(), options.begin(), options.end());
    argv.insert(argv.end(), {"--", "sh", "-c", script});
    auto run = ChildProcess::Start(argv);
    EXPECT_THAT(run, IsOk());
    return run.ok() ? *std::move(run) : nullptr;
  }

  // A script that says "here" and ends well once `go` has been called.
  std::string UntilGo() const {
    return absl::StrCat("echo here; while ! test -e ", GoFile(), "; do sleep 0.1; done");
  }
  void Go() const { EXPECT_THAT(WriteFileAtomic(GoFile(), "now"), IsOk()); }
  // In whatever order they come.
  static void ExpectHere(ChildProcess& run, int nodes) {
    for (int i = 0; i < nodes; ++i) ASSERT_THAT(run.WaitForLine("worker:", kLong), IsOk());
  }
  static void ExpectEndsWell(ChildProcess& run) {
    const auto exit = run.Wait(kLong);
    ASSERT_THAT(exit, IsOk());
    EXPECT_EQ(exit->code, 0);
  }

  // What each worker prints, in the order of workers; "" if it fails.
  std::string RunAll(const std::string& script) const {
    const auto run = Run(script);
    std::map<std::string, std::string> printed;
    for (auto line = run->WaitForLine("worker:", kLong); line.ok();
         line = run->WaitForLine("worker:", kLong)) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(*line, absl::MaxSplits("| ", 1));
      printed[parts.first] = parts.second;
    }
    const auto exit = run->Wait(kLong);
    if (!exit.ok() || !exit->ok()) return "";
    return absl::StrJoin(printed, " ", [](std::string* out, const auto& entry) {
      absl::StrAppend(out, entry.second);
    });
  }

  std::string GoFile() const { return JoinPath(folder_->path(), "go"); }

  std::unique_ptr<KubeApiServer> server_;
  std::unique_ptr<TempDir> folder_;
  std::string secret_;
  std::string kubeconfig_;
  int next_host_ = 2;
  int port_ = 0;
  std::map<std::string, std::unique_ptr<ListeningAgent>> agents_;
};

}  // namespace millrace

#endif  // EXAMPLES_HOSTS_PODS_TESTING_H_
