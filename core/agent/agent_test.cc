// The agent as a process, with a real parent's pipes, a fake coordinator and real node programs.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "core/agent/agent_harness.h"
#include "core/agent/agent_test_fixture.h"
#include "core/agent/fake_coordinator.h"
#include "core/base/safe_open.h"
#include "core/net/socket_address.h"
#include "core/proto/time_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

// Lines with what differs between runs replaced.
std::vector<std::string> Normalised(const std::vector<std::string>& lines) {
  std::vector<std::string> normal;
  for (const std::string& line : lines) {
    OrderedJson json = *ParseOrderedJson(line);
    for (const char* key : {"time_ms", "pid", "version", "stderr_tail"}) {
      if (json.contains(key)) json[key] = "*";
    }
    if (json.contains("result") && json["result"].contains("agent_id")) {
      json["result"]["agent_id"] = "*";
    }
    if (json.contains("message")) {
      json["message"] =
          absl::StrReplaceAll(json["message"].get<std::string>(), {{LocalHostname(), "HOST"}});
    }
    normal.push_back(DumpJson(json));
  }
  return normal;
}

TEST_F(AgentTest, TranscriptOfANodeThatFinishes) {
  MakeCoordinator({"exit", "0"});
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_THAT(
      Normalised(agent_->lines()),
      ElementsAre(
          R"({"event":"ready","seq":0,"time_ms":"*","protocol":1,"version":"*","pid":"*"})",
          R"({"id":"start","result":{"agent_id":"*"}})",
          R"({"event":"state","seq":1,"time_ms":"*","state":"connected"})",
          R"({"event":"state","seq":2,"time_ms":"*","state":"registered","job_name":"worker","task_index":0,"attempt":0})",
          R"({"event":"state","seq":3,"time_ms":"*","state":"ready","job_name":"worker","task_index":0,"attempt":0})",
          R"({"event":"state","seq":4,"time_ms":"*","state":"running","job_name":"worker","task_index":0,"attempt":0,"pid":"*"})",
          R"({"event":"state","seq":5,"time_ms":"*","state":"finished","job_name":"worker","task_index":0,"attempt":0})"));
  const v1::NodeUpdate last = coordinator_->LastUpdate();
  EXPECT_EQ(last.state(), v1::NODE_STATE_EXITED);
  EXPECT_EQ(last.exit().code(), 0);
  EXPECT_FALSE(last.stopped_as_asked());
  EXPECT_THAT(RuntimeFiles(), IsEmpty());
}

TEST_F(AgentTest, TranscriptOfANodeThatFailsBeforeHello) {
  MakeCoordinator({"fail", "no such column: x"});
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("failed").is_null());
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_EQ(
      Normalised(agent_->lines()).back(),
      R"({"event":"state","seq":5,"time_ms":"*","state":"failed","job_name":"worker","task_index":0,"attempt":0,"code":"ABORTED","message":"worker:0 (attempt 0) on HOST ended with exit code 1; last line of stderr: no such column: x","stderr_tail":"*"})");
  EXPECT_EQ(coordinator_->LastUpdate().exit().code(), 1);
  EXPECT_THAT(coordinator_->LastUpdate().stderr_tail(), ElementsAre("no such column: x"));
  EXPECT_EQ(Log(), "no such column: x\n");
}

TEST_F(AgentTest, NodeKilledBySignalFailsWithItsName) {
  MakeCoordinator({"signal", "11"});
  RunAgent();
  EXPECT_THAT(agent_->ReadState("failed").value("message", ""), HasSubstr("signal 11 (SIGSEGV)"));
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_EQ(coordinator_->LastUpdate().exit().signal(), 11);
}

TEST_F(AgentTest, MissingProgramIsNotFoundWithHostAndPath) {
  FakeCoordinator::Options options;
  options.program = "/nowhere/train";
  MakeCoordinator({}, options);
  RunAgent();
  const Json failed = agent_->ReadState("failed");
  EXPECT_EQ(failed.value("code", ""), "NOT_FOUND");
  EXPECT_THAT(failed.value("message", ""),
              AllOf(HasSubstr("/nowhere/train"), HasSubstr(LocalHostname())));
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_EQ(coordinator_->LastUpdate().state(), v1::NODE_STATE_LAUNCH_FAILED);
  EXPECT_EQ(coordinator_->LastUpdate().error().code(), 5);
}

