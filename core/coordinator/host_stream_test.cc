// The agents of one host on one stream (AttachHost), against a real coordinator.

#include <chrono>  // grpc::ClientContext takes a time_point
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status_matchers.h"
#include "core/coordinator/coordinator.h"
#include "core/coordinator/coordinator_testing.h"
#include "core/coordinator/fake_agent.h"
#include "core/proto/coordinator.grpc.pb.h"
#include "core/proto/coordinator.pb.h"
#include "core/proto/spec_proto.h"
#include "gmock/gmock.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "millrace/cluster_spec.h"
#include "testing/eventually.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

// One host, whose channels are told apart in what it has read. Blocking, for at most a minute.
class FakeHost {
 public:
  explicit FakeHost(const Coordinator& coordinator, const std::string& token = "")
      : stub_(v1::Coordinator::NewStub(MakeAgentChannel(coordinator.address(), coordinator.ca_pem(),
                                                        coordinator.agent_identity_pem()))) {
    context_.AddMetadata("authorization",
                         "Bearer " + (token.empty() ? coordinator.tokens().agent : token));
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    stream_ = stub_->AttachHost(&context_);
  }

  static v1::AgentMessage Hello(int executor_id, const std::string& agent_id) {
    v1::AgentMessage message;
    v1::Register* hello = message.mutable_register_();
    hello->set_protocol(2);
    hello->set_agent_id(agent_id);
    hello->set_executor_id(executor_id);
    hello->set_host("fake-host");
    hello->set_pid(1);
    hello->set_address(absl::StrCat("127.0.0.1:", 1000 + executor_id));
    hello->set_public_key(MakePublicKey());
    return message;
  }

  static v1::AgentMessage Node(v1::NodeState state) {
    v1::AgentMessage message;
    message.mutable_node()->set_state(state);
    message.mutable_node()->set_pid(4242);
    return message;
  }

  static v1::AgentMessage Exit(int code) {
    v1::AgentMessage message = Node(v1::NODE_STATE_EXITED);
    message.mutable_node()->mutable_exit()->set_code(code);
    return message;
  }

  static void Add(uint32_t channel, const v1::AgentMessage& said, v1::HostMessage* message) {
    v1::HostPart* part = message->add_parts();
    part->add_channels(channel);
    part->set_message(said.SerializeAsString());
  }

  void Send(const v1::HostMessage& message) { stream_->Write(message); }
  void Send(uint32_t channel, const v1::AgentMessage& said) {
    v1::HostMessage message;
    Add(channel, said, &message);
    Send(message);
  }
  // The agent is through, or its stream has broken.
  void End(uint32_t channel, const absl::Status& status = absl::OkStatus()) {
    v1::HostMessage message;
    v1::HostPart* part = message.add_parts();
    part->add_channels(channel);
    part->mutable_end();
    if (!status.ok()) {
      part->mutable_end()->mutable_error()->set_code(static_cast<int>(status.code()));
      part->mutable_end()->mutable_error()->set_message(std::string(status.message()));
    }
    Send(message);
  }
  // `count` agents, on channels from 1, for slots from `first`.
  void Register(int count, int first = 0) {
    v1::HostMessage message;
    for (int i = 0; i < count; ++i) {
      v1::AgentMessage hello = Hello(first + i, absl::StrCat("agent-", first + i));
      hello.mutable_register_()->set_takes_columns(takes_columns);
      Add(static_cast<uint32_t>(i + 1), hello, &message);
    }
    Send(message);
  }

  // The agent of `slot`, which was on channel `before`, with the spec that it got there.
  void ComeBack(int slot, uint32_t before, uint32_t channel) {
    v1::AgentMessage hello = Hello(slot, absl::StrCat("agent-", slot));
    hello.mutable_register_()->set_spec_epoch(epochs_[before]);
    epochs_[channel] = epochs_[before];
    specs[channel] = specs[before];
    Send(channel, hello);
  }

  // Reads until `done`; false if the stream has ended before.
  bool ReadUntil(absl::FunctionRef<bool()> done) {
    while (!done()) {
      v1::HostMessage message;
      if (!stream_->Read(&message)) return done();
      for (const v1::HostPart& part : message.parts()) Take(part);
    }
    return true;
  }
  bool ReadSpecs(size_t count) {
    return ReadUntil([&] { return specs.size() == count; });
  }
  bool ReadEnds(size_t count) {
    return ReadUntil([&] { return ends.size() == count; });
  }

