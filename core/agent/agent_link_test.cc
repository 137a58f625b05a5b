// The agent between a coordinator and a parent that break, vanish or talk nonsense.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/agent/agent_harness.h"
#include "core/agent/agent_test_fixture.h"
#include "core/agent/fake_coordinator.h"
#include "core/base/fake_clock.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/server/certificate_authority.h"
#include "core/proto/time_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(AgentTest, BrokenStreamIsTakenUpAgainWhileTheNodeRuns) {
  MakeCoordinator({"polite"});
  RunAgent();
  ASSERT_TRUE(NodeSaid("ready"));
  coordinator_->EndStream(absl::UnavailableError("gone for a moment"));
  ASSERT_TRUE(coordinator_->WaitForRegistrations(2));
  v1::Register first;
  v1::Register last;
  for (const v1::AgentMessage& message : coordinator_->messages()) {
    if (!message.has_register_()) continue;
    if (first.agent_id().empty()) first = message.register_();
    last = message.register_();
  }
  EXPECT_EQ(first.agent_id(), last.agent_id());
  EXPECT_EQ(first.address(), last.address());
  EXPECT_FALSE(first.has_node());
  EXPECT_EQ(last.node().state(), v1::NODE_STATE_RUNNING);
  EXPECT_EQ(first.spec_epoch(), 0u);
  EXPECT_EQ(last.spec_epoch(), 1u);
  agent_->Send(R"({"id":8,"method":"stop"})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
}