TEST_F(AgentTest, ProgramThatIsNotExecutableSaysChmod) {
  FakeCoordinator::Options options;
  options.program = Path("work/train");
  std::ofstream(options.program) << "#!/bin/sh\n";
  MakeCoordinator({}, options);
  RunAgent();
  const Json failed = agent_->ReadState("failed");
  EXPECT_EQ(failed.value("code", ""), "PERMISSION_DENIED");
  EXPECT_THAT(failed.value("message", ""), HasSubstr("run chmod +x"));
}

TEST_F(AgentTest, ProgramOfAnUnknownFormatIsInvalid) {
  FakeCoordinator::Options options;
  options.program = Path("work/train");
  std::ofstream(options.program) << "no program\n";
  chmod(options.program.c_str(), 0755);
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_EQ(agent_->ReadState("failed").value("code", ""), "INVALID_ARGUMENT");
}

TEST_F(AgentTest, MissingInterpreterIsNamed) {
  FakeCoordinator::Options options;
  options.program = Path("work/train");
  std::ofstream(options.program) << "#!/nowhere/python\n";
  chmod(options.program.c_str(), 0755);
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_THAT(agent_->ReadState("failed").value("message", ""), HasSubstr("interpreter"));
}

TEST_F(AgentTest, NodeFindsTheDocumentedDescriptorsEnvironmentAndContext) {
  FakeCoordinator::Options options;
  options.num_workers = 2;
  MakeCoordinator({"describe", "a b", ""}, options);
  // Foreign descriptors and variables of another job must not get through.
  const int leaked = open("/dev/null", O_RDONLY);
  agent_ = std::make_unique<AgentHarness>(std::vector<std::string>{"agent", "--parent=stdin"},
                                          std::vector<std::string>{"RANK=77", "KEPT=yes"});
  Json params = Params();
  params["env"] = {{"HOST_VAR", "1"}};
  agent_->Start(params);
  EXPECT_FALSE(agent_->ReadState("finished").is_null()) << agent_->stderr_text();
  EXPECT_EQ(agent_->WaitExit(), 0);
  close(leaked);
  const std::string log = Log();
  const std::vector<std::string> lines = coordinator_->LogLines();
  std::vector<std::string> fds;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(fds),
               [](const std::string& line) { return absl::StartsWith(line, "fd "); });
  EXPECT_THAT(fds,
              ElementsAre("fd 0 device", "fd 1 pipe", "fd 2 pipe", "fd 3 socket", "fd 4 socket"));
  EXPECT_THAT(lines, Contains("pgid own"));
  EXPECT_THAT(lines, Contains(absl::StrCat("session ", getsid(0))));
  EXPECT_THAT(lines, Contains(absl::StrCat("cwd ", Path("work"))));
  EXPECT_THAT(lines, Contains("arg a b"));
  EXPECT_THAT(lines, Contains("arg "));
  EXPECT_THAT(lines, Contains("mode 384"));  // 0600
  for (const char* expected :
       {"env MILLRACE_CONTROL_FD=3", "env KEPT=yes", "env HOST_VAR=1", "env RANK=0",
        "env WORLD_SIZE=2", "env LOCAL_RANK=0", "env MASTER_ADDR=127.0.0.1"}) {
    EXPECT_THAT(lines, Contains(expected));
  }
  EXPECT_THAT(lines, Not(Contains(StartsWith("env GRPC_DNS_RESOLVER"))));
  EXPECT_THAT(log, HasSubstr("\"nonce\":\"0123456789abcdef\""));
  EXPECT_THAT(log, HasSubstr("BEGIN PRIVATE KEY"));
  EXPECT_THAT(log, HasSubstr("\"port_fd\":4"));
  EXPECT_THAT(log, HasSubstr(R"("rank":0,"local_rank":0)"));
  EXPECT_THAT(log, HasSubstr(R"("cluster_spec":{"worker":["127.0.0.1:)"));
  // The environment has no secrets.
  for (const std::string& line : lines) {
    if (absl::StartsWith(line, "env ")) {
      EXPECT_THAT(line, AllOf(Not(HasSubstr("PRIVATE KEY")), Not(HasSubstr("the-agent-token")),
                              Not(HasSubstr("0123456789abcdef"))));
    }
  }
}