  // Half-closes and reads what is left.
  absl::Status Finish() {
    stream_->WritesDone();
    return Status();
  }
  // Reads to the end of the stream.
  absl::Status Status() {
    ReadUntil([] { return false; });
    const grpc::Status status = stream_->Finish();
    return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  }
  void Cancel() { context_.TryCancel(); }

  std::map<uint32_t, v1::Registered> registered;
  std::map<uint32_t, ClusterSpec> specs;
  std::map<uint32_t, absl::Status> ends;
  std::map<uint32_t, std::vector<v1::Stop>> stops;
  size_t spec_parts = 0;       // that brought a whole spec
  size_t spec_bytes = 0;       // of these
  size_t column_parts = 0;     // of these, in columns
  bool takes_columns = false;  // what Register() says
  size_t stop_parts = 0;

 private:
  void Take(const v1::HostPart& part) {
    v1::CoordinatorMessage message;
    EXPECT_TRUE(message.ParseFromString(part.message()));
    spec_parts += message.has_spec() ? 1 : 0;
    spec_bytes += message.has_spec() ? part.message().size() : 0;
    column_parts += message.spec().zlib_columns().empty() ? 0 : 1;
    stop_parts += message.has_stop() ? 1 : 0;
    for (const uint32_t channel : part.channels()) {
      EXPECT_EQ(ends.count(channel), 0u) << "channel " << channel << " has ended";
      if (message.has_registered()) registered[channel] = message.registered();
      if (message.has_stop()) stops[channel].push_back(message.stop());
      if (message.has_spec()) {
        EXPECT_THAT(ApplySpecUpdate(message.spec(), &epochs_[channel], &specs[channel]), IsOk());
      }
      if (part.has_end()) {
        ends[channel] = absl::Status(static_cast<absl::StatusCode>(part.end().error().code()),
                                     part.end().error().message());
      }
    }
  }

  std::map<uint32_t, uint64_t> epochs_;  // of specs
  std::unique_ptr<v1::Coordinator::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::HostMessage, v1::HostMessage>> stream_;
};

// Of workers only.
std::unique_ptr<Coordinator> StartPatient(int num_executors, absl::Duration heartbeat_interval,
                                          absl::Duration lost_after) {
  CoordinatorOptions options;
  options.roles = *DealRoles({.num_executors = num_executors});
  options.program.path = "/bin/true";
  options.heartbeat_interval = heartbeat_interval;
  options.lost_after = lost_after;
  auto coordinator = Coordinator::Start(std::move(options));
  EXPECT_THAT(coordinator, IsOk());
  return *std::move(coordinator);
}

SlotState StateOf(const Coordinator& coordinator, int id) {
  return coordinator.Snapshot().slots[static_cast<size_t>(id)].state;
}

TEST(HostStreamTest, AgentsOfAHostAreSlotsOfTheirOwnAndGetOneCopyOfTheSpec) {
  auto coordinator = StartCluster(10);
  FakeHost host(*coordinator);
  host.Register(10);
  ASSERT_TRUE(host.ReadSpecs(10));
  EXPECT_EQ(host.spec_parts, 1u);
  std::set<std::string> nonces;
  std::set<std::string> certificates;
  v1::HostMessage running;
  for (uint32_t channel = 1; channel <= 10; ++channel) {
    EXPECT_EQ(host.registered[channel].executor_id(), static_cast<int>(channel) - 1);
    EXPECT_EQ(host.specs[channel].total_tasks(), 10u);
    nonces.insert(host.registered[channel].nonce());
    certificates.insert(host.registered[channel].certificate_pem());
    FakeHost::Add(channel, FakeHost::Node(v1::NODE_STATE_RUNNING), &running);
  }
  EXPECT_EQ(nonces.size(), 10u);
  EXPECT_EQ(certificates.size(), 10u);
  host.Send(running);
  EXPECT_THAT(coordinator->WaitRunning(kLong), IsOk());

  // The end of one is its own.
  host.Send(3, FakeHost::Exit(0));
  host.End(3);
  ASSERT_TRUE(host.ReadEnds(1));
  EXPECT_THAT(host.ends[3], IsOk());
  EXPECT_EQ(StateOf(*coordinator, 2), SlotState::kFinished);
  EXPECT_EQ(StateOf(*coordinator, 1), SlotState::kRunning);

  coordinator->Stop(NodeFilter::kAll, "done");
  ASSERT_TRUE(host.ReadUntil([&] { return host.stops.size() == 9; }));
  EXPECT_EQ(host.stops.count(3), 0u);
  for (uint32_t channel = 1; channel <= 10; ++channel) {
    if (channel == 3) continue;
    host.Send(channel, FakeHost::Exit(0));
    host.End(channel);
  }
  EXPECT_THAT(coordinator->WaitEnded(NodeFilter::kAll, kLong), IsOk());
  EXPECT_THAT(host.Finish(), IsOk());
  EXPECT_EQ(host.ends.size(), 10u);
  EXPECT_THAT(coordinator->first_cause(), IsOk());
}

