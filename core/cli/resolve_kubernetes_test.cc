// `millrace resolve kubernetes` against a real API server. Other sources: resolve_test.py.

#include <signal.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/file.h"
#include "core/base/status_matchers.h"
#include "core/cli/output/exit_code.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/child_process.h"
#include "testing/kube_apiserver/kube_api_server.h"

namespace millrace {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

class ResolveKubernetesTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
    auto server = KubeApiServer::Start({});
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    auto folder = TempDir::Create("resolve");
    ASSERT_THAT(folder, IsOk());
    folder_ = std::make_unique<TempDir>(*std::move(folder));
    ASSERT_THAT(server_->CreateNamespace("ml"), IsOk());
    AddWorker(0, "10.1.0.1");
    AddWorker(1, "fd00::2");
  }

  void AddWorker(int index, const std::string& ip) const {
    ASSERT_THAT(server_->CreateRunningPod("ml", absl::StrCat("worker-", index), {{"app", "w"}}, ip),
                IsOk());
  }

  // `millrace resolve kubernetes` with these arguments, as the user of `token`.
  std::unique_ptr<ChildProcess> Resolve(const std::string& token,
                                        const std::vector<std::string>& args) const {
    const std::string config = JoinPath(folder_->path(), token);
    EXPECT_THAT(WriteFileAtomic(config, server_->KubeConfig(token, "ml")), IsOk());
    std::vector<std::string> argv = {RunfilePath("core/cli/millrace"),
                                     "resolve",
                                     "kubernetes",
                                     "--kubeconfig",
                                     config,
                                     "--location",
                                     "off_cluster",
                                     "--job",
                                     "worker=app=w",
                                     "--max-backoff",
                                     "1s"};
    argv.insert(argv.end(), args.begin(), args.end());
    auto child = ChildProcess::Start(argv);
    EXPECT_THAT(child, IsOk());
    return child.ok() ? *std::move(child) : nullptr;
  }

  // Its line that begins with `prefix`, and the code it then ends with.
  static void ExpectAnswer(ChildProcess* child, const std::string& line) {
    EXPECT_THAT(child->WaitForLine(line, kPatience), IsOkAndHolds(line));
    const auto end = child->Wait(kPatience);
    ASSERT_THAT(end, IsOk());
    EXPECT_EQ(end->code, 0);
  }

  static void ExpectExit(ChildProcess* child, int code) {
    const auto end = child->Wait(kPatience);
    ASSERT_THAT(end, IsOk());
    EXPECT_EQ(end->code, code);
  }

  std::unique_ptr<KubeApiServer> server_;
  std::unique_ptr<TempDir> folder_;
};

TEST_F(ResolveKubernetesTest, AnswersRefusesAndWatches) {
  ExpectAnswer(Resolve(KubeApiServer::kAdminToken, {}).get(),
               R"({"worker":["10.1.0.1:8470","[fd00::2]:8470"]})");
  ExpectAnswer(
      Resolve(KubeApiServer::kAdminToken, {"--format", "hosts", "--job-port", "worker=7"}).get(),
      "worker:0 10.1.0.1:7");
  ExpectExit(Resolve(KubeApiServer::kNobodyToken, {}).get(), cli::kExitDenied);
  ExpectExit(Resolve(KubeApiServer::kAdminToken,
                     {"--expect", "worker=3", "--complete", "wait", "--wait-timeout", "1s"})
                 .get(),
             cli::kExitTimeout);

  const auto watch = Resolve(KubeApiServer::kAdminToken, {"--watch", "--complete", "available"});
  ASSERT_THAT(watch->WaitForLine(R"({"worker":["10.1.0.1:8470","[fd00::2]:8470"]})", kPatience),
              IsOk());
  ASSERT_THAT(server_->Restart(SIGKILL), IsOk());
  AddWorker(2, "10.1.0.3");
  ASSERT_THAT(watch->WaitForLine(R"({"worker":["10.1.0.1:8470","[fd00::2]:8470","10.1.0.3:8470"]})",
                                 kPatience),
              IsOk());
  ASSERT_THAT(server_->DeletePod("ml", "worker-2"), IsOk());
  ASSERT_THAT(watch->WaitForLine(R"({"worker":["10.1.0.1:8470","[fd00::2]:8470"]})", kPatience),
              IsOk());
  watch->Kill(SIGINT);
  ExpectExit(watch.get(), cli::kExitSignalBase + SIGINT);
}

}  // namespace
}  // namespace millrace