TEST_F(AgentTest, ASpecOfTenThousandAddressesIsInTheFileAndNotInTheEnvironment) {
  FakeCoordinator::Options options;
  options.num_workers = 10000;
  MakeCoordinator({"describe"}, std::move(options));
  RunAgent();
  EXPECT_EQ(agent_->WaitExit(), 0);
  const std::string log = Log();
  EXPECT_THAT(log, HasSubstr("other-host:10999"));
  EXPECT_THAT(log, HasSubstr("env MILLRACE_CONTEXT_FILE="));
  EXPECT_THAT(log, Not(HasSubstr("env MILLRACE_CONTEXT=")));
  EXPECT_THAT(log, Not(HasSubstr("env TF_CONFIG=")));
  EXPECT_TRUE(NodeSaid("MILLRACE_CONTEXT and TF_CONFIG not set: over 96 KiB for this cluster"));
}

TEST_F(AgentTest, ReleasedPortIsNotInherited) {
  FakeCoordinator::Options options;
  options.registered.mutable_node()->set_release_port(true);
  MakeCoordinator({"describe"}, options);
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_THAT(Log(),
              AllOf(HasSubstr("fd 3 socket"), Not(HasSubstr("fd 4 ")), Not(HasSubstr("port_fd"))));
}

TEST_F(AgentTest, StoppedNodeIsShownAtOnceAndKilledAfterStopTimeout) {
  FakeCoordinator::Options options;
  *options.registered.mutable_node()->mutable_stop_timeout() =
      DurationToProto(absl::Milliseconds(300));
  MakeCoordinator({"polite"}, options);
  RunAgent();
  const Json running = agent_->ReadState("running");
  ASSERT_TRUE(NodeSaid("ready"));
  kill(running.value("pid", 0), SIGSTOP);
  EXPECT_TRUE(coordinator_->WaitForState(v1::NODE_STATE_STOPPED));
  EXPECT_THAT(agent_->ReadState("failed").value("message", ""),
              AllOf(HasSubstr("SIGSTOP"), HasSubstr("stop_timeout")));
  EXPECT_EQ(agent_->WaitExit(), 1);
}

TEST_F(AgentTest, PlainNodeGetsSigtermOnStopAndCountsAsFinished) {
  MakeCoordinator({"polite"});
  RunAgent();
  ASSERT_FALSE(agent_->ReadState("running").is_null());
  ASSERT_TRUE(NodeSaid("ready"));
  v1::CoordinatorMessage stop;
  stop.mutable_stop()->set_reason("shutdown");
  coordinator_->Send(stop);
  EXPECT_EQ(agent_->ReadState("draining").value("reason", ""), "shutdown");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_TRUE(coordinator_->LastUpdate().stopped_as_asked());
  EXPECT_THAT(Log(), HasSubstr("terminated"));
}

TEST_F(AgentTest, NodeThatHadEndedBeforeItWasAskedToHasNotEndedAsAsked) {
  MakeCoordinator({"family"});  // the end of which takes a moment
  RunAgent();
  const pid_t node = agent_->ReadState("running").value("pid", 0);
  ASSERT_TRUE(WaitGrandchildren());
  kill(agent_->pid(), SIGSTOP);  // it hears of both at once
  kill(node, SIGKILL);
  ASSERT_TRUE(WaitGone(node));
  agent_->Send(R"({"id":7,"method":"stop","params":{"reason":"another node has failed"}})");
  kill(agent_->pid(), SIGCONT);
  EXPECT_THAT(agent_->ReadState("failed").value("message", ""), HasSubstr("SIGKILL"));
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_EQ(coordinator_->LastUpdate().exit().signal(), SIGKILL);
  EXPECT_FALSE(coordinator_->LastUpdate().stopped_as_asked());
}