// Hosts with `agents` each, in order of their slots; `takes_columns` is asked for each host.
std::vector<std::unique_ptr<FakeHost>> RegisterHosts(const Coordinator& coordinator, int hosts,
                                                     int agents,
                                                     absl::FunctionRef<bool(int)> takes_columns) {
  std::vector<std::unique_ptr<FakeHost>> registered;
  for (int i = 0; i < hosts; ++i) {
    registered.push_back(std::make_unique<FakeHost>(coordinator));
    registered.back()->takes_columns = takes_columns(i);
    registered.back()->Register(agents, i * agents);
  }
  return registered;
}

// What is pushed would else grow with the square of the nodes, and so would the time to encode it.
TEST(HostStreamTest, TheSpecIsEncodedOnceAndPushedOnceToEachHost) {
  constexpr int kHosts = 4;
  constexpr int kAgents = 5;
  auto coordinator = StartCluster(kHosts * kAgents);
  const auto hosts =
      RegisterHosts(*coordinator, kHosts, kAgents, [](int /*host*/) { return false; });
  for (const auto& host : hosts) {
    ASSERT_TRUE(host->ReadSpecs(kAgents));
    EXPECT_EQ(host->spec_parts, 1u);
  }
  const size_t size = MakeSpecUpdate(coordinator->spec(), 1).ByteSizeLong();
  for (const auto& host : hosts) EXPECT_LE(host->spec_bytes, size + 16);
  EXPECT_EQ(CoordinatorPeer::SpecsEncoded(*coordinator), 1u);

  // Whoever comes back gets what was encoded for all, as long as nothing has changed.
  hosts[0]->Send(kAgents + 1, FakeHost::Hello(0, "agent-0"));
  ASSERT_TRUE(hosts[0]->ReadSpecs(kAgents + 1));
  EXPECT_EQ(CoordinatorPeer::SpecsEncoded(*coordinator), 1u);

  // A change is told to all by itself.
  v1::AgentMessage moved = FakeHost::Hello(1, "agent-1");
  moved.mutable_register_()->set_address("127.0.0.1:9");
  hosts[0]->Send(kAgents + 2, moved);
  for (size_t i = 1; i < hosts.size(); ++i) {
    ASSERT_TRUE(hosts[i]->ReadUntil(
        [&] { return *hosts[i]->specs[1].TaskAddress("worker", 1) == "127.0.0.1:9"; }));
    EXPECT_LE(hosts[i]->spec_bytes, size + 128);
  }
  ASSERT_TRUE(hosts[0]->ReadSpecs(kAgents + 2));
  EXPECT_EQ(CoordinatorPeer::SpecsEncoded(*coordinator), 2u);
}

// Else a host whose connection broke would be sent as many whole specs as it has agents.
TEST(HostStreamTest, AgentsThatComeBackWithTheCurrentSpecAreNotSentItAgain) {
  auto coordinator = StartCluster(4);
  FakeHost host(*coordinator);
  host.Register(4);
  ASSERT_TRUE(host.ReadSpecs(4));
  for (int slot = 0; slot < 3; ++slot) host.ComeBack(slot, 1 + slot, 5 + slot);
  host.Send(8, FakeHost::Hello(3, "agent-3"));  // whose stream broke before it was sent any
  ASSERT_TRUE(host.ReadUntil([&] { return host.specs.count(8) == 1; }));
  EXPECT_EQ(host.registered.size(), 8u);
  EXPECT_EQ(host.spec_parts, 2u);

  // What changes then they are told.
  v1::AgentMessage moved = FakeHost::Hello(3, "agent-3");
  moved.mutable_register_()->set_address("127.0.0.1:9");
  host.Send(9, moved);
  for (const uint32_t channel : {5, 6, 7}) {
    ASSERT_TRUE(host.ReadUntil(
        [&] { return *host.specs[channel].TaskAddress("worker", 3) == "127.0.0.1:9"; }));
  }
}

