// A shipped program lies where another local user can replace it. He does, right after the agent
// has looked at it: his program must never run as the agent's user.

#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/agent/agent_test_fixture.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/proto/spec_proto.h"
#include "gmock/gmock.h"
#include "millrace/cluster_spec.h"
#include "testing/attacks/other_user.h"
#include "testing/attacks/shared_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int kLongMs = 30'000;

class ProgramSwapTest : public AgentTest {
 protected:
  void SetUp() override {
    absl::StatusOr<OtherUser> other = OtherUser::Create();
    if (!other.ok()) GTEST_SKIP() << other.status().message();
    other_.emplace(*std::move(other));
    folder_.emplace();
    // The other user's: it does as he says, and says who it is.
    Write("evil", absl::StrCat("#!/bin/sh\ntouch ", folder_->Path("robbed"), "\n"));
    ASSERT_THAT(other_->Run({"/bin/cp", folder_->Path("evil"), folder_->Path("his")}), IsOk());
    ASSERT_THAT(other_->Run({"/bin/chmod", "755", folder_->Path("his")}), IsOk());
  }

  void Write(const std::string& name, const std::string& text) const {
    ASSERT_THAT(WriteFileAtomic(folder_->Path(name), text, 0755), IsOk());
  }

  // A cluster whose driver had `text` at this path, which this host has too.
  void Ship(const std::string& text, FakeCoordinator::Options options) {
    Write("program", text);
    options.program = folder_->Path("program");
    options.program_bytes = text;
    MakeCoordinator({}, std::move(options));
  }

  void Swap() const {
    EXPECT_THAT(other_->Run({"/bin/mv", "-f", folder_->Path("his"), folder_->Path("program")}),
                IsOk());
  }

  bool Robbed() const { return std::filesystem::exists(folder_->Path("robbed")); }

  std::optional<OtherUser> other_;
  std::optional<SharedFolder> folder_;
};

TEST_F(ProgramSwapTest, AfterTheHashItIsTooLate) {
  Ship("#!/bin/sh\necho honest\n", {.send_spec = false});
  const UniqueFd watch(inotify_init1(IN_CLOEXEC));
  ASSERT_GE(inotify_add_watch(watch.get(), folder_->Path("program").c_str(), IN_CLOSE_NOWRITE), 0);
  RunAgent();
  pollfd read_once{watch.get(), POLLIN, 0};
  ASSERT_EQ(poll(&read_once, 1, kLongMs), 1) << "nobody looked at the program";
  Swap();
  // Only now may the agent start it.
  ASSERT_TRUE(coordinator_->WaitForRegistrations(1));
  v1::CoordinatorMessage message;
  ClusterSpec spec;
  ASSERT_THAT(spec.SetTask("worker", 0, "127.0.0.1:1"), IsOk());
  *message.mutable_spec() = MakeSpecUpdate(spec, 1);
  coordinator_->Send(message);
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_EQ(Log(), "honest\n");
  EXPECT_FALSE(Robbed());
  EXPECT_THAT(RuntimeFiles(), ::testing::IsEmpty());
}

TEST_F(ProgramSwapTest, ALaterAttemptRunsWhatWasShippedToo) {
  FakeCoordinator::Options options;
  options.registered.set_restarts(true);
  Ship("#!/bin/sh\necho honest; exit 3\n", options);
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("restarting").is_null());
  Swap();
  v1::CoordinatorMessage message;
  message.mutable_start()->set_attempt(1);
  message.mutable_start()->set_nonce("nonce-1");
  coordinator_->Send(message);
  EXPECT_FALSE(agent_->ReadState("restarting").is_null());
  EXPECT_THAT(ReadFile(Path("log/worker-0.1.log")), IsOkAndHolds(HasSubstr("honest")));
  EXPECT_FALSE(Robbed());
  agent_->CloseStdin();
  agent_->WaitExit();
  EXPECT_THAT(RuntimeFiles(), ::testing::IsEmpty());
}

}  // namespace
}  // namespace millrace
