#include "testing/kube_apiserver/kube_api_server.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/leak_check.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

TEST(KubeApiServerTest, StartsAnswersRestartsAndLeavesNothing) {
  if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
  LeakCheck leaks;
  {
    const auto started = KubeApiServer::Start({});
    ASSERT_THAT(started, IsOk());
    KubeApiServer& server = **started;
    ASSERT_THAT(server.CreateNamespace("n"), IsOk());
    ASSERT_THAT(server.CreateRunningPod("n", "a", {{"job", "w"}}, "10.1.0.1"), IsOk());
    EXPECT_THAT(server.CreateRunningPod("n", "a", {}, "10.1.0.1"),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("already exists")));

    ASSERT_THAT(server.Restart(SIGTERM), IsOk());
    const auto pod = server.Call("GET", "/api/v1/namespaces/n/pods/a");
    ASSERT_THAT(pod, IsOk());
    EXPECT_EQ((*pod)["status"]["podIP"], "10.1.0.1");

    ASSERT_THAT(server.Compact(), IsOk());
    ASSERT_THAT(server.DeletePod("n", "a"), IsOk());
    EXPECT_THAT(server.Call("GET", "/api/v1/namespaces/n/pods/a"),
                StatusIs(absl::StatusCode::kNotFound));
  }
  leaks.ExpectNothingLeft(absl::Seconds(10));
}

TEST(KubeApiServerTest, BothServersEndWithAKilledTest) {
  if (const auto why = KubeApiServer::Unavailable()) GTEST_SKIP() << *why;
  LeakCheck leaks;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto server = KubeApiServer::Start({});
    kill(getpid(), server.ok() ? SIGKILL : SIGTERM);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  // A process that is killed removes no files.
  for (const auto& entry : std::filesystem::directory_iterator(leaks.folder())) {
    leaks.AllowPath(entry.path().string());
  }
  leaks.ExpectNothingLeft(absl::Seconds(10));
}

}  // namespace
}  // namespace millrace