TEST(HostStreamTest, ASpecGoesInColumnsToAgentsThatTakeThem) {
  constexpr int kHosts = 4;
  constexpr int kAgents = 5;
  auto coordinator = StartCluster(kHosts * kAgents);
  const auto takes_columns = [](int host) { return host % 2 == 0; };  // the others: earlier ones
  const auto hosts = RegisterHosts(*coordinator, kHosts, kAgents, takes_columns);
  for (int i = 0; i < kHosts; ++i) {
    FakeHost& host = *hosts[static_cast<size_t>(i)];
    ASSERT_TRUE(host.ReadSpecs(kAgents));
    EXPECT_EQ(host.spec_parts, 1u);
    EXPECT_EQ(host.column_parts, takes_columns(i) ? 1u : 0u);
    for (const auto& [channel, spec] : host.specs) EXPECT_EQ(spec, coordinator->spec());
  }
  EXPECT_EQ(CoordinatorPeer::SpecsEncoded(*coordinator), 2u);  // once in each format
}

TEST(HostStreamTest, WhatAllAgentsOfAHostAreToldAtOnceIsSaidOnce) {
  auto coordinator = StartCluster(5);
  FakeHost host(*coordinator);
  host.Register(5);
  ASSERT_TRUE(host.ReadSpecs(5));
  coordinator->Stop(NodeFilter::kAll, "done");
  ASSERT_TRUE(host.ReadUntil([&] { return host.stops.size() == 5; }));
  EXPECT_EQ(host.stop_parts, 1u);
  EXPECT_EQ(host.stops[5].at(0).reason(), "done");
}

