#include "core/agent/node/node_runner.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "core/agent/loop/child_reaper.h"
#include "core/agent/loop/event_loop.h"
#include "core/agent/node/control_channel.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Lt;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

constexpr absl::Duration kPatience = absl::Seconds(60);
// For intervals and deadlines that no test reaches.
constexpr absl::Duration kNever = absl::Hours(10);

// Shell for a node that writes `frame` to its control channel.
std::string Says(const std::string& frame) {
  const absl::StatusOr<Json> parsed = ParseJson(frame);
  EXPECT_THAT(parsed, IsOk()) << frame;
  std::string command = "printf '";
  for (const char byte : EncodeFrame(*parsed)) {
    const int value = static_cast<unsigned char>(byte);
    absl::StrAppend(&command, "\\", value / 64, value / 8 % 8, value % 8);
  }
  return command + "' >&3\n";
}

// Shell for a node that reads `frame` from its control channel, and ends if something else comes.
std::string Hears(const Json& frame) {
  const std::string text = DumpJson(frame);
  return absl::StrCat("got=$(head -c ", EncodeFrame(frame).size(), " <&3 | tail -c ", text.size(),
                      ")\n[ \"$got\" = '", text, "' ] || { echo \"$got\" >&2; exit 99; }\n");
}

constexpr char kHello[] = R"({"method":"hello","params":{"protocol":1}})";

