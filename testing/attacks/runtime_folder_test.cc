// Another local user makes the folders that a cluster's agents would have, or links in their place.
// No agent minds, neither the first one of a slot nor those that are started again.

#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>

#include <filesystem>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/agent/agent_test_fixture.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "millrace/agent_exit.h"
#include "millrace/agent_ticket.h"
#include "millrace/local_launcher.h"
#include "testing/attacks/other_user.h"
#include "testing/attacks/shared_folder.h"

namespace millrace {
namespace {

class RuntimeFolderTest : public AgentTest {
 protected:
  void SetUp() override {
    absl::StatusOr<OtherUser> other = OtherUser::Create();
    if (!other.ok()) GTEST_SKIP() << other.status().message();
    other_.emplace(*std::move(other));
    folder_.emplace(01777);
    ASSERT_EQ(setenv("TMPDIR", folder_->path().c_str(), 1), 0);
  }

  AgentTicket Ticket() const {
    const Json params = coordinator_->StartParams();
    return {.executor_id = 0,
            .coordinator_address = params.value("address", ""),
            .cluster_id = "known",
            .ca_pem = params.value("ca_pem", ""),
            .identity_pem = params.value("identity_pem", ""),
            .token = params.value("token", ""),
            .working_dir = "/"};
  }

  Launcher::Events Events() {
    return {.on_started =
                [this](int, int64_t pid) {
                  MutexLock lock(&mu_);
                  pid_ = static_cast<pid_t>(pid);
                },
            .on_exit =
                [this](const AgentExit&) {
                  MutexLock lock(&mu_);
                  ++ended_;
                  changed_.SignalAll();
                }};
  }

  pid_t Pid() {
    MutexLock lock(&mu_);
    return pid_;
  }

  bool WaitForEnds(int count) {
    const absl::Time deadline = absl::Now() + absl::Seconds(30);
    MutexLock lock(&mu_);
    while (ended_ < count) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) return false;
    }
    return true;
  }

  std::optional<OtherUser> other_;
  std::optional<SharedFolder> folder_;
  Mutex mu_;
  CondVar changed_;
  pid_t pid_ ABSL_GUARDED_BY(mu_) = 0;
  int ended_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_F(RuntimeFolderTest, NamesThatAreTakenHoldUpNobody) {
  MakeCoordinator({}, {.send_spec = false});
  ASSERT_THAT(other_->Run({"/bin/mkdir", folder_->Path("millrace-known-0"),
                           folder_->Path("millrace-known-0.1")}),
              IsOk());
  ASSERT_THAT(other_->Run({"/bin/ln", "-s", "/", folder_->Path("millrace-known-0.2")}), IsOk());
  LocalLauncher launcher({.agent_path = TestFile("millrace-agent")});
  ASSERT_THAT(launcher.Launch({Ticket()}, Events()), IsOk());
  for (int round = 1; round <= 3; ++round) {
    ASSERT_TRUE(coordinator_->WaitForRegistrations(round)) << "agent " << round;
    ASSERT_EQ(kill(Pid(), SIGKILL), 0);
    ASSERT_TRUE(WaitForEnds(round));
    if (round == 3) break;
    ASSERT_THAT(launcher.Relaunch(Ticket()), IsOk());
  }
  launcher.Stop(absl::Seconds(10));
  // What is left is the other user's.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_->path()),
                          std::filesystem::directory_iterator()),
            3);
}

}  // namespace
}  // namespace millrace