// As gRPC's server says of calls that come while it ends, whatever its driver wants of the cluster.
TEST_F(AgentTest, ACancellationByTheServerAloneIsNotTheClustersEnd) {
  MakeCoordinator({"polite"});
  RunAgent();
  ASSERT_TRUE(NodeSaid("ready"));
  int registrations = 1;
  for (const char* text : {"", "CANCELLED", "Received RST_STREAM with error code 8"}) {
    coordinator_->EndStream(absl::CancelledError(text));
    ASSERT_TRUE(coordinator_->WaitForRegistrations(++registrations)) << text;
  }
  EXPECT_EQ(coordinator_->LastUpdate().state(), v1::NODE_STATE_RUNNING);
  agent_->Send(R"({"id":8,"method":"stop"})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
}

class RedirectedAgentTest : public AgentTest {
 protected:
  // Another coordinator of the same cluster.
  void MakeNext() {
    FakeCoordinator::Options options;
    options.program = TestFile("test_node");
    options.args = {"polite"};
    options.same_cluster = coordinator_.get();
    next_ = std::make_unique<FakeCoordinator>(options);
  }
  void Redirect(const std::string& address) {
    agent_->Send(DumpJson(
        Json{{"id", 5}, {"method", "coordinator"}, {"params", Json{{"address", address}}}}));
  }
  void ExpectNodeGoesOnUnderTheNext(const FakeCoordinator& next) {
    ASSERT_TRUE(next.WaitForRegistrations(1));
    ASSERT_FALSE(next.messages().empty());
    const v1::Register hello = next.messages().front().register_();
    EXPECT_EQ(hello.node().state(), v1::NODE_STATE_RUNNING);
    EXPECT_EQ(hello.node().pid(), node_);
    agent_->Send(R"({"id":8,"method":"stop"})");
    EXPECT_FALSE(agent_->ReadState("finished").is_null());
    EXPECT_EQ(agent_->WaitExit(), 0);
  }
  void RunNode() {
    MakeCoordinator({"polite"});
    RunAgent();
    node_ = agent_->ReadState("running").value("pid", 0);
    ASSERT_TRUE(NodeSaid("ready"));
  }

  int node_ = 0;
  std::unique_ptr<FakeCoordinator> next_;
};

TEST_F(RedirectedAgentTest, ACoordinatorThatLivesIsLeftForTheNext) {
  RunNode();
  MakeNext();
  Redirect(next_->address());
  EXPECT_EQ(agent_->ReadReply()["result"], Json::object());
  ExpectNodeGoesOnUnderTheNext(*next_);
  EXPECT_EQ(coordinator_->registrations(), 1);
}

TEST_F(RedirectedAgentTest, OneThatIsAwayIsNotWaitedFor) {
  RunNode();
  MakeNext();
  coordinator_->Refuse(absl::UnavailableError("down"));
  coordinator_->EndStream(absl::UnavailableError("down"));
  ASSERT_TRUE(
      Eventually([&] { return agent_->stderr_text().find("lost the") != std::string::npos; }));
  Redirect(next_->address());
  ExpectNodeGoesOnUnderTheNext(*next_);
}

TEST_F(RedirectedAgentTest, TheSameAddressChangesNothingAndNoAddressIsSaid) {
  RunNode();
  Redirect(coordinator_->address());
  EXPECT_EQ(agent_->ReadReply()["result"], Json::object());
  Redirect("nowhere");
  EXPECT_THAT(agent_->ReadReply()["error"].value("message", ""), HasSubstr("params.address"));
  EXPECT_EQ(coordinator_->registrations(), 1);
  agent_->Send(R"({"id":8,"method":"stop"})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
}

TEST_F(AgentTest, NodeIsEndedWhenTheCoordinatorStaysAwayForTheLease) {
  FakeCoordinator::Options options;
  *options.registered.mutable_lease() = DurationToProto(absl::Milliseconds(500));
  *options.registered.mutable_node()->mutable_stop_grace() =
      DurationToProto(absl::Milliseconds(100));
  MakeCoordinator({"stubborn"}, options);
  RunAgent();
  const pid_t node = agent_->ReadState("running").value("pid", 0);
  ASSERT_TRUE(NodeSaid("ready"));
  coordinator_->Refuse(absl::UnavailableError("down"));
  coordinator_->EndStream(absl::UnavailableError("down"));
  const Json error = agent_->ReadEvent("error");
  EXPECT_EQ(error.value("code", ""), "UNAVAILABLE");
  EXPECT_THAT(error.value("message", ""), HasSubstr("lease"));
  EXPECT_FALSE(agent_->ReadState("failed").is_null());
  EXPECT_EQ(agent_->WaitExit(), 3);
  EXPECT_TRUE(WaitGone(node));
}

TEST_F(AgentTest, CoordinatorThatShutsDownEndsTheNode) {
  MakeCoordinator({"polite"});
  RunAgent();
  ASSERT_TRUE(NodeSaid("ready"));
  coordinator_->Refuse(absl::UnavailableError("down"));
  coordinator_->Shutdown();
  EXPECT_THAT(agent_->ReadEvent("error").value("message", ""), HasSubstr("coordinator"));
  EXPECT_EQ(agent_->WaitExit(), 3);
}

TEST_F(AgentTest, WrongTokenIsFinalAndSaysWhatToDo) {
  MakeCoordinator({"exit", "0"});
  agent_ = std::make_unique<AgentHarness>();
  Json params = Params();
  params["coordinator"]["token"] = "another-secret";
  agent_->Start(params);
  const Json error = agent_->ReadEvent("error");
  EXPECT_EQ(error.value("code", ""), "UNAUTHENTICATED");
  EXPECT_THAT(error.value("message", ""), HasSubstr("token of this very cluster"));
  EXPECT_EQ(agent_->WaitExit(), 3);
  EXPECT_THAT(absl::StrJoin(agent_->lines(), "\n") + agent_->stderr_text(),
              Not(HasSubstr("another-secret")));
}

TEST_F(AgentTest, TakenSlotEndsTheAgentQuietly) {
  FakeCoordinator::Options options;
  options.refuse = absl::AlreadyExistsError("slot 0 has a live agent");
  MakeCoordinator({}, options);
  RunAgent();
  EXPECT_EQ(agent_->ReadEvent("error").value("code", ""), "ALREADY_EXISTS");
  EXPECT_EQ(agent_->WaitExit(), 3);
}

TEST_F(AgentTest, UnreachableCoordinatorIsReportedAfterConnectTimeout) {
  MakeCoordinator({});
  coordinator_->Shutdown();
  agent_ = std::make_unique<AgentHarness>();
  Json params = Params();
  params["connect_timeout_ms"] = 500;
  agent_->Start(params);
  const Json error = agent_->ReadEvent("error");
  EXPECT_EQ(error.value("code", ""), "UNAVAILABLE");
  EXPECT_THAT(error.value("message", ""),
              AllOf(HasSubstr(coordinator_->address()), HasSubstr("refused")));
  EXPECT_EQ(agent_->WaitExit(), 3);
}

TEST_F(AgentTest, CoordinatorWithAnotherCaIsNotTrusted) {
  MakeCoordinator({});
  FakeCoordinator other({});
  agent_ = std::make_unique<AgentHarness>();
  Json params = Params();
  params["coordinator"]["ca_pem"] = other.StartParams()["ca_pem"];
  params["connect_timeout_ms"] = 1000;
  agent_->Start(params);
  EXPECT_THAT(agent_->ReadEvent("error").value("message", ""), HasSubstr("certificate"));
  EXPECT_EQ(agent_->WaitExit(), 3);
  EXPECT_EQ(coordinator_->registrations(), 0);
}

TEST_F(AgentTest, ACoordinatorWhoseClockIsDaysAheadIsToldOfAtOnce) {
  MakeCoordinator({});
  FakeClock ahead(absl::Now() + absl::Hours(48));
  const auto ca = CertificateAuthority::Create({.cluster_id = "c", .clock = &ahead});
  ASSERT_THAT(ca, IsOk());
  agent_ = std::make_unique<AgentHarness>();
  Json params = Params();
  params["coordinator"]["ca_pem"] = (*ca)->ca_pem();
  params["connect_timeout_ms"] = 3'600'000;
  agent_->Start(params);
  const Json error = agent_->ReadEvent("error");
  EXPECT_EQ(error.value("code", ""), "FAILED_PRECONDITION");
  EXPECT_THAT(error.value("message", ""),
              AllOf(HasSubstr(coordinator_->address()), HasSubstr("this host's clock says 20"),
                    HasSubstr("made the certificate said 20"), HasSubstr("set the clocks")));
  EXPECT_EQ(agent_->WaitExit(), 3);
}

TEST_F(AgentTest, CoordinatorIsFoundByName) {
  MakeCoordinator({"exit", "0"});
  agent_ = std::make_unique<AgentHarness>();
  Json params = Params();
  const std::string address = coordinator_->address();
  params["coordinator"]["address"] = absl::StrCat("localhost", address.substr(address.find(':')));
  agent_->Start(params);
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
}

TEST_F(AgentTest, EndOfStdinEndsAnAgentInEveryState) {
  MakeCoordinator({}, {.send_spec = false});
  agent_ = std::make_unique<AgentHarness>();
  agent_->CloseStdin();
  EXPECT_EQ(agent_->WaitExit(), 0);
  RunAgent();  // waits for the spec
  EXPECT_FALSE(agent_->ReadState("registered").is_null());
  agent_->CloseStdin();
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_THAT(RuntimeFiles(), IsEmpty());
  EXPECT_EQ(coordinator_->LastUpdate().state(), v1::NODE_STATE_LAUNCH_FAILED);
}

TEST_F(AgentTest, ParentThatGoesOnTheFinishedEventDoesNotCostTheReport) {
  for (int i = 0; i < 5; ++i) {
    MakeCoordinator({"exit", "0"});
    RunAgent();
    EXPECT_FALSE(agent_->ReadState("finished").is_null());
    agent_->CloseStdin();
    EXPECT_EQ(agent_->WaitExit(), 0);
    EXPECT_TRUE(coordinator_->WaitForState(v1::NODE_STATE_EXITED));
  }
}

TEST_F(AgentTest, StopBeforeTheNodeRunsIsNoFailure) {
  MakeCoordinator({}, {.send_spec = false});
  RunAgent();
  EXPECT_FALSE(agent_->ReadState("registered").is_null());
  agent_->Send(R"({"id":2,"method":"stop"})");
  EXPECT_FALSE(agent_->ReadState("finished").is_null());
  EXPECT_EQ(agent_->WaitExit(), 0);
  EXPECT_TRUE(coordinator_->LastUpdate().stopped_as_asked());
}

TEST_F(AgentTest, ParentsGarbageIsAnsweredWithTypedErrors) {
  agent_ = std::make_unique<AgentHarness>();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "INVALID_ARGUMENT"},
      {"[1]", "INVALID_ARGUMENT"},
      {"\xff\xfe", "INVALID_ARGUMENT"},
      {R"({"method":"status"})", "INVALID_ARGUMENT"},
      {R"({"id":1})", "INVALID_ARGUMENT"},
      {R"({"id":1,"method":"status","params":[]})", "INVALID_ARGUMENT"},
      {R"({"id":1,"method":"fly"})", "UNIMPLEMENTED"},
      {R"({"id":1,"method":"start","params":{}})", "INVALID_ARGUMENT"},
      {R"({"id":1,"method":"start","params":{"coordinator":{)"
       R"("address":"h","ca_pem":"","identity_pem":"","token":""}}})",
       "INVALID_ARGUMENT"},
      {R"({"id":1,"method":"stop","params":{"now":"yes"}})", "INVALID_ARGUMENT"},
  };
  for (const auto& [line, code] : cases) {
    agent_->Send(line);
    EXPECT_EQ(agent_->ReadReply()["error"].value("code", ""), code) << line;
  }
  agent_->Send(R"({"id":"x","method":"status"})");
  EXPECT_EQ(agent_->ReadReply()["result"]["state"], "idle");
  agent_->Send(std::string((1 << 20) + 1, 'x'));
  EXPECT_EQ(agent_->ReadEvent("error").value("code", ""), "INVALID_ARGUMENT");
  EXPECT_EQ(agent_->WaitExit(), 3);
}

TEST(AgentCommandLine, HelpVersionAndMistakes) {
  for (const auto& [args, code] : std::vector<std::pair<std::vector<std::string>, int>>{
           {{"--help"}, 0},
           {{"--version"}, 0},
           {{}, 2},
           {{"fly"}, 2},
           {{"agent"}, 2},
           {{"agent", "--parent=stdin", "--port=3"}, 2}}) {
    AgentHarness agent(args);
    EXPECT_EQ(agent.WaitExit(), code) << absl::StrJoin(args, " ");
    if (code == 2) {
      EXPECT_THAT(agent.stderr_text(), HasSubstr("--help")) << absl::StrJoin(args, " ");
    }
  }
}

}  // namespace
}  // namespace millrace
