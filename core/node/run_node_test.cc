// RunNode in real processes, with the agent's side of a real socketpair.
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/node/fake_agent_channel.h"
#include "core/process/exit_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "millrace/node.h"

extern char** environ;

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Numbers in the node; far from those that the test has open itself.
constexpr int kControlFd = 200;
constexpr int kPortFd = 201;

class RunNodeTest : public testing::Test {
 protected:
  RunNodeTest() : dir_(*TempDir::Create("run_node")) {
    context_ = Json{{"protocol", 1},
                    {"cluster_id", "c1"},
                    {"executor_id", 1},
                    {"job_name", "worker"},
                    {"task_index", 1},
                    {"attempt", 0},
                    {"nonce", "0123456789abcdef"},
                    {"epoch", 1},
                    {"cluster_spec", {{"worker", {"h:1", "h:2"}}}},
                    {"num_workers", 2},
                    {"rank", 1},
                    {"local_rank", 1},
                    {"input_mode", "DIRECT"},
                    {"queues", {"input", "output"}},
                    {"address", "h:2"},
                    {"port", 2},
                    {"port_fd", kPortFd},
                    {"feed_budget_bytes", 1 << 20}};
    variables_["MILLRACE_CONTEXT_FILE"] = Path("context.json");
    variables_["MILLRACE_CONTROL_FD"] = absl::StrCat(kControlFd);
  }
  ~RunNodeTest() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }
  std::string Stderr() const { return *ReadFile(Path("stderr")); }
  std::string Stdout() const { return *ReadFile(Path("stdout")); }

  // Starts the program with the body `what`.
  void Start(const std::string& what) { Start(what, &agent_); }
  void Start(const std::string& what, FakeAgentChannel* agent) {
    ASSERT_THAT(WriteFileAtomic(Path("context.json"), DumpJson(context_)), IsOk());
    const UniqueFd control = agent->TakeNodeEnd();
    const UniqueFd port(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, control.get(), kControlFd);
    posix_spawn_file_actions_adddup2(&actions, port.get(), kPortFd);
    for (const auto& [fd, name] : {std::pair(1, "stdout"), std::pair(2, "stderr")}) {
      posix_spawn_file_actions_addopen(&actions, fd, Path(name).c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND, 0600);
    }
    std::vector<std::string> environment;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!absl::StartsWith(*entry, "MILLRACE_")) environment.emplace_back(*entry);
    }
    for (const auto& [name, value] : variables_) {
      environment.push_back(absl::StrCat(name, "=", value));
    }
    std::vector<char*> envp;
    for (std::string& entry : environment) envp.push_back(entry.data());
    envp.push_back(nullptr);
    std::string name = "node";
    std::string argument = what;
    char* argv[] = {name.data(), argument.data(), nullptr};
    const std::string program = ::getenv("NODE_PROGRAM");
    ASSERT_EQ(::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, envp.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
  }
  // How it ended: "exit code 0".
  std::string Wait() {
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    return DescribeExit(status);
  }
  std::string Run(const std::string& what) {
    Start(what);
    return HasFatalFailure() ? "not started" : Wait();
  }

  const TempDir dir_;
  Json context_;
  std::map<std::string, std::string> variables_;
  FakeAgentChannel agent_;
  pid_t pid_ = 0;
};

TEST_F(RunNodeTest, ReturnsZeroAndSaysNothingWhenTheBodyIsFine) {
  EXPECT_EQ(Run("ok"), "exit code 0");
  EXPECT_EQ(Stderr(), "");
  agent_.WaitForEnd();
  const std::vector<FakeAgentChannel::Request> requests = agent_.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].method, "hello");
  EXPECT_EQ(requests[1].method, "ready");
  EXPECT_EQ(requests[2].method, "exit");
  EXPECT_EQ(requests[2].params, (Json{{"code", "OK"}, {"message", ""}}));
}

