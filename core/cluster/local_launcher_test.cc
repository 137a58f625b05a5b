#include "millrace/local_launcher.h"

#include <signal.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/mutex.h"
#include "core/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kDeadline = absl::Seconds(30);

// What a launcher told, to be waited for.
class Record {
 public:
  Launcher::Events events() {
    Launcher::Events events;
    events.on_started = [this](int executor_id, int64_t pid) {
      MutexLock lock(&mu_);
      pids_[executor_id] = pid;
    };
    events.on_exit = [this](const AgentExit& end) {
      MutexLock lock(&mu_);
      ends_[end.executor_id] = end;
      changed_.SignalAll();
    };
    return events;
  }
  std::optional<AgentExit> WaitForEnd(int executor_id) {
    const absl::Time deadline = absl::Now() + kDeadline;
    MutexLock lock(&mu_);
    while (ends_.count(executor_id) == 0) {
      if (changed_.WaitWithDeadline(&mu_, deadline)) return std::nullopt;
    }
    return ends_[executor_id];
  }
  int64_t pid(int executor_id) {
    MutexLock lock(&mu_);
    return pids_[executor_id];
  }

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<int, int64_t> pids_;
  std::map<int, AgentExit> ends_;
};

class LocalLauncherTest : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("TMPDIR", ::testing::TempDir().c_str(), 1); }

  static std::string FakeAgent() {
    return absl::StrCat(::getenv("TEST_SRCDIR"), "/millrace/core/cluster/fake_agent.sh");
  }
  static std::vector<AgentTicket> Tickets(int count, const std::string& cluster_id) {
    std::vector<AgentTicket> tickets;
    for (int i = 0; i < count; ++i) {
      tickets.push_back({.executor_id = i,
                         .coordinator_address = "127.0.0.1:1",
                         .cluster_id = cluster_id,
                         .ca_pem = "PEM",
                         .identity_pem = "PEM",
                         .token = "s3cret",
                         .working_dir = "/"});
    }
    return tickets;
  }
  // The folder of an agent; empty if there is none.
  static std::string RuntimeDir(const std::string& cluster_id, int executor_id) {
    const std::string prefix = absl::StrCat("millrace-", cluster_id, "-", executor_id, ".");
    for (const auto& entry : std::filesystem::directory_iterator(::getenv("TMPDIR"))) {
      if (absl::StartsWith(entry.path().filename().string(), prefix)) return entry.path().string();
    }
    return "";
  }
  // What the fake agent was sent.
  static std::string WaitForStart(const std::string& cluster_id, int executor_id) {
    std::string start;
    EXPECT_TRUE(Eventually([&] {
      start = ReadFile(JoinPath(RuntimeDir(cluster_id, executor_id), "start")).value_or("");
      return absl::EndsWith(start, "\n");
    }));
    return start;
  }

  Record record_;
  LocalLauncher launcher_{{.agent_path = FakeAgent()}};
};

TEST_F(LocalLauncherTest, AnAgentThatIsNotThereIsNamed) {
  LocalLauncher launcher({.agent_path = "/nowhere/millrace-agent"});
  EXPECT_THAT(launcher.Launch(Tickets(1, "none"), record_.events()),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("/nowhere/millrace-agent"), HasSubstr("bazel build"))));
}

TEST_F(LocalLauncherTest, TheTicketGoesThroughStdinAndTheTokenIsNeverInArgv) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(2, "ticket"), record_.events()), IsOk());
  for (const int executor_id : {0, 1}) {
    const std::string start = WaitForStart("ticket", executor_id);
    EXPECT_THAT(start, HasSubstr(absl::StrCat("\"executor_id\":", executor_id)));
    EXPECT_THAT(start, HasSubstr("\"token\":\"s3cret\""));
    EXPECT_THAT(start, HasSubstr("\"working_dir\":\"/\""));
    const std::string proc = absl::StrCat("/proc/", record_.pid(executor_id));
    EXPECT_THAT(ReadFile(proc + "/cmdline").value_or(""),
                AllOf(HasSubstr("--parent=stdin"), Not(HasSubstr("s3cret"))));
    EXPECT_THAT(ReadFile(proc + "/environ").value_or(""), Not(HasSubstr("s3cret")));
  }
  launcher_.Stop(kDeadline);
  EXPECT_TRUE(record_.WaitForEnd(0)->exit.ok());
  EXPECT_TRUE(record_.WaitForEnd(1)->exit.ok());
  EXPECT_EQ(RuntimeDir("ticket", 0), "");
}

TEST_F(LocalLauncherTest, WhoeverIsToldOfAnAgentMayCallTheLauncher) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  Launcher::Events events = record_.events();
  absl::Status paused;
  events.on_started = [&](int /*executor_id*/, int64_t /*pid*/) { paused = launcher_.Pause(); };
  ASSERT_THAT(launcher_.Launch(Tickets(1, "told"), std::move(events)), IsOk());
  EXPECT_THAT(paused, StatusIs(absl::StatusCode::kFailedPrecondition));  // Launch goes on
  launcher_.Stop(kDeadline);
}

