// Three hundred agents at once, each with its own TLS connection.

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace millrace {
namespace {

constexpr int kAgents = 300;

TEST(JoinTest, ThreeHundredAgentsJoinAtOnceAndEndTogether) {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = kAgents, .num_ps = 4, .master_node = "chief"});
  options.program.path = "/bin/true";
  options.lost_after = absl::Seconds(60);  // this machine may be busy
  auto coordinator = Coordinator::Start(std::move(options));
  ASSERT_THAT(coordinator, IsOk());
  FakeAgentGroup agents(FakeAgentOptions::For(**coordinator), kAgents);
  ASSERT_THAT((*coordinator)->WaitRunning(absl::Seconds(100)), IsOk());

  std::set<int> executors;
  std::set<std::string> nonces;
  for (int i = 0; i < kAgents; ++i) {
    executors.insert(agents.agent(i).registered()->executor_id());
    nonces.insert(agents.agent(i).registered()->nonce());
    EXPECT_EQ(agents.agent(i).spec().total_tasks(), size_t{kAgents});
  }
  EXPECT_EQ(executors.size(), size_t{kAgents});
  EXPECT_EQ(nonces.size(), size_t{kAgents});
  EXPECT_EQ((*coordinator)->Snapshot().epoch, 1u);

  (*coordinator)->Stop(NodeFilter::kAll, "done");
  EXPECT_THAT((*coordinator)->WaitEnded(NodeFilter::kAll, absl::Seconds(60)), IsOk());
  EXPECT_THAT((*coordinator)->first_cause(), IsOk());
}

}  // namespace
}  // namespace millrace