TEST_F(AgentTest, NodeThatIgnoresSigtermIsKilledAfterGrace) {
  FakeCoordinator::Options options;
  *options.registered.mutable_node()->mutable_stop_grace() =
      DurationToProto(absl::Milliseconds(100));
  MakeCoordinator({"stubborn"}, options);
  RunAgent();
  ASSERT_TRUE(NodeSaid("ready"));
  agent_->Send(R"({"id":7,"method":"stop","params":{"reason":"enough"}})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_EQ(coordinator_->LastUpdate().exit().signal(), SIGKILL);
}

TEST_F(AgentTest, StopNowKillsAtOnce) {
  MakeCoordinator({"stubborn"});
  RunAgent();
  ASSERT_TRUE(NodeSaid("ready"));
  agent_->Send(R"({"id":7,"method":"stop","params":{"reason":"enough","now":true}})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
}

TEST_F(AgentTest, SigtermStopsTheNode) {
  MakeCoordinator({"polite"});
  RunAgent();
  ASSERT_TRUE(NodeSaid("ready"));
  kill(agent_->pid(), SIGTERM);
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_THAT(Log(), HasSubstr("terminated"));
}

TEST_F(AgentTest, EndOfStdinKillsTheWholeFamilyWithinASecond) {
  MakeCoordinator({"family"});
  RunAgent();
  const pid_t node = agent_->ReadState("running").value("pid", 0);
  ASSERT_TRUE(WaitGrandchildren());
  const absl::Time begin = absl::Now();
  agent_->CloseStdin();
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_LT(absl::Now() - begin, absl::Seconds(1));
  EXPECT_TRUE(WaitGone(node));
  for (const pid_t pid : Grandchildren()) EXPECT_TRUE(WaitGone(pid)) << pid;
  EXPECT_THAT(RuntimeFiles(), IsEmpty());
  EXPECT_EQ(coordinator_->LastUpdate().error().code(),
            static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_THAT(coordinator_->LastUpdate().error().message(), HasSubstr("parent"));
}

TEST_F(AgentTest, GrandchildrenDoNotOutliveANodeThatExits) {
  std::ofstream(Path("work/go")) << "";
  MakeCoordinator({"orphans", Path("work/go")});
  RunAgent();
  ASSERT_TRUE(WaitGrandchildren());
  unlink(Path("work/go").c_str());
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  for (const pid_t pid : Grandchildren()) EXPECT_TRUE(WaitGone(pid)) << pid;
  EXPECT_EQ(agent_->WaitExit(), 0);
}

TEST_F(AgentTest, KilledAgentTakesNodeFamilyAndFilesWithIt) {
  MakeCoordinator({"family"});
  RunAgent();
  const pid_t node = agent_->ReadState("running").value("pid", 0);
  ASSERT_TRUE(WaitGrandchildren());
  ASSERT_THAT(RuntimeFiles(), Not(IsEmpty()));
  kill(agent_->pid(), SIGKILL);
  EXPECT_EQ(agent_->WaitExit(), -SIGKILL);
  EXPECT_TRUE(WaitGone(node));
  // Of the node's process group, and of a session of its own.
  for (const pid_t pid : Grandchildren()) EXPECT_TRUE(WaitGone(pid)) << pid;
  // The guard removes them as its last deed.
  EXPECT_TRUE(Eventually([&] { return RuntimeFiles().empty(); }));
}

TEST_F(AgentTest, FloodOfStderrReachesTheFileWholeAndTheCoordinatorWithinABound) {
  MakeCoordinator({"flood", "50000"});
  RunAgent();
  const Json failed = agent_->ReadState("failed");
  EXPECT_EQ(failed["stderr_tail"].size(), 50u);
  EXPECT_EQ(failed["stderr_tail"].back(), "last");
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_EQ(Log().size(), 50000u * 100 + 5);
  uint64_t dropped = 0;
  const size_t relayed = coordinator_->LogLines(&dropped).size();
  EXPECT_EQ(relayed + dropped, 50001u);
  EXPECT_LT(relayed * 100, size_t{2} << 20);
}

TEST_F(AgentTest, UnwritableLogDirDoesNotStopTheNode) {
  MakeCoordinator({"fail", "told anyway"});
  std::ofstream(Path("file")) << "";
  agent_ = std::make_unique<AgentHarness>();
  Json params = Params();
  params["log_dir"] = Path("file/below");
  agent_->Start(params);
  EXPECT_EQ(agent_->ReadState("failed")["stderr_tail"].dump(), R"(["told anyway"])");
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_THAT(agent_->stderr_text(), HasSubstr("cannot open"));
}

TEST_F(AgentTest, NodeThatClosesItsChannelIsOnlyItsProcess) {
  MakeCoordinator({"close_control"});
  RunAgent();
  ASSERT_TRUE(NodeSaid("closed"));
  agent_->Send(R"({"id":7,"method":"status"})");
  Json reply = agent_->ReadReply();  // of start
  if (reply["id"] == "start") reply = agent_->ReadReply();
  EXPECT_EQ(reply["result"]["state"], "running");
  agent_->Send(R"({"id":8,"method":"stop"})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
}

TEST_F(AgentTest, NodeThatSendsGarbageLosesItsChannelOnly) {
  for (const char* kind : {"huge", "text"}) {
    MakeCoordinator({"garbage", kind});
    RunAgent();
    ASSERT_TRUE(NodeSaid("channel closed")) << kind;
    agent_->Send(R"({"id":8,"method":"stop"})");
    EXPECT_FALSE(agent_->ReadState("finished").is_null());
    EXPECT_EQ(agent_->WaitExit(), 0);
    EXPECT_THAT(agent_->stderr_text(), HasSubstr("broke the control protocol"));
  }
}

TEST_F(AgentTest, NodesRequestsAreAnswered) {
  MakeCoordinator(
      {"frames", R"({"id":0,"method":"kv.get","params":{}})",
       R"({"id":1,"method":"hello","params":{"protocol":1,"sdk":"test"}})",
       R"({"id":2,"method":"ready","params":{"feed":{"tcp":"tcp://h:1","ipc":"","key":"k"},"other":{"m":"h:2"}}})",
       R"({"id":3,"method":"kv.set","params":{"key":"a","value":"aGk="}})",
       R"({"id":4,"method":"kv.get","params":{"key":"a","timeout_ms":0}})",
       R"({"id":5,"method":"kv.get","params":{"key":"b","timeout_ms":0}})",
       R"({"id":6,"method":"kv.add","params":{"key":"n","delta":-3}})",
       R"({"method":"metric","params":{"name":"loss","step":3,"value":0.5}})",
       R"({"method":"log","params":{"level":"warning","message":"careful"}})",
       R"({"id":7,"method":"release_port"})", R"({"id":8,"method":"fly"})",
       R"({"id":9,"method":"kv.set","params":{"key":"a","value":"!"}})"});
  RunAgent();
  ASSERT_TRUE(
      NodeSaid(R"(reply {"error":{"code":"INVALID_ARGUMENT","message":"field \"params.value\")"));
  v1::CoordinatorMessage message;
  message.mutable_feed_end()->set_feed_id("f1");
  coordinator_->Send(message);
  message.mutable_end_feed()->set_queue("input");
  coordinator_->Send(message);
  auto* change = message.mutable_spec()->add_changes();
  message.mutable_spec()->set_epoch(2);
  change->set_job_name("worker");
  change->set_task_index(0);
  change->set_address("h:9");
  coordinator_->Send(message);
  message.mutable_stop()->set_reason("done");
  coordinator_->Send(message);
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  const std::string log = Log();
  for (const char* expected :
       {R"(reply {"error":{"code":"FAILED_PRECONDITION",)",
        R"(reply {"id":1,"result":{"sample_interval_ms":1000}})", R"(reply {"id":2,"result":{}})",
        R"(reply {"id":3,"result":{}})", R"(reply {"id":4,"result":{"value":"aGk="}})",
        R"(reply {"error":{"code":"NOT_FOUND",)", R"(reply {"id":6,"result":{"value":-3}})",
        R"([warning] careful)", R"(reply {"id":7,"result":{}})",
        R"(reply {"error":{"code":"UNIMPLEMENTED",)",
        R"(push {"aborted":false,"feed_id":"f1","push":"feed_end"})",
        R"(push {"push":"end_feed","queue":"input"})",
        R"(push {"changes":[{"address":"h:9","attempt":0,"job_name":"worker","task_index":0}],)"
        R"("cluster_spec":{"worker":["h:9"]},"epoch":2,"push":"spec"})",
        R"(push {"push":"stop","reason":"done"})"}) {
    EXPECT_THAT(log, HasSubstr(expected));
  }
  bool endpoints = false;
  bool metric = false;
  for (const v1::AgentMessage& seen : coordinator_->messages()) {
    endpoints = endpoints ||
                (seen.endpoints().feed().key() == "k" && seen.endpoints().other().count("m") == 1);
    metric = metric || (seen.metric().name() == "loss" && seen.metric().value() == 0.5);
  }
  EXPECT_TRUE(endpoints);
  EXPECT_TRUE(metric);
}

TEST_F(AgentTest, AQueueThatEndsIsToldToTheProgramOnce) {
  MakeCoordinator({"frames", R"({"id":1,"method":"hello","params":{"protocol":1,"sdk":"test"}})"});
  RunAgent();
  ASSERT_TRUE(NodeSaid(R"(reply {"id":1,)"));
  v1::CoordinatorMessage message;
  for (const char* queue : {"input", "input", "output"}) {  // as after an attach
    message.mutable_end_feed()->set_queue(queue);
    coordinator_->Send(message);
  }
  message.mutable_stop()->set_reason("done");
  coordinator_->Send(message);
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  const std::string log = Log();
  const size_t told = log.find(R"(push {"push":"end_feed","queue":"input"})");
  ASSERT_NE(told, std::string::npos);
  EXPECT_EQ(log.find(R"("queue":"input"})", told + 40), std::string::npos) << log;
  EXPECT_THAT(log, HasSubstr(R"(push {"push":"end_feed","queue":"output"})"));
}

TEST_F(AgentTest, StatusTheProgramEndsWithBecomesTheError) {
  MakeCoordinator({"last_words"});
  RunAgent();
  const Json failed = agent_->ReadState("failed");
  EXPECT_EQ(failed.value("code", ""), "DATA_LOSS");
  EXPECT_EQ(failed.value("message", ""), "row 7 is bad");
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_EQ(coordinator_->LastUpdate().error().code(), 15);
}

TEST_F(AgentTest, ShippedProgramIsFetchedRunAndRemoved) {
  FakeCoordinator::Options options;
  options.program = "/not/on/this/host";
  options.program_bytes = "#!/bin/sh\n# " + std::string(700000, 'x') + "\necho from $0\n";
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_THAT(Log(), StartsWith(absl::StrCat("from ", Path("run"), "/")));
  EXPECT_THAT(RuntimeFiles(), IsEmpty());
}

TEST_F(AgentTest, ShippedProgramRunsFromMemoryWhereTheAgentsFolderIsNoexec) {
  // Of this process and its children alone, and gone with them.
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", Path("run").c_str(), "tmpfs", MS_NOEXEC, "mode=0700") != 0) {
    GTEST_SKIP() << "cannot mount a file system: " << std::strerror(errno);
  }
  FakeCoordinator::Options options;
  options.program = "/not/on/this/host";
  options.program_bytes = "#!/bin/sh\necho from $0\n";
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_THAT(Log(), StartsWith(absl::StrCat("from /proc/", agent_->pid(), "/fd/")));
  EXPECT_THAT(RuntimeFiles(), IsEmpty());
  EXPECT_EQ(umount(Path("run").c_str()), 0);
}

TEST_F(AgentTest, ShippedProgramThatIsHereIsUsedInPlace) {
  if (const absl::Status safe = CheckOnlyOwnerCanChange(Path("work")); !safe.ok()) {
    GTEST_SKIP() << safe.message();
  }
  FakeCoordinator::Options options;
  options.program = Path("work/here");
  options.program_bytes = "#!/bin/sh\necho from $0\n";
  std::ofstream(options.program) << options.program_bytes;
  chmod(options.program.c_str(), 0755);
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_EQ(Log(), absl::StrCat("from ", Path("work/here"), "\n"));
}

TEST_F(AgentTest, ShippedProgramThatIsHereByARelativePathRunsInAnotherFolder) {
  const std::string here = Path("here");
  FakeCoordinator::Options options;
  options.program = std::filesystem::relative(here).string();
  options.program_bytes = "#!/bin/sh\necho from $0\n";
  std::ofstream(here) << options.program_bytes;
  chmod(here.c_str(), 0755);
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  if (CheckOnlyOwnerCanChange(dir_.path()).ok()) {
    EXPECT_THAT(Log(), AllOf(StartsWith("from /"), EndsWith("/here\n")));
  } else {
    EXPECT_THAT(Log(), StartsWith(absl::StrCat("from ", Path("run"), "/")));
  }
}

TEST_F(AgentTest, ShippedProgramWithAnotherDigestIsDataLoss) {
  FakeCoordinator::Options options;
  options.program = "/not/on/this/host";
  options.program_bytes = "#!/bin/sh\nexit 0\n";
  options.served_bytes = "#!/bin/sh\nexit 1\n";
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_EQ(agent_->ReadState("failed").value("code", ""), "DATA_LOSS");
  EXPECT_EQ(agent_->WaitExit(), 1);
  EXPECT_THAT(RuntimeFiles(), IsEmpty());
}

}  // namespace
}  // namespace millrace