// The node programs are shell scripts. They write a word into the pipe `told` when they have come
// to a place, and read a line of the pipe `go` to be sent on.
class NodeRunnerTest : public ::testing::Test {
 protected:
  NodeRunnerTest()
      : dir_(*TempDir::Create()),
        loop_(*EventLoop::Create()),
        reaper_(*ChildReaper::Create(loop_.get())) {
    EXPECT_EQ(mkfifo(Path("told").c_str(), 0600), 0);
    EXPECT_EQ(mkfifo(Path("go").c_str(), 0600), 0);
    // Read and write: without an end of file, whoever else has it open.
    told_.reset(open(Path("told").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    go_.reset(open(Path("go").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
    EXPECT_THAT(loop_->Watch(told_.get(), EPOLLIN, [this](uint32_t) { ReadTold(); }), IsOk());
    runner_ = std::make_unique<NodeRunner>(loop_.get(), reaper_.get(), MakeHooks());
  }
  ~NodeRunnerTest() override {
    runner_.reset();
    reaper_->EndOrphans(kPatience);
    loop_->Unwatch(told_.get());
  }

  NodeRunner::Hooks MakeHooks() {
    return {
        .send =
            [this](v1::AgentMessage message, bool /*droppable*/) {
              if (message.has_log()) logs_.push_back(message.log());
              if (message.has_sample()) samples_.push_back(message.sample());
              if (message.has_metric() || message.has_kv()) requests_.push_back(message);
              return true;
            },
        .on_endpoints =
            [this](const v1::NodeEndpoints& endpoints) {
              events_.push_back("endpoints");
              endpoints_ = endpoints;
            },
        .on_release_port = [this] { events_.push_back("release port"); },
        .on_gpu_claim =
            [](const GpuRequest& request, const auto& done) {
              done(std::vector<std::string>(request.count, "GPU-1"));
            },
        .on_gpu_release =
            [this](const std::vector<std::string>& ids) {
              events_.push_back(absl::StrCat("release ", ids.size(), " GPUs"));
              return absl::OkStatus();
            },
        .on_bytes = [this](v1::LogLines::Source,
                           absl::string_view bytes) { absl::StrAppend(&bytes_, bytes); },
        .on_output_end = [this] { events_.push_back("end of output"); },
        .on_running =
            [this](pid_t pid) {
              events_.push_back("running");
              EXPECT_EQ(pid, runner_->pid());
            },
        .on_stopped = [this](int signal) { events_.push_back(absl::StrCat("stopped ", signal)); },
        .on_launch_failed =
            [this](const absl::Status& status) {
              events_.push_back("launch failed");
              launch_error_ = status;
            },
        .on_ended =
            [this](const ExitStatus& exit) {
              events_.push_back(DescribeExit(exit));
              exit_ = exit;
            },
    };
  }

  NodeRunner::Options MakeOptions(const std::string& script) {
    NodeRunner::Options options;
    v1::Registered& registered = options.environment.registered;
    registered.set_cluster_id("c");
    registered.set_job_name("worker");
    registered.set_task_index(0);
    registered.set_attempt(2);
    registered.set_nonce("0123456789abcdef");
    registered.mutable_node()->set_num_workers(1);
    EXPECT_THAT(options.environment.cluster_spec.AddJob("worker", {"127.0.0.1:9"}), IsOk());
    options.environment.address = "127.0.0.1:9";
    options.environment.port = 9;
    options.environment.working_dir = dir_.path();
    options.environment.context_path = Path("context.json");
    options.environment.inherited = {"PATH=/usr/bin:/bin"};
    options.program = "/bin/sh";
    options.args = {"-c", script};
    options.log_path = Path("node.log");
    options.stop_timeout = kNever;
    options.sample_interval = kNever;
    return options;
  }
  // Lets the script begin when the runner knows that it runs: a node that has said hello before is
  // asked for a sample of its feed at once.
  void Launch(NodeRunner::Options options) {
    options.args[1] = absl::StrCat("read line <go\n", options.args[1]);
    ASSERT_THAT(runner_->Launch(std::move(options)), IsOk());
    ASSERT_TRUE(WaitFor("running"));
    Go();
  }
  void Launch(const std::string& script) { Launch(MakeOptions(script)); }

  bool Wait(absl::AnyInvocable<bool()> done) { return loop_->RunUntil(std::move(done), kPatience); }
  bool WaitFor(const std::string& event) {
    return Wait([&] { return std::find(events_.begin(), events_.end(), event) != events_.end(); });
  }
  // How the program ended.
  std::string End() {
    Wait([&] { return exit_.has_value(); });
    return exit_.has_value() ? DescribeExit(*exit_) : "it still runs";
  }
  // Nothing of the node is left, not even a zombie.
  bool WaitForNoChildren() {
    return Wait([] {
      siginfo_t info = {};
      return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
    });
  }
  void Go() { ASSERT_EQ(write(go_.get(), "\n", 1), 1); }
  std::string Path(absl::string_view name) const { return JoinPath(dir_.path(), name); }

  std::vector<std::string> Lines(v1::LogLines::Source source) const {
    std::vector<std::string> lines;
    for (const v1::LogLines& log : logs_) {
      if (log.source() == source) lines.insert(lines.end(), log.lines().begin(), log.lines().end());
    }
    return lines;
  }

  TempDir dir_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<ChildReaper> reaper_;
  UniqueFd told_;
  UniqueFd go_;
  std::unique_ptr<NodeRunner> runner_;

  std::vector<std::string> events_;  // "told WORD" among them
  std::vector<v1::LogLines> logs_;
  std::vector<v1::NodeSample> samples_;
  std::vector<v1::AgentMessage> requests_;
  v1::NodeEndpoints endpoints_;
  absl::Status launch_error_;
  std::optional<ExitStatus> exit_;
  std::string bytes_;

 private:
  void ReadTold() {
    char buffer[4096];
    const ssize_t got = read(told_.get(), buffer, sizeof(buffer));
    ASSERT_GT(got, 0);
    const absl::string_view text(buffer, static_cast<size_t>(got));
    for (const absl::string_view word : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      events_.push_back(absl::StrCat("told ", word));
    }
  }
};

TEST_F(NodeRunnerTest, OutputAndEndOfAProgramAreToldInOrder) {
  Launch("echo out; echo err >&2; exit 3");
  EXPECT_TRUE(runner_->alive());
  ASSERT_EQ(End(), "exit code 3");
  EXPECT_THAT(events_, ElementsAre("running", "end of output", "exit code 3"));
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDOUT), ElementsAre("out"));
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDERR), ElementsAre("err"));
  for (const v1::LogLines& log : logs_) EXPECT_EQ(log.attempt(), 2u);
  EXPECT_THAT(bytes_, AllOf(HasSubstr("out\n"), HasSubstr("err\n")));
  EXPECT_THAT(runner_->StderrTail(), ElementsAre("err"));
  EXPECT_TRUE(runner_->Flush(kPatience));
  EXPECT_THAT(ReadFile(Path("node.log")),
              IsOkAndHolds(AllOf(HasSubstr("out\n"), HasSubstr("err\n"))));
  EXPECT_FALSE(runner_->alive());
  EXPECT_EQ(runner_->said_exit(), std::nullopt);
  EXPECT_EQ(runner_->killed_as_stopped_by(), 0);
}