TEST(HostStreamTest, AgentsOfALargeClusterAreToSayLessOftenThatTheyLive) {
  CoordinatorOptions options;
  options.roles.resize(10'000);
  EXPECT_EQ(PacedHeartbeatInterval(options), absl::Seconds(1));
  options.roles.resize(75'000);
  EXPECT_EQ(PacedHeartbeatInterval(options), absl::Seconds(1.5));
  options.roles.resize(200'000);
  EXPECT_EQ(PacedHeartbeatInterval(options), absl::Seconds(2));  // of the 5 s of lost_after
  options.heartbeat_interval = absl::Seconds(3);
  options.lost_after = absl::Seconds(6);
  EXPECT_EQ(PacedHeartbeatInterval(options), absl::Seconds(3));
}

TEST(HostStreamTest, ARefusedAgentEndsAloneWithItsReason) {
  auto coordinator = StartCluster(2);
  FakeHost host(*coordinator);
  v1::HostMessage message;
  FakeHost::Add(1, FakeHost::Hello(0, "a"), &message);
  FakeHost::Add(2, FakeHost::Hello(7, "b"), &message);                 // no such slot
  FakeHost::Add(3, FakeHost::Hello(0, "c"), &message);                 // taken
  FakeHost::Add(4, FakeHost::Node(v1::NODE_STATE_RUNNING), &message);  // not registered
  FakeHost::Add(1, FakeHost::Node(v1::NODE_STATE_RUNNING), &message);  // before its spec
  message.add_parts()->add_channels(5);                                // a heartbeat
  v1::HostPart* garbage = message.add_parts();
  garbage->add_channels(6);
  garbage->set_message("\xff\xff");
  host.Send(message);
  ASSERT_TRUE(host.ReadEnds(5));
  EXPECT_THAT(host.ends[2], StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(host.ends[3], StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(host.ends[4],
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be Register")));
  EXPECT_THAT(host.ends[5],
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must be Register")));
  EXPECT_THAT(host.ends[6],
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("not an AgentMessage")));
  // A channel that has ended is not opened again.
  host.Send(2, FakeHost::Hello(1, "b"));
  host.Send(7, FakeHost::Hello(1, "b"));
  ASSERT_TRUE(host.ReadSpecs(2));
  EXPECT_EQ(host.registered.count(2), 0u);
  EXPECT_EQ(host.registered[7].executor_id(), 1);
}

TEST(HostStreamTest, AgentsAttachAgainAfterTheirHostsStreamHasBroken) {
  // Nobody is given up for being silent.
  const auto coordinator = StartPatient(3, absl::Seconds(1), absl::Hours(1));
  auto host = std::make_unique<FakeHost>(*coordinator);
  host->Register(3);
  ASSERT_TRUE(host->ReadSpecs(3));
  const std::string nonce = host->registered[2].nonce();
  host->Cancel();
  EXPECT_THAT(host->Status(), StatusIs(absl::StatusCode::kCancelled));
  ASSERT_TRUE(Eventually([&] {
    const ClusterStatus status = coordinator->Snapshot();
    return !status.slots[0].attached && !status.slots[1].attached && !status.slots[2].attached;
  }));

  // By another host stream, or by one of its own.
  FakeHost again(*coordinator);
  v1::HostMessage message;
  FakeHost::Add(1, FakeHost::Hello(0, "agent-0"), &message);
  FakeHost::Add(2, FakeHost::Hello(1, "agent-1"), &message);
  again.Send(message);
  ASSERT_TRUE(again.ReadSpecs(2));
  EXPECT_EQ(again.registered[2].nonce(), nonce);
  FakeAgentOptions options = FakeAgentOptions::For(*coordinator);
  options.executor_id = 2;
  options.agent_id = "agent-2";
  FakeAgent alone(options);
  EXPECT_TRUE(alone.WaitRegistered());
  EXPECT_THAT(coordinator->first_cause(), IsOk());

  // A newer stream of an agent takes the place of its channel, and of no other.
  options.executor_id = 1;
  options.agent_id = "agent-1";
  FakeAgent newer(options);
  EXPECT_TRUE(newer.WaitRegistered());
  ASSERT_TRUE(again.ReadEnds(1));
  EXPECT_THAT(again.ends[2], StatusIs(absl::StatusCode::kAborted));
  EXPECT_TRUE(coordinator->Snapshot().slots[0].attached);
}

TEST(HostStreamTest, OneHeartbeatIsForAllOfAHostsAgentsAndNoOthers) {
  const auto coordinator = StartPatient(3, absl::Milliseconds(100), absl::Milliseconds(700));
  FakeHost host(*coordinator);
  host.Register(3);
  ASSERT_TRUE(host.ReadSpecs(3));
  v1::HostMessage running;
  for (uint32_t i = 1; i <= 3; ++i) {
    FakeHost::Add(i, FakeHost::Node(v1::NODE_STATE_RUNNING), &running);
  }
  host.Send(running);
  ASSERT_THAT(coordinator->WaitRunning(kLong), IsOk());
  v1::HostMessage alive;
  alive.add_alive(1);
  alive.add_alive(3);
  alive.add_alive(99);  // of no agent
  ASSERT_TRUE(Eventually([&] {
    host.Send(alive);
    return !coordinator->first_cause().ok();
  }));
  EXPECT_THAT(coordinator->first_cause().message(), HasSubstr("worker:1 "));
  EXPECT_EQ(StateOf(*coordinator, 0), SlotState::kRunning);
  EXPECT_EQ(StateOf(*coordinator, 2), SlotState::kRunning);
}

TEST(HostStreamTest, WhatNoHostMaySayEndsTheStream) {
  auto coordinator = StartCluster(1);
  for (const std::vector<uint32_t>& channels :
       std::vector<std::vector<uint32_t>>{{}, {0}, {1, 2}}) {
    FakeHost host(*coordinator);
    v1::HostMessage message;
    message.add_parts()->mutable_channels()->Add(channels.begin(), channels.end());
    host.Send(message);
    EXPECT_THAT(host.Status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HostPart.channels")));
  }
  FakeHost stranger(*coordinator, coordinator->tokens().viewer);
  EXPECT_THAT(stranger.Status(), StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(HostStreamTest, AShutdownEndsEveryChannel) {
  auto coordinator = StartCluster(2);
  FakeHost host(*coordinator);
  host.Register(2);
  ASSERT_TRUE(host.ReadSpecs(2));
  coordinator->Shutdown();
  EXPECT_FALSE(host.Status().ok());
  ASSERT_EQ(host.ends.size(), 2u);
  EXPECT_THAT(host.ends[1], StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(host.ends[2], StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace millrace
