// The agent against the real coordinator.

#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/agent/agent_harness.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kWait = absl::Seconds(40);

class AgentCoordinatorTest : public ::testing::Test {
 protected:
  AgentCoordinatorTest() : dir_(*TempDir::Create("agent_test")) {}

  void Serve(CoordinatorOptions options) {
    auto roles = DealRoles({.num_executors = 1});
    ASSERT_THAT(roles, IsOk());
    options.roles = *std::move(roles);
    options.failure.stop_grace = absl::Milliseconds(500);
    auto coordinator = Coordinator::Start(std::move(options));
    ASSERT_THAT(coordinator, IsOk());
    coordinator_ = *std::move(coordinator);
  }

  Json Params() const {
    return {{"coordinator",
             {{"address", coordinator_->address()},
              {"ca_pem", coordinator_->ca_pem()},
              {"identity_pem", coordinator_->agent_identity_pem()},
              {"token", coordinator_->tokens().agent}}},
            {"executor_id", 0},
            {"runtime_dir", JoinPath(dir_.path(), "run")},
            {"working_dir", dir_.path()}};
  }

  CoordinatorOptions TestNode(std::vector<std::string> args) const {
    CoordinatorOptions options;
    options.program.path = TestFile("test_node");
    options.program.args = std::move(args);
    return options;
  }

  TempDir dir_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(AgentCoordinatorTest, ShippedProgramRunsAndFinishes) {
  CoordinatorOptions options;
  options.program.path = JoinPath(dir_.path(), "train");
  options.program.shipped = true;
  std::ofstream(options.program.path) << "#!/bin/sh\necho $MILLRACE_CONTEXT\n";
  // Not executable where it lies: the agent has to fetch it, and sets the bit.
  chmod(options.program.path.c_str(), 0644);
  Serve(options);
  AgentHarness agent;
  agent.Start(Params());
  EXPECT_THAT(coordinator_->WaitRunning(kWait), IsOk());
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kWait), IsOk());
  EXPECT_EQ(agent.WaitExit(), 0) << agent.stderr_text();
  EXPECT_THAT(coordinator_->first_cause(), IsOk());
  EXPECT_EQ(coordinator_->Snapshot().slots[0].state, SlotState::kFinished);
}

TEST_F(AgentCoordinatorTest, FailureAndMissingProgramReachTheDriver) {
  Serve(TestNode({"fail", "no such column"}));
  AgentHarness failing;
  failing.Start(Params());
  EXPECT_THAT(coordinator_->WaitFailure(kWait), StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(failing.WaitExit(), 1);
  CoordinatorOptions options;
  options.program.path = "/nowhere/train";
  Serve(options);
  AgentHarness missing;
  missing.Start(Params());
  EXPECT_THAT(coordinator_->WaitFailure(kWait),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/train")));
  EXPECT_EQ(missing.WaitExit(), 1);
}

TEST_F(AgentCoordinatorTest, StopAndKeyValueWork) {
  Serve(TestNode({"frames", R"({"id":1,"method":"hello","params":{"protocol":1}})",
                  R"({"id":2,"method":"ready","params":{"other":{"m":"h:1"}}})",
                  R"({"id":3,"method":"kv.add","params":{"key":"n","delta":2}})",
                  R"({"id":4,"method":"kv.get","params":{"key":"n","timeout_ms":0}})",
                  R"({"id":5,"method":"barrier","params":{"name":"b","timeout_ms":10000}})"}));
  AgentHarness agent;
  agent.Start(Params());
  EXPECT_THAT(coordinator_->WaitRunning(kWait), IsOk());
  coordinator_->Stop(NodeFilter::kAll, "enough");
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kWait), IsOk());
  EXPECT_EQ(agent.WaitExit(), 0);
  EXPECT_THAT(coordinator_->first_cause(), IsOk());
}

TEST_F(AgentCoordinatorTest, SecondAgentOfASlotIsTurnedAway) {
  Serve(TestNode({"stubborn"}));
  AgentHarness first;
  first.Start(Params());
  EXPECT_THAT(coordinator_->WaitRunning(kWait), IsOk());
  AgentHarness second;
  Json params = Params();
  params["runtime_dir"] = JoinPath(dir_.path(), "run2");
  second.Start(params);
  EXPECT_EQ(second.ReadEvent("error").value("code", ""), "ALREADY_EXISTS");
  EXPECT_EQ(second.WaitExit(), 3);
  EXPECT_EQ(coordinator_->Snapshot().slots[0].state, SlotState::kRunning);
}

TEST_F(AgentCoordinatorTest, CoordinatorThatShutsDownEndsTheNode) {
  Serve(TestNode({"stubborn"}));
  AgentHarness agent;
  agent.Start(Params());
  const pid_t node = agent.ReadState("running").value("pid", 0);
  ASSERT_GT(node, 0);
  coordinator_->Shutdown();
  EXPECT_EQ(agent.ReadEvent("error").value("code", ""), "CANCELLED");
  EXPECT_EQ(agent.WaitExit(), 3);
  EXPECT_TRUE(WaitGone(node));
}

TEST_F(AgentCoordinatorTest, CoordinatorKilledWithoutAWordEndsTheNodeWithinTheLease) {
  AgentHarness coordinator("test_coordinator", {TestFile("test_node"), "stubborn"});
  const Json reach = coordinator.ReadLine();
  ASSERT_TRUE(reach.is_object());
  AgentHarness agent;
  agent.Start({{"coordinator", reach}, {"working_dir", dir_.path()}});
  const pid_t node = agent.ReadState("running").value("pid", 0);
  ASSERT_GT(node, 0);
  kill(coordinator.pid(), SIGKILL);
  const Json error = agent.ReadEvent("error");
  EXPECT_EQ(error.value("code", ""), "UNAVAILABLE");
  EXPECT_THAT(error.value("message", ""), HasSubstr("within its lease of 1s"));
  EXPECT_EQ(agent.WaitExit(), 3);
  EXPECT_TRUE(WaitGone(node));
}

}  // namespace
}  // namespace millrace