TEST_F(NodeRunnerTest, TheNodeFindsItsContextItsChannelAndItsPort) {
  UniqueFd port(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_TRUE(port.valid());
  NodeRunner::Options options = MakeOptions(
      "[ -S /proc/self/fd/3 ] && [ -S /proc/self/fd/4 ] && [ ! -e /proc/self/fd/5 ] || exit 98\n"
      "echo \"$MILLRACE_CONTROL_FD $RANK $(stat -c %a \"$MILLRACE_CONTEXT_FILE\") $1\"");
  options.args.insert(options.args.end(), {"name", "argument"});
  options.port_fd = port.get();
  Launch(std::move(options));
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDOUT), ElementsAre("3 0 600 argument"));
  const absl::StatusOr<std::string> context = ReadFile(Path("context.json"));
  ASSERT_THAT(context, IsOk());
  const absl::StatusOr<Json> parsed = ParseJson(*context);
  ASSERT_THAT(parsed, IsOk());
  EXPECT_EQ((*parsed)["port_fd"], 4);
  EXPECT_EQ((*parsed)["attempt"], 2);
  EXPECT_EQ((*parsed)["nonce"], "0123456789abcdef");
}

TEST_F(NodeRunnerTest, AClusterTooLargeForTheEnvironmentIsSaid) {
  NodeRunner::Options options = MakeOptions("echo ${TF_CONFIG-none} ${MILLRACE_CONTEXT-none}");
  std::vector<std::string> addresses;
  for (int i = 0; i < 5000; ++i) addresses.push_back(absl::StrCat("a-host-with-a-name:", 9000 + i));
  options.environment.cluster_spec = {};
  ASSERT_THAT(options.environment.cluster_spec.AddJob("worker", addresses), IsOk());
  Launch(std::move(options));
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDOUT), ElementsAre("none none"));
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_AGENT),
              ElementsAre(AllOf(HasSubstr("TF_CONFIG"), HasSubstr("not set: over 96 KiB"),
                                HasSubstr("MILLRACE_CONTEXT_FILE"))));
}

TEST_F(NodeRunnerTest, AProgramThatIsNotThereIsALaunchFailureAndNothingFollows) {
  NodeRunner::Options options = MakeOptions("");
  options.program = Path("missing");
  ASSERT_THAT(runner_->Launch(std::move(options)), IsOk());
  ASSERT_TRUE(WaitFor("launch failed"));
  EXPECT_THAT(launch_error_, StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("missing"))));
  ASSERT_TRUE(WaitForNoChildren());
  EXPECT_THAT(events_, ElementsAre("launch failed"));
  EXPECT_FALSE(runner_->alive());
  EXPECT_THAT(samples_, IsEmpty());
}