TEST_F(RunNodeTest, ReturnsOneAndPrintsTheErrorInOneLine) {
  EXPECT_EQ(Run("fail"), "exit code 1");
  EXPECT_EQ(Stderr(), "millrace: worker:1: INVALID_ARGUMENT: bad\\nweights: \\x1b[31m\\xff\n");
  const Json exit = agent_.WaitFor("exit").params;
  EXPECT_EQ(exit["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(GetString(exit, "message"), IsOkAndHolds(StartsWith("bad\nweights: ")));
}

TEST_F(RunNodeTest, RunsUntilItIsAskedToStop) {
  Start("wait");
  (void)agent_.WaitFor("metric");  // the body runs
  agent_.Push(Json{{"push", "stop"}, {"reason", "test"}});
  EXPECT_EQ(Wait(), "exit code 0");
}

TEST_F(RunNodeTest, EndsAtOnceWhenTheAgentIsGone) {
  Start("wait");
  (void)agent_.WaitFor("metric");  // the body runs
  agent_.Close();
  EXPECT_EQ(Wait(), "exit code 70");
  EXPECT_EQ(Stderr(), "millrace: worker:1: UNAVAILABLE: the agent is gone\n");
}

TEST_F(RunNodeTest, EndsInTheSameWayWhenACallNoticesFirst) {
  for (const char* method : {"hello", "ready", "kv.get"}) {
    FakeAgentChannel agent;
    agent.Answer(method, [&agent](const Json&) {
      agent.Close();
      return std::nullopt;
    });
    ::unlink(Path("stderr").c_str());
    Start("get", &agent);
    EXPECT_EQ(Wait(), "exit code 70") << method;
    EXPECT_EQ(Stderr(), "millrace: worker:1: UNAVAILABLE: the agent is gone\n");
  }
}

TEST_F(RunNodeTest, EndsWhenTheAgentSendsGarbage) {
  Start("wait");
  (void)agent_.WaitFor("metric");  // the body runs
  agent_.SendBytes(ControlFrame("garbage"));
  EXPECT_EQ(Wait(), "exit code 70");
  EXPECT_EQ(Stderr(),
            "millrace: worker:1: DATA_LOSS: the agent sent a control frame that is no JSON "
            "object\n");
}

TEST_F(RunNodeTest, KeepsItsExitCodeWhenTheAgentLeavesAfterTheExitNotice) {
  agent_.Answer("exit", [this](const Json&) {
    agent_.Close();
    return std::nullopt;
  });
  EXPECT_EQ(Run("ok"), "exit code 0");
  EXPECT_EQ(Stderr(), "");
}

TEST_F(RunNodeTest, IgnoresSigpipe) {
  EXPECT_EQ(Run("sigpipe"), "exit code 0");
  EXPECT_EQ(Stderr(), "");
}

TEST_F(RunNodeTest, KeepsItsDescriptorsFromItsChildren) {
  EXPECT_EQ(Run("child"), "exit code 0");
  EXPECT_EQ(Stderr(), "");
}

TEST_F(RunNodeTest, IsNoNodeInsideANode) {
  EXPECT_EQ(Run("inner"), "exit code 0");
  EXPECT_THAT(Stderr(),
              HasSubstr(absl::StrCat("FAILED_PRECONDITION: MILLRACE_CONTROL_FD: descriptor ",
                                     kControlFd, " is not the control channel of an agent\n")));
  agent_.WaitForEnd();
  EXPECT_EQ(agent_.requests().size(), 3u);  // of the outer one
}

TEST_F(RunNodeTest, EndsWithOneWhenItAsksForAFeedThatIsNotThere) {
  context_["input_mode"] = "FEED";
  EXPECT_EQ(Run("no_feed"), "exit code 1");
  EXPECT_THAT(Stderr(), StartsWith("millrace: worker:1: NOT_FOUND: GetDataFeed: "));
  EXPECT_EQ(Stdout(), "before\n");
  EXPECT_EQ(agent_.WaitFor("exit").params["code"], "NOT_FOUND");
}

// ---- no place -----------------------------------------------------------------------------------

TEST_F(RunNodeTest, ReturnsTwoWhenNobodyStartedIt) {
  variables_.clear();
  EXPECT_EQ(Run("ok"), "exit code 2");
  EXPECT_EQ(Stderr(),
            "millrace: node: FAILED_PRECONDITION: this is a Millrace node program: a cluster "
            "starts it, it does not run by itself (MILLRACE_CONTEXT_FILE is not set)\n");
}

TEST_F(RunNodeTest, ReturnsTwoForAContextThatItCannotRead) {
  context_.erase("job_name");
  EXPECT_EQ(Run("ok"), "exit code 2");
  EXPECT_EQ(Stderr(), absl::StrCat("millrace: node: INVALID_ARGUMENT: ", Path("context.json"),
                                   ": field \"job_name\" is missing\n"));
}

TEST_F(RunNodeTest, ReturnsTwoForAnAgentOfAnotherVersion) {
  context_["protocol"] = 2;
  EXPECT_EQ(Run("ok"), "exit code 2");
  EXPECT_THAT(Stderr(), HasSubstr("UNIMPLEMENTED: "));
}

TEST_F(RunNodeTest, ReturnsTwoForADescriptorThatIsNone) {
  for (const char* fd : {"", "x", "-1", "3.5", "99999999999"}) {
    variables_["MILLRACE_CONTROL_FD"] = fd;
    ::unlink(Path("stderr").c_str());
    EXPECT_EQ(Run("ok"), "exit code 2");
    EXPECT_EQ(Stderr(),
              absl::StrCat("millrace: node: FAILED_PRECONDITION: MILLRACE_CONTROL_FD must be the "
                           "number of an open descriptor, found \"",
                           fd, "\"\n"));
  }
}

TEST_F(RunNodeTest, DoesNotTakeADescriptorThatIsSomethingElse) {
  variables_["MILLRACE_CONTROL_FD"] = "2";  // or the line below could not be written
  EXPECT_EQ(Run("ok"), "exit code 2");
  EXPECT_EQ(Stderr(),
            "millrace: node: FAILED_PRECONDITION: MILLRACE_CONTROL_FD: descriptor 2 is not the "
            "control channel of an agent\n");
}

TEST_F(RunNodeTest, ReturnsTwoAndTheAgentsReasonWhenItIsRefused) {
  agent_.Answer("hello", [](const Json&) { return absl::FailedPreconditionError("not you"); });
  EXPECT_EQ(Run("ok"), "exit code 2");
  EXPECT_EQ(Stderr(), "millrace: node: FAILED_PRECONDITION: not you\n");
}

}  // namespace
}  // namespace millrace