TEST_F(LocalLauncherTest, ManyAgentsShareAConnection) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  for (const int count : {7, 8}) {
    LocalLauncher launcher{{.agent_path = FakeAgent()}};
    const std::string id = absl::StrCat("share", count);
    ASSERT_THAT(launcher.Launch(Tickets(count, id), record_.events()), IsOk());
    EXPECT_EQ(absl::StrContains(WaitForStart(id, count - 1), "\"share_connection\":true"),
              count == 8);
    launcher.Stop(kDeadline);
  }
}

TEST_F(LocalLauncherTest, TheFolderOfAnAgentIsAnotherEachTime) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  std::set<std::string> folders;
  for (int round = 0; round < 3; ++round) {
    ASSERT_THAT(launcher_.Launch(Tickets(1, "again"), record_.events()), IsOk());
    ASSERT_NE(WaitForStart("again", 0), "");
    folders.insert(RuntimeDir("again", 0));
    launcher_.Stop(kDeadline);
  }
  EXPECT_EQ(folders.size(), 3u);
}

TEST_F(LocalLauncherTest, AnAgentHasAProcessGroupOfItsOwn) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "group"), record_.events()), IsOk());
  const pid_t pid = static_cast<pid_t>(record_.pid(0));
  EXPECT_EQ(::getpgid(pid), pid);
  EXPECT_EQ(::getsid(pid), ::getsid(0));
  launcher_.Stop(kDeadline);
}

TEST_F(LocalLauncherTest, AnAgentThatFailsSaysWhy) {
  ::setenv("FAKE_AGENT_MODE", "fail", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "fail"), record_.events()), IsOk());
  const std::optional<AgentExit> end = record_.WaitForEnd(0);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->pid, record_.pid(0));
  EXPECT_EQ(end->exit.code, 3);
  EXPECT_THAT(end->status, StatusIs(absl::StatusCode::kUnauthenticated, "the token is unknown"));
  EXPECT_THAT(end->stderr_tail, ElementsAre("first words", "last words"));
  EXPECT_EQ(RuntimeDir("fail", 0), "");
}

TEST_F(LocalLauncherTest, AnAgentOfAVersionTooFarAwayIsRefused) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  ::setenv("FAKE_AGENT_VERSION", "9.9.9", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "version"), record_.events()), IsOk());
  const std::optional<AgentExit> end = record_.WaitForEnd(0);
  ::unsetenv("FAKE_AGENT_VERSION");
  ASSERT_TRUE(end.has_value());
  EXPECT_THAT(end->status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                    AllOf(HasSubstr("millrace-agent is version 9.9.9 of Millrace"),
                                          HasSubstr("install the same version"))));
}

TEST_F(LocalLauncherTest, WhatIsNoProtocolIsIgnored) {
  ::setenv("FAKE_AGENT_MODE", "garbage", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "garbage"), record_.events()), IsOk());
  const std::optional<AgentExit> end = record_.WaitForEnd(0);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->exit.ok());
  EXPECT_THAT(end->status, IsOk());
}

TEST_F(LocalLauncherTest, AnAgentThatDoesNotEndIsKilledAfterTheGrace) {
  ::setenv("FAKE_AGENT_MODE", "ignore_eof", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "stubborn"), record_.events()), IsOk());
  WaitForStart("stubborn", 0);
  launcher_.Stop(absl::Milliseconds(50));
  EXPECT_EQ(record_.WaitForEnd(0)->exit.signal, SIGKILL);
  EXPECT_EQ(RuntimeDir("stubborn", 0), "");
}

TEST_F(LocalLauncherTest, AKilledAgentLeavesNoDirectory) {
  ::setenv("FAKE_AGENT_MODE", "ignore_eof", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "killed"), record_.events()), IsOk());
  WaitForStart("killed", 0);
  ASSERT_EQ(::kill(static_cast<pid_t>(record_.pid(0)), SIGKILL), 0);
  EXPECT_EQ(record_.WaitForEnd(0)->exit.signal, SIGKILL);
  EXPECT_EQ(RuntimeDir("killed", 0), "");
}

TEST_F(LocalLauncherTest, OneLauncherRunsOneClusterAtATime) {
  ::setenv("FAKE_AGENT_MODE", "until_eof", 1);
  ASSERT_THAT(launcher_.Launch(Tickets(1, "one"), record_.events()), IsOk());
  EXPECT_THAT(launcher_.Launch(Tickets(1, "two"), record_.events()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("use another")));
  launcher_.Stop(kDeadline);
  launcher_.Stop(kDeadline);  // again: nothing happens
  EXPECT_THAT(launcher_.Launch(Tickets(1, "three"), record_.events()), IsOk());
  launcher_.Stop(kDeadline);
}

}  // namespace
}  // namespace millrace