TEST_F(NodeRunnerTest, WhatCannotBePreparedStartsNothing) {
  NodeRunner::Options options = MakeOptions("");
  options.args = {std::string("zero\0byte", 9)};
  EXPECT_THAT(runner_->Launch(std::move(options)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("zero byte")));
  EXPECT_FALSE(runner_->alive());

  runner_ = std::make_unique<NodeRunner>(loop_.get(), reaper_.get(), MakeHooks());
  options = MakeOptions("");
  options.environment.context_path = Path("missing/context.json");
  EXPECT_THAT(runner_->Launch(std::move(options)),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(Path("missing"))));
  EXPECT_FALSE(runner_->alive());

  runner_ = std::make_unique<NodeRunner>(loop_.get(), reaper_.get(), MakeHooks());
  options = MakeOptions("");
  (*options.environment.registered.mutable_node()->mutable_env())["A=B"] = "1";
  EXPECT_THAT(runner_->Launch(std::move(options)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("A=B")));
  EXPECT_FALSE(runner_->alive());
  EXPECT_EQ(runner_->pid(), 0);
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(NodeRunnerTest, WhatTheNodeSaysComesToTheHooksItsLastWordsIncluded) {
  Launch(absl::StrCat(
      Says(kHello), Says(R"({"method":"ready","params":{"other":{"board":"127.0.0.1:6006"}}})"),
      Says(R"({"method":"metric","params":{"name":"loss","step":7,"value":0.5}})"),
      Says(R"({"method":"log","params":{"level":"warning","message":"low disk"}})"),
      Says(R"({"method":"release_port"})"),
      Says(R"({"method":"gpu.release","params":{"ids":["GPU-1"]}})"),
      Says(R"({"method":"exit","params":{"code":"DATA_LOSS","message":"bad row"}})"), "exit 1"));
  ASSERT_EQ(End(), "exit code 1");
  EXPECT_THAT(events_,
              AllOf(Contains("endpoints"), Contains("release port"), Contains("release 1 GPUs")));
  EXPECT_EQ(endpoints_.other().at("board"), "127.0.0.1:6006");
  ASSERT_EQ(requests_.size(), 1u);
  EXPECT_EQ(requests_[0].metric().name(), "loss");
  EXPECT_EQ(requests_[0].metric().step(), 7);
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDERR), Contains("[warning] low disk"));
  EXPECT_EQ(runner_->said_exit(), absl::DataLossError("bad row"));
  ASSERT_FALSE(samples_.empty());
  EXPECT_EQ(samples_.back().step(), 7);
}

TEST_F(NodeRunnerTest, ARequestThatTheCoordinatorAnswersSurvivesALostStream) {
  Launch(absl::StrCat(Says(kHello),
                      Says(R"({"id":5,"method":"kv.add","params":{"key":"n","delta":2}})"),
                      Hears(Json{{"id", 5}, {"result", {{"value", 42}}}})));
  ASSERT_TRUE(Wait([&] { return requests_.size() == 1; }));
  EXPECT_EQ(requests_[0].kv().add(), 2);
  runner_->OnLost();
  runner_->OnRegistered();
  ASSERT_EQ(requests_.size(), 2u);
  EXPECT_EQ(requests_[1].kv().request_id(), requests_[0].kv().request_id());
  v1::KvReply reply;
  reply.set_request_id(requests_[1].kv().request_id());
  reply.set_value("42");
  runner_->HandleKvReply(reply);
  EXPECT_EQ(End(), "exit code 0");
}

TEST_F(NodeRunnerTest, ANodeThatSaidHelloIsAskedToStopAndNotSignalled) {
  Launch(absl::StrCat("trap 'exit 97' TERM\n", Says(kHello), Says(R"({"method":"release_port"})"),
                      Hears(Json{{"push", "stop"}, {"reason", "shutdown"}})));
  ASSERT_TRUE(WaitFor("release port"));  // hence hello has been read too
  runner_->Stop("shutdown", kNever);
  EXPECT_EQ(End(), "exit code 0");
}

TEST_F(NodeRunnerTest, ANodeThatDoesNotHeedTheRequestToStopGetsSigtermAfterItsGrace) {
  Launch(absl::StrCat("trap 'exit 7' TERM\n", Says(kHello), Says(R"({"method":"release_port"})"),
                      "while :; do read line <go; done"));
  ASSERT_TRUE(WaitFor("release port"));
  runner_->Stop("shutdown", absl::Milliseconds(1));
  EXPECT_EQ(End(), "exit code 7");
}

TEST_F(NodeRunnerTest, APlainProgramGetsSigtermAtOnce) {
  Launch("trap 'echo saved; exit 0' TERM; echo ready >told; while :; do read line <go; done");
  ASSERT_TRUE(WaitFor("told ready"));
  runner_->Stop("shutdown", kNever);
  EXPECT_EQ(End(), "exit code 0");
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDOUT), ElementsAre("saved"));
}

