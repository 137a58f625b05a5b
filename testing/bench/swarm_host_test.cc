// The simulated hosts of agent_swarm against a real coordinator.

#include "testing/bench/swarm_host.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/json.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/fake_agent.h"
#include "core/coordinator/state/role_dealer.h"
#include "core/net/socket_address.h"
#include "gtest/gtest.h"
#include "testing/eventually.h"
#include "testing/ledger/tcp_fault_proxy.h"

namespace millrace::bench {
namespace {

constexpr int kSlotsPerHost = 5;

std::unique_ptr<Coordinator> StartWorkers(int count) {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = count});
  options.program.path = "/bin/true";
  options.input_mode = InputMode::kDirect;
  options.lost_after = absl::Seconds(60);
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

SwarmSetup SetupFor(const Coordinator& coordinator, int agents) {
  return {.address = coordinator.address(),
          .ca_pem = coordinator.ca_pem(),
          .identity_pem = coordinator.agent_identity_pem(),
          .token = coordinator.tokens().agent,
          .public_key = MakePublicKey(),
          .agents = agents,
          .slots_per_host = kSlotsPerHost};
}

int Registered(const Coordinator& coordinator) {
  const ClusterStatus status = coordinator.Snapshot();
  return static_cast<int>(
      std::count_if(status.slots.begin(), status.slots.end(), [](const SlotStatus& slot) {
        return slot.state == SlotState::kRegistered && slot.attached;
      }));
}

TEST(SwarmHostTest, AHostWhoseStreamBreaksDialsAgainAndItsAgentsKeepTheirSlots) {
  auto coordinator = StartWorkers(2 * kSlotsPerHost);
  SwarmSetup setup = SetupFor(*coordinator, 2 * kSlotsPerHost);
  const auto server = ParseHostPort(setup.address);
  ASSERT_THAT(server, IsOk());
  auto proxy = TcpFaultProxy::Start(server->port, [](bool) { return TcpFault(); });
  ASSERT_THAT(proxy, IsOk());
  setup.address = absl::StrCat("127.0.0.1:", (*proxy)->port());
  SwarmTally tally(setup);
  SwarmTimer timer;
  {
    SwarmHost first(setup, 0, kSlotsPerHost, &tally, &timer);
    ASSERT_TRUE(Eventually([&] { return Registered(*coordinator) == kSlotsPerHost; }));
    EXPECT_EQ(tally.redials(), 0);
    (*proxy)->CutAll();
    ASSERT_TRUE(Eventually([&] { return tally.redials() > 0; }));
    ASSERT_TRUE(Eventually([&] { return Registered(*coordinator) == kSlotsPerHost; }));

    SwarmHost second(setup, kSlotsPerHost, kSlotsPerHost, &tally, &timer);
    const Json arrived = tally.WaitForAll();
    EXPECT_EQ(arrived.value("error", ""), "");
    EXPECT_GE(arrived.value("redials", 0), 1);
    for (const SlotStatus& slot : coordinator->Snapshot().slots) EXPECT_EQ(slot.attempt, 0u);
    timer.Stop();
  }
}

// A host that has a cluster of its own, and whose agents have all arrived.
struct ArrivedHost {
  ArrivedHost() { EXPECT_EQ(tally.WaitForAll().value("error", ""), ""); }
  ~ArrivedHost() { timer.Stop(); }

  const std::unique_ptr<Coordinator> coordinator = StartWorkers(kSlotsPerHost);
  const SwarmSetup setup = SetupFor(*coordinator, kSlotsPerHost);
  SwarmTally tally{setup};
  SwarmTimer timer;
  SwarmHost host{setup, 0, kSlotsPerHost, &tally, &timer};
};

TEST(SwarmHostTest, AllAgentsOfAHostAreToldOfTheEnd) {
  ArrivedHost arrived;
  arrived.coordinator->Stop(NodeFilter::kAll, "the test is over", /*now=*/true);
  EXPECT_EQ(arrived.tally.WaitForStops(/*dead=*/0).value("told", 0), kSlotsPerHost);
}

TEST(SwarmHostTest, WhatWaitsIsFlushedNoMoreOftenForWhatIsSaidBetween) {
  ArrivedHost arrived;
  SwarmHost& host = arrived.host;
  v1::AgentMessage running;
  running.mutable_node()->set_state(v1::NODE_STATE_RUNNING);
  EXPECT_TRUE(host.Beat(0));
  host.Send(1, running.SerializeAsString());  // takes the heartbeat along
  EXPECT_FALSE(host.Beat(2));
  EXPECT_FALSE(host.Sample(3, running.SerializeAsString()));
  host.FlushWaiting();
  EXPECT_TRUE(host.Sample(4, running.SerializeAsString()));
  host.FlushWaiting();
  EXPECT_TRUE(host.Beat(0));
}

TEST(SwarmHostTest, WhoIsTurnedAwayForGoodDoesNotDialAgain) {
  auto coordinator = StartWorkers(kSlotsPerHost);
  SwarmSetup setup = SetupFor(*coordinator, kSlotsPerHost);
  setup.token = "not the token";
  SwarmTally tally(setup);
  SwarmTimer timer;
  {
    SwarmHost host(setup, 0, kSlotsPerHost, &tally, &timer);
    EXPECT_NE(tally.WaitForAll().value("error", ""), "");
    EXPECT_EQ(tally.redials(), 0);
    timer.Stop();
  }
}

}  // namespace
}  // namespace millrace::bench
