// Agents of one host that share a connection, against the real coordinator.

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/agent/agent_harness.h"
#include "core/agent/link/relay_socket.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/random.h"
#include "core/base/status_matchers.h"
#include "core/base/unique_fd.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/net/socket_address.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kWait = absl::Seconds(60);

// The processes of this test's agents that are relays: they have its mark in their environment.
std::vector<pid_t> Relays(const std::string& mark) {
  std::vector<pid_t> relays;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
    pid_t pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    const auto line = ReadFile(absl::StrCat("/proc/", pid, "/cmdline"));
    const auto environment = ReadFile(absl::StrCat("/proc/", pid, "/environ"));
    if (line.ok() && environment.ok() && absl::StrContains(*environment, mark) &&
        absl::StrContains(*line, absl::string_view("\0relay\0", 7))) {
      relays.push_back(pid);
    }
  }
  return relays;
}

// Connections to `port` that stand, of this machine.
int ConnectionsTo(int port) {
  int count = 0;
  const std::string wanted = absl::StrCat(":", absl::Hex(port, absl::kZeroPad4));
  for (const char* family : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(family);
    std::string line;
    while (std::getline(table, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state;
      words >> number >> local >> remote >> state;
      if (state == "01" && absl::EndsWithIgnoreCase(remote, wanted)) ++count;
    }
  }
  return count;
}

class AgentRelayTest : public ::testing::Test {
 protected:
  AgentRelayTest() : dir_(*TempDir::Create("agent_test")), mark_("RELAY_TEST=" + RandomHex(8)) {}
  ~AgentRelayTest() override {
    agents_.clear();
    EXPECT_TRUE(Eventually([&] { return Relays(mark_).empty(); })) << "a relay is left behind";
  }

  void Serve(int agents) {
    CoordinatorOptions options;
    options.roles = *DealRoles({.num_executors = agents});
    options.failure.stop_grace = absl::Milliseconds(500);
    options.program.path = TestFile("test_node");
    options.program.args = {"stubborn"};
    options.lost_after = absl::Seconds(60);  // this machine may be busy
    auto coordinator = Coordinator::Start(std::move(options));
    ASSERT_THAT(coordinator, IsOk());
    coordinator_ = *std::move(coordinator);
  }

  Json Endpoint() const {
    return {{"address", coordinator_->address()},
            {"ca_pem", coordinator_->ca_pem()},
            {"identity_pem", coordinator_->agent_identity_pem()},
            {"token", coordinator_->tokens().agent}};
  }
  int port() const { return ParseHostPort(coordinator_->address())->port; }

  AgentHarness& Add(int executor_id, const Json& endpoint) {
    agents_.push_back(std::make_unique<AgentHarness>(
        std::vector<std::string>{"agent", "--parent=stdin"}, std::vector<std::string>{mark_}));
    agents_.back()->Start({{"coordinator", endpoint},
                           {"executor_id", executor_id},
                           {"share_connection", true},
                           {"working_dir", dir_.path()}});
    return *agents_.back();
  }
  AgentHarness& Add(int executor_id) { return Add(executor_id, Endpoint()); }

  void ServeAndRun(int agents) {
    Serve(agents);
    for (int id = 0; id < agents; ++id) Add(id);
    ASSERT_THAT(coordinator_->WaitRunning(kWait), IsOk());
  }

  bool Attached(int id) const { return coordinator_->Snapshot().slots[id].attached; }
  int64_t NodePid(int id) const { return coordinator_->Snapshot().slots[id].node_pid; }

  TempDir dir_;
  const std::string mark_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<AgentHarness>> agents_;
};

TEST_F(AgentRelayTest, AgentsOfAHostHaveOneConnectionAndLeaveNoRelay) {
  ServeAndRun(3);
  EXPECT_EQ(ConnectionsTo(port()), 1);
  EXPECT_THAT(Relays(mark_), SizeIs(1));
  EXPECT_EQ(coordinator_->Snapshot().slots[2].address.substr(0, 10), "127.0.0.1:");
  coordinator_->Stop(NodeFilter::kAll, "enough");
  EXPECT_THAT(coordinator_->WaitEnded(NodeFilter::kAll, kWait), IsOk());
  for (const auto& agent : agents_) EXPECT_EQ(agent->WaitExit(), 0) << agent->stderr_text();
  EXPECT_THAT(coordinator_->first_cause(), IsOk());
}

TEST_F(AgentRelayTest, NodesGoOnWhenTheRelayIsKilled) {
  ServeAndRun(3);
  const std::vector<pid_t> before = Relays(mark_);
  ASSERT_THAT(before, SizeIs(1));
  const int64_t node = NodePid(1);
  kill(before[0], SIGKILL);
  ASSERT_TRUE(Eventually([&] {
    const std::vector<pid_t> now = Relays(mark_);
    return now.size() == 1 && now != before && Attached(0) && Attached(1) && Attached(2);
  }));
  EXPECT_EQ(ConnectionsTo(port()), 1);
  EXPECT_EQ(NodePid(1), node);
  EXPECT_EQ(coordinator_->Snapshot().slots[1].attempt, 0u);
  EXPECT_THAT(coordinator_->first_cause(), IsOk());
}

TEST_F(AgentRelayTest, OthersKeepTheRelayOfAnAgentThatIsKilled) {
  Serve(3);
  AgentHarness& first = Add(0);
  ASSERT_FALSE(first.ReadState("registered").is_null());
  const std::vector<pid_t> relay = Relays(mark_);
  ASSERT_THAT(relay, SizeIs(1));
  Add(1);
  Add(2);
  ASSERT_THAT(coordinator_->WaitRunning(kWait), IsOk());
  kill(first.pid(), SIGKILL);
  ASSERT_TRUE(Eventually([&] { return !Attached(0); }));
  EXPECT_EQ(Relays(mark_), relay);
  EXPECT_TRUE(Attached(1));
  EXPECT_TRUE(Attached(2));
  // And their last words arrive by it.
  coordinator_->Stop(NodeFilter::kAll, "enough");
  EXPECT_EQ(agents_[1]->WaitExit(), 0);
  EXPECT_EQ(agents_[2]->WaitExit(), 0);
  EXPECT_TRUE(
      Eventually([&] { return coordinator_->Snapshot().slots[1].state == SlotState::kFinished; }));
}

TEST_F(AgentRelayTest, ARefusalReachesTheAgentThatItIsFor) {
  ServeAndRun(2);
  AgentHarness& again = Add(1);
  EXPECT_EQ(again.ReadEvent("error").value("code", ""), "ALREADY_EXISTS");
  EXPECT_EQ(again.WaitExit(), 3);
  AgentHarness& far = Add(7);
  EXPECT_EQ(far.ReadEvent("error").value("code", ""), "NOT_FOUND");
  EXPECT_EQ(far.WaitExit(), 3);
  EXPECT_TRUE(Attached(0));
  EXPECT_TRUE(Attached(1));
}

TEST_F(AgentRelayTest, ACoordinatorThatShutsDownEndsTheNodes) {
  ServeAndRun(2);
  coordinator_->Shutdown();
  for (const auto& agent : agents_) {
    EXPECT_EQ(agent->ReadEvent("error").value("code", ""), "CANCELLED");
    EXPECT_EQ(agent->WaitExit(), 3);
  }
}

TEST_F(AgentRelayTest, AgentsSayWhyACoordinatorIsNotReached) {
  Serve(1);
  const Json endpoint = Endpoint();
  Json wrong = endpoint;
  wrong["token"] = "another";
  AgentHarness& agent = Add(0, wrong);
  const Json error = agent.ReadEvent("error");
  EXPECT_EQ(error.value("code", ""), "UNAUTHENTICATED");
  EXPECT_THAT(error.value("message", ""), HasSubstr("does not know this agent's token"));
  EXPECT_EQ(agent.WaitExit(), 3);

  coordinator_->Shutdown();
  agents_.push_back(std::make_unique<AgentHarness>(
      std::vector<std::string>{"agent", "--parent=stdin"}, std::vector<std::string>{mark_}));
  agents_.back()->Start({{"coordinator", endpoint},
                         {"share_connection", true},
                         {"connect_timeout_ms", 1500},
                         {"working_dir", dir_.path()}});
  const Json late = agents_.back()->ReadEvent("error");
  EXPECT_EQ(late.value("code", ""), "UNAVAILABLE");
  EXPECT_THAT(late.value("message", ""), HasSubstr("cannot attach to the coordinator at"));
  EXPECT_EQ(agents_.back()->WaitExit(), 3);
}

TEST_F(AgentRelayTest, AnAgentGoesAloneWhereWhatListensIsNoRelay) {
  Serve(1);
  const Json endpoint = Endpoint();
  absl::StatusOr<RelayEnds> squatter =
      ReachRelay(RelayName({.address = endpoint["address"],
                            .ca_pem = endpoint["ca_pem"],
                            .identity_pem = endpoint["identity_pem"],
                            .token = endpoint["token"]}));
  ASSERT_THAT(squatter, IsOk());
  ASSERT_TRUE(squatter->listening.valid());
  Add(0);
  // The first connection is the squatter's own.
  ASSERT_TRUE(Eventually([&] {
    const UniqueFd own(accept4(squatter->listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return own.valid();
  }));
  UniqueFd agent;
  ASSERT_TRUE(Eventually([&] {
    agent.reset(accept4(squatter->listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return agent.valid();
  }));
  const std::string noise(kMaxGreetingBytes + 1, 'x');
  ASSERT_EQ(send(agent.get(), noise.data(), noise.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(noise.size()));
  EXPECT_THAT(coordinator_->WaitRunning(kWait), IsOk());
  EXPECT_THAT(Relays(mark_), IsEmpty());
  EXPECT_EQ(ConnectionsTo(port()), 1);
}

}  // namespace
}  // namespace millrace