TEST_F(NodeRunnerTest, KillEndsAProgramThatIgnoresSignals) {
  Launch("trap '' TERM; echo ready >told; while :; do read line <go; done");
  ASSERT_TRUE(WaitFor("told ready"));
  runner_->Kill();
  EXPECT_EQ(End(), "signal 9 (SIGKILL)");
  EXPECT_EQ(runner_->killed_as_stopped_by(), 0);
}

TEST_F(NodeRunnerTest, WhatLeftTheProcessGroupIsKilledAndDoesNotHoldUpTheEnd) {
  // It keeps the node's stdout and stderr open.
  Launch("setsid sh -c 'echo $$ >told; exec sleep 100000' & read line <go; exit 0");
  std::string told;
  ASSERT_TRUE(Wait([&] {
    const auto found = std::find_if(events_.begin(), events_.end(), [](const std::string& event) {
      return absl::StartsWith(event, "told ");
    });
    if (found != events_.end()) told = *found;
    return !told.empty();
  }));
  pid_t orphan = 0;
  ASSERT_TRUE(absl::SimpleAtoi(told.substr(5), &orphan)) << told;
  Go();
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_TRUE(WaitForNoChildren());
  EXPECT_EQ(kill(orphan, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(NodeRunnerTest, AStopBySignalAndItsEndAreTold) {
  Launch("kill -STOP $$; read line <go");
  const std::string stopped = absl::StrCat("stopped ", SIGSTOP);
  ASSERT_TRUE(WaitFor(stopped));
  ASSERT_EQ(kill(runner_->pid(), SIGCONT), 0);
  ASSERT_TRUE(WaitFor("stopped 0"));
  Go();
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_THAT(events_,
              ElementsAre("running", stopped, "stopped 0", "end of output", "exit code 0"));
  EXPECT_EQ(runner_->killed_as_stopped_by(), 0);
}

TEST_F(NodeRunnerTest, AProgramThatStaysStoppedIsKilled) {
  NodeRunner::Options options = MakeOptions("kill -STOP $$; echo on");
  options.stop_timeout = absl::Milliseconds(1);
  Launch(std::move(options));
  ASSERT_EQ(End(), "signal 9 (SIGKILL)");
  EXPECT_EQ(runner_->killed_as_stopped_by(), SIGSTOP);
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDOUT), IsEmpty());
}

TEST_F(NodeRunnerTest, APausedProgramMayStaySoAndIsNotReportedAsStopped) {
  NodeRunner::Options options = MakeOptions("echo ready >told; read line <go; echo on");
  options.stop_timeout = absl::ZeroDuration();
  Launch(std::move(options));
  ASSERT_TRUE(WaitFor("told ready"));
  runner_->SetPaused(true);
  ASSERT_TRUE(Wait([&] {  // the third field of its stat, after the name in parentheses
    const absl::StatusOr<std::string> stat =
        ReadFile(absl::StrCat("/proc/", runner_->pid(), "/stat"));
    return stat.ok() && stat->find(") T ") != std::string::npos;
  }));
  Go();
  runner_->SetPaused(false);
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_THAT(events_, Not(Contains(absl::StrCat("stopped ", SIGSTOP))));
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_STDOUT), ElementsAre("on"));
}

TEST_F(NodeRunnerTest, HeldOutputStaysInThePipeUntilItIsTakenAgain) {
  Launch("read line <go; echo first; echo written >told; read line <go");
  runner_->HoldOutput(true);
  Go();
  ASSERT_TRUE(WaitFor("told written"));
  EXPECT_EQ(bytes_, "");
  runner_->HoldOutput(false);
  EXPECT_TRUE(Wait([&] { return bytes_ == "first\n"; }));
  runner_->HoldOutput(true);
  Go();
  EXPECT_EQ(End(), "exit code 0");  // what is held does not hold up the end
}

TEST_F(NodeRunnerTest, TheRelayKeepsToTheRateOfTheClusterAndTheFileHasAll) {
  NodeRunner::Options options = MakeOptions("seq 5000");
  options.environment.registered.mutable_node()->set_log_bytes_per_second(1000);
  Launch(std::move(options));
  ASSERT_EQ(End(), "exit code 0");
  uint64_t dropped = 0;
  for (const v1::LogLines& log : logs_) dropped += log.dropped();
  const size_t sent = Lines(v1::LogLines::SOURCE_STDOUT).size();
  EXPECT_GT(sent, 0u);
  EXPECT_THAT(sent, Lt(5000u));
  EXPECT_EQ(sent + dropped, 5000u);
  EXPECT_TRUE(runner_->Flush(kPatience));
  EXPECT_THAT(ReadFile(Path("node.log")), IsOkAndHolds(HasSubstr("\n4999\n5000\n")));
}

TEST_F(NodeRunnerTest, ASampleHasTheProcessAndWhatTheNodeSaysOfItsFeed) {
  NodeRunner::Options options = MakeOptions(absl::StrCat(
      Says(kHello), Says(R"({"method":"sample","params":{"budget_bytes":100,"held_bytes":40,
               "why_not_shared":"another user","queues":[]}})"),
      "read line <go"));
  // At once: the next one by the timer never comes.
  options.sample_interval = kNever;
  Launch(std::move(options));
  ASSERT_TRUE(Wait([&] { return !samples_.empty() && samples_.back().feed_held_bytes() == 40; }));
  EXPECT_EQ(samples_.back().feed_budget_bytes(), 100u);
  EXPECT_EQ(samples_.back().why_not_shared(), "another user");
  EXPECT_EQ(samples_.back().attempt(), 2u);
  EXPECT_GT(samples_.back().process().rss_bytes(), 0u);
  Go();
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_FALSE(samples_.back().has_process());  // the last one, of a program that has ended
  EXPECT_EQ(samples_.back().feed_held_bytes(), 40u);
}

TEST_F(NodeRunnerTest, ANodeThatSaysNothingOfAFeedIsSampledAtTheInterval) {
  NodeRunner::Options options = MakeOptions("read line <go");
  options.sample_interval = absl::Milliseconds(5);
  Launch(std::move(options));
  EXPECT_TRUE(Wait([&] { return samples_.size() >= 3; }));
  Go();
  EXPECT_EQ(End(), "exit code 0");
}

TEST_F(NodeRunnerTest, ANodeThatFallsSilentIsSampledAtTheIntervalAgain) {
  NodeRunner::Options options = MakeOptions(absl::StrCat(
      Says(kHello),
      Says(R"({"method":"sample","params":{"budget_bytes":100,"held_bytes":40,"queues":[]}})"),
      "read line <go"));
  options.sample_interval = absl::Milliseconds(5);
  Launch(std::move(options));
  ASSERT_TRUE(Wait([&] { return !samples_.empty() && samples_.back().feed_held_bytes() == 40; }));
  const size_t heard = samples_.size();
  EXPECT_TRUE(Wait([&] { return samples_.size() >= heard + 3; }));
  EXPECT_EQ(samples_.back().feed_held_bytes(), 40u);  // what is known of it last
  Go();
  EXPECT_EQ(End(), "exit code 0");
}

TEST_F(NodeRunnerTest, ALineOfTheAgentAboutItsNodeIsRelayed) {
  Launch("read line <go");
  runner_->Say("no room for its log");
  Go();
  ASSERT_EQ(End(), "exit code 0");
  EXPECT_THAT(Lines(v1::LogLines::SOURCE_AGENT), ElementsAre("no room for its log"));
}

TEST_F(NodeRunnerTest, NothingOfTheProgramOutlivesItsRunner) {
  Launch("sh -c 'echo ready >told; read line <go' & read line <go");
  ASSERT_TRUE(WaitFor("told ready"));
  runner_.reset();
  EXPECT_TRUE(Wait([&] { return reaper_->KillOrphans() == 0; }));
  EXPECT_TRUE(WaitForNoChildren());
  EXPECT_THAT(events_, UnorderedElementsAre("running", "told ready"));
}

}  // namespace
}  // namespace millrace
